"""Publishes with a condition by HTTP: headers that say one, and the answer by what the owner has decided. Pure."""

from collections.abc import Mapping
from typing import Any

import msgspec
from aiohttp import web
from coldnotify.publisher import Published
from coldnotify_common.http.json_answers import json_answer
from coldnotify_common.http.web import BadRequest, error_response
from coldnotify_schemas.records import VERSION_MAX, ConditionalRecord
from coldnotify_schemas.whole_numbers import whole_number

IF_MATCH, IF_NONE_MATCH = "If-Match", "If-None-Match"
_PUBLISHED, _REPEATED, _REFUSED, _UNDECIDABLE, _REJECTED = "published", "repeated", "refused", "undecidable", "rejected"
UNKNOWN = "unknown"


def with_headers(body: bytes, headers: Mapping[str, str]) -> bytes:
    """Returns the body of one record with the condition of If-Match: "VERSION", or of If-None-Match: *. Raises
    BadRequest, also if the body says another one."""
    match, none_match = headers.get(IF_MATCH), headers.get(IF_NONE_MATCH)
    if match is None and none_match is None:
        return body
    if match is not None and none_match is not None:
        raise BadRequest(IF_NONE_MATCH, f"cannot be combined with {IF_MATCH}")
    if match is None:
        name, said, header = "if_absent", b"true", IF_NONE_MATCH
        if none_match != "*":
            raise BadRequest(IF_NONE_MATCH, f"{str(none_match)[:80]!r} is not *")
    else:
        version = whole_number(_unquoted(match), VERSION_MAX)
        if version is None:
            raise BadRequest(IF_MATCH, f'{match[:80]!r} is not a version, as "42"')
        name, said, header = "if_version", b"%d" % version, IF_MATCH
    try:
        fields = msgspec.json.decode(body if body.strip() else b"{}", type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return body  # it is refused as it is
    if name in fields and bytes(fields[name]) != said:
        raise BadRequest(name, f"is not the condition of {header}")
    return msgspec.json.encode(fields | {name: msgspec.Raw(said)})


def _unquoted(text: str) -> str:
    text = text.strip()
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == '"' else text


def decided_answer(
    about: Mapping[str, object], record: ConditionalRecord, published: Published, item: Mapping[str, Any] | str
) -> web.Response:
    """Returns the answer. `about`: domain, group and object. `item`: what the matcher says of the record, or why it
    says nothing."""
    outcome = UNKNOWN if isinstance(item, str) else item.get("outcome", UNKNOWN)
    if isinstance(item, str) or outcome == UNKNOWN or item.get("object", about["object"]) != about["object"]:
        reason = item if isinstance(item, str) else item.get("reason", "the matcher does not say")
        words = "unknown: it may be published. Publishing it again with the same id is safe"
        return json_answer({**about, "error": f"what was decided is not known: {reason}", "outcome": words}, status=503)
    if outcome in (_PUBLISHED, _REPEATED):
        newest = item.get("newest") or {}
        version = newest.get("version", published.version)
        place = {"partition": published.partition, "offset": published.offset}
        return json_answer({**about, "version": version, **place, "outcome": outcome})
    if outcome in (_REFUSED, _UNDECIDABLE):
        field, _, words = str(item.get("reason", "")).partition(": ")
        said = {_REFUSED: _REFUSED, _UNDECIDABLE: UNKNOWN}[outcome]
        newest = item.get("newest")
        return error_response(
            409, f"{field}: {words}", field=field or record.condition, outcome=said, newest=newest, **about
        )
    reason = item.get("reason", outcome)
    return json_answer({**about, "error": f"not published: {reason}", "outcome": "not published"}, status=503)
