"""Checks the names to which a request publishes, and writes its publisher as the source.

Who may publish to some names of a group only has to be their owner.
"""

from collections.abc import Sequence

import structlog
from aiohttp import web
from coldnotify.publisher import CheckedMessage
from coldnotify_common.http.web import error_response, field_of
from coldnotify_common.http.web_auth import IDENTITY
from coldnotify_common.paced import Paced
from coldnotify_common.security.publish_rights import EVERY_NAME, NotGranted, PublishRight
from msgspec.structs import replace

from coldnotify_http.bodies import Named
from coldnotify_http.message_bodies import NamedMessage

_paced = Paced(structlog.get_logger())


def owned_records(
    request: web.Request, domain: str, group: str, records: Sequence[Named]
) -> Sequence[Named] | web.Response:
    """Returns the records as they are to be written; or the answer, if the caller may not publish one of them."""
    right = _right(request, domain, group)
    if right.every:
        return records
    try:
        return [
            (name, replace(record, source=right.publisher("object", name, record.source))) for name, record in records
        ]
    except NotGranted as error:
        return _refusal(request, error)


def owned_messages(
    request: web.Request, domain: str, group: str, messages: Sequence[NamedMessage]
) -> Sequence[NamedMessage] | web.Response:
    """Returns the messages as they are to be written; or the answer, if the caller may not send one of them."""
    right = _right(request, domain, group)
    if right.every:
        return messages
    try:
        return [
            (name, CheckedMessage(payload, said._replace(source=right.publisher("channel", name, said.source))))
            for name, (payload, said) in messages
        ]
    except NotGranted as error:
        return _refusal(request, error)


def refused_description(request: web.Request, domain: str, group: str, name: str) -> web.Response | None:
    """Returns the answer if the caller may not describe this object."""
    try:
        _right(request, domain, group).publisher("object", name, None)
    except NotGranted as error:
        return _refusal(request, error)
    return None


def _right(request: web.Request, domain: str, group: str) -> PublishRight:
    identity = request.get(IDENTITY)
    return EVERY_NAME if identity is None else identity.publish_right(domain, group)


def _refusal(request: web.Request, error: NotGranted) -> web.Response:
    _paced.log("request not allowed", path=request.path, identity=request[IDENTITY].name)
    return error_response(403, str(error), field=field_of(error))
