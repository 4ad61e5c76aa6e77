"""Hook: a webhook as it stands in the topic `coldnotify.hooks`, and the fields by which it is set. Pure.

Three records are about a hook, all of them in the partition of its domain and group: DOMAIN/GROUP/NAME is the hook
itself; NAME/status is written by who calls it; NAME/test asks for one call.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.protocol import NAME_LENGTH_MAX, QUERY_BYTES_MAX

from coldnotify_common.hooks.hook_signatures import BOTH_S, secret_of
from coldnotify_common.hooks.hook_urls import HookUrls

NAMES_MAX = 1_000
BODY_BYTES_MAX = 512 * 1024
"""Limit on the fields of a hook, with 1,000 names of 255 bytes each."""
FORMATS = ("json", "cloudevents")
CLIENT_PREFIX = "hook."
_DEAD_SUFFIX = ".dead"
_NAME_MAX = NAME_LENGTH_MAX - len(CLIENT_PREFIX) - len(_DEAD_SUFFIX)
_WANTED = ("objects", "query", "channels")
_FIELDS = {"url", "format", *_WANTED}
STATUS, TEST = "status", "test"


class InvalidHook(ValueError):
    """A field of a hook is wrong; the text begins with its name."""


@dataclass(frozen=True, kw_only=True)
class Hook:
    """One webhook. Exactly one of objects, query and channels is set."""

    domain: str
    group: str
    name: str
    url: str
    objects: tuple[str, ...] = ()
    query: str = ""
    channels: tuple[str, ...] = ()
    format: str = "json"
    revision: int
    """Unix time in ms of the last change: a suspension of an earlier one counts no more."""
    rotation: int
    """Unix time in ms of the secret; names it."""
    rotation_before: int | None = None

    @property
    def key(self) -> str:
        """The key of its record: domain/group/name."""
        return f"{self.domain}/{self.group}/{self.name}"

    @property
    def client(self) -> str:
        """The name of its client in the ledger."""
        return CLIENT_PREFIX + self.name

    @property
    def dead_channel(self) -> str:
        """The channel that gets messages which the receiver did not take in a day."""
        return CLIENT_PREFIX + self.name + _DEAD_SUFFIX

    def secrets(self, key: bytes, now_ms: int) -> list[str]:
        """Returns the secrets that sign a call now: the new one, and for a day the one before."""
        rotations = [self.rotation]
        if self.rotation_before is not None and now_ms - self.rotation < BOTH_S * 1000:
            rotations.append(self.rotation_before)
        return [secret_of(key, self.domain, self.group, self.name, one) for one in rotations]

    def rotated(self, now_ms: int) -> "Hook":
        """Returns the hook with a new secret beside the present one."""
        return replace(self, rotation=max(now_ms, self.rotation + 1), rotation_before=self.rotation)

    def shown(self) -> dict[str, Any]:
        """Returns the fields that callers may see."""
        wanted: dict[str, Any] = {"objects": list(self.objects)} if self.objects else {}
        wanted |= {"query": self.query} if self.query else {}
        wanted |= {"channels": list(self.channels)} if self.channels else {}
        return {"name": self.name, "url": self.url, **wanted, "format": self.format}


def check_hook_name(name: str) -> str:
    """Returns the name, if a hook may have it. Raises InvalidName."""
    if len(check_name("hook", name)) > _NAME_MAX:
        raise InvalidName(f"hook: {name[:80]!r} has {len(name)} characters (at most {_NAME_MAX} are allowed)")
    return name


def hook_of(
    domain: str, group: str, name: str, fields: Any, urls: HookUrls | None, now_ms: int, before: Hook | None = None
) -> Hook:
    """Returns the hook that a request sets; the secret of `before` stays. `urls`: None allows any. Raises InvalidHook,
    InvalidName, RefusedUrl."""
    if not isinstance(fields, dict):
        raise InvalidHook("hook: is not an object of fields")
    if unknown := fields.keys() - _FIELDS:
        raise InvalidHook(f"{min(unknown)}: is not a field of a hook ({', '.join(sorted(_FIELDS))})")
    url = fields.get("url")
    if not isinstance(url, str):
        raise InvalidHook("url: is missing" if url is None else "url: is not a text")
    if urls is not None:
        urls.check(url)
    if len(given := [one for one in _WANTED if fields.get(one) is not None]) != 1:
        raise InvalidHook(f"{given[1] if given else 'objects'}: exactly one of {', '.join(_WANTED)} is needed")
    form = fields.get("format", FORMATS[0])
    if form not in FORMATS:
        raise InvalidHook(f"format: {str(form)[:80]!r} is unknown, expected one of {', '.join(FORMATS)}")
    return Hook(
        domain=domain,
        group=group,
        name=check_hook_name(name),
        url=url,
        objects=_names("objects", fields.get("objects")),
        query=_query(fields.get("query")),
        channels=_names("channels", fields.get("channels")),
        format=form,
        revision=now_ms if before is None else max(now_ms, before.revision + 1),
        rotation=now_ms if before is None else before.rotation,
        rotation_before=None if before is None else before.rotation_before,
    )


def encode_hook(hook: Hook) -> bytes:
    """Returns the value of the hook's record."""
    said = {**hook.shown(), "revision": hook.revision, "rotation": hook.rotation}
    if hook.rotation_before is not None:
        said["rotation_before"] = hook.rotation_before
    return json.dumps(said, ensure_ascii=False).encode()


def parse_key(key: bytes | None) -> tuple[str, str, str, str]:
    """Returns domain, group, name and "" or the kind of a record. Raises InvalidHook."""
    parts = (key or b"").decode(errors="replace").split("/")
    if len(parts) not in (3, 4) or (kind := "".join(parts[3:])) not in ("", STATUS, TEST):
        raise InvalidHook(f"key: {(key or b'')[:80]!r} belongs to something else than a hook")
    return parts[0], parts[1], parts[2], kind


def decode_hook(key: bytes, value: bytes) -> Hook:
    """Returns the hook of a record. Its URL is judged by each call, by what is allowed then. Raises ValueError."""
    domain, group, name, _ = parse_key(key)
    check_name("domain", domain)
    check_name("group", group)
    said = json_fields(value)
    rotation, revision = (said.get(field) for field in ("rotation", "revision"))
    before = said.get("rotation_before")
    if not isinstance(rotation, int) or not isinstance(revision, int) or not isinstance(before, int | None):
        raise InvalidHook("rotation: is not a time")
    fields = {field: said[field] for field in _FIELDS & said.keys()}
    hook = hook_of(domain, group, name, fields, None, revision)
    return replace(hook, rotation=rotation, rotation_before=before)


def json_fields(value: bytes | None) -> dict[str, Any]:
    """Returns the fields of a record's value, {} for a null. Raises InvalidHook."""
    try:
        said = json.loads(value or b"{}")
    except (ValueError, RecursionError):
        raise InvalidHook("record: is not JSON") from None
    if not isinstance(said, dict):
        raise InvalidHook("record: is not an object of fields")
    return said


def shown_status(hook: Hook, status: Mapping[str, Any]) -> dict[str, Any]:
    """Returns what was said of a hook by who calls it. A suspension of an earlier revision is over."""
    suspended = status.get("suspended_ms") if status.get("revision") == hook.revision else None
    return {"suspended_ms": suspended if isinstance(suspended, int) else None}


def _names(field: str, given: Any) -> tuple[str, ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
        raise InvalidHook(f"{field}: is not a list of names")
    if len(given) > NAMES_MAX:
        raise InvalidHook(f"{field}: has {len(given)} names (at most {NAMES_MAX} are allowed)")
    return tuple(dict.fromkeys(check_object(one, field) for one in given))


def _query(given: Any) -> str:
    if given is None:
        return ""
    if not isinstance(given, str) or not given.strip():
        raise InvalidHook("query: is not a text")
    if len(given.encode(errors="replace")) > QUERY_BYTES_MAX:
        raise InvalidHook(f"query: is longer than {QUERY_BYTES_MAX} bytes")
    return given
