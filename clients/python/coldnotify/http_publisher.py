"""Publishing from a back-end over HTTP: needs nothing but the HTTP service's address, no Kafka and no extra.

    publisher = HttpPublisher("http://coldnotify-1:55002", token="...")
    publisher.publish("animal.observer", "region-1", "camera-config", version=42, payload={"fps": 5})
    publisher.describe("animal.observer", "region-1", "lamp-7", {"on": True, "Level": None})

Exceptions
    ValueError                    bad input; the message begins with the field, nothing was written
    PublishError                  it is not known to be durable; `indeterminate`: it may be there all the same
        DescriptionConflict       the description is not the one of `if_revision`; `found` is what it is
"""

import json
import ssl
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any, NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from coldnotify._publishing.published import Published, PublishError

__all__ = ["Described", "DescriptionConflict", "HttpPublisher", "PublishError", "Published"]

_BAD_INPUT, _NOT_KNOWN, _CONFLICT = (400, 413), 404, 409
_MAY_BE = "unknown"
"""Begins what the service says of a change that may have been made."""

Value = str | float | bool


class Described(NamedTuple):
    """An object's description."""

    description: dict[str, Value] | None
    """None: it has none."""
    version: int | None
    """The timestamp of its record in ms; None: there never was one."""
    revision: str | None
    """What `if_revision` takes; None: there never was one, and `if_revision` takes "none"."""


class DescriptionConflict(PublishError):
    """The description that was to be changed is another one by now; nothing was written."""

    def __init__(self, message: str, found: Described) -> None:
        super().__init__(message, indeterminate=False)
        self.found = found


class HttpPublisher:
    """Asks the HTTP service, one request for each call. Safe to use from many threads."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:55002",
        *,
        token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 15,
    ) -> None:
        """`url`: any node of the service, host:port or a URL. `token` is shown to it; `ssl_context` says which
        certificates count with https, and has one to show. `timeout_s`: how long an answer may take; the service itself
        gives up after 10 s by default. Raises ValueError naming the argument."""
        base = url.strip().rstrip("/")
        self._base = base if base.startswith(("http://", "https://")) else f"http://{base}"
        if self._base == "http://":
            raise ValueError(f"url: {url!r} is neither host:port nor a URL")
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not above 0")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._context = ssl_context
        self._timeout_s = timeout_s

    def publish(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        version: int | None = None,
        payload: object = None,
        *,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
    ) -> Published:
        """Publishes one version of an object; returns when it is durable. The arguments are those of
        Publisher.publish()."""
        fields = {"version": version, "payload": payload, "source": source, "expires_at": expires_at}
        record: dict[str, object] = {name: value for name, value in fields.items() if value is not None}
        if deleted:
            record["deleted"] = True
        answer = self._ask("POST", _path(domain, group_id, object_id), record, outcome="no")
        return Published(answer["version"], answer["partition"], answer["offset"])

    def describe(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        description: Mapping[str, Value | None] | None,
        *,
        replace: bool = False,
        if_revision: str | None = None,
    ) -> Described:
        """Merges these keys into an object's description, and removes those with the value None; returns the whole when
        it is durable. With `replace` they are the whole. None instead of a mapping: there is no description any more.

        `if_revision`: only if the description still has this `Described.revision`, or "none". Raises
        DescriptionConflict then.
        """
        path = f"{_path(domain, group_id, object_id)}/description"
        if description is None:
            return _described(self._ask("DELETE", path, if_revision=if_revision))
        method = "PUT" if replace else "PATCH"
        return _described(self._ask(method, path, dict(description), if_revision=if_revision))

    def description(self, domain: str, group_id: str, object_id: str) -> Described:
        """An object's description as it is in force. Raises LookupError where nothing is known of the object."""
        return _described(self._ask("GET", f"{_path(domain, group_id, object_id)}/description"))

    def _ask(self, method: str, path: str, body: object = None, **query: str | None) -> dict[str, Any]:
        given = {name: value for name, value in query.items() if value is not None}
        url = self._base + path + (f"?{urlencode(given)}" if given else "")
        try:
            data = None if body is None else json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"{'payload' if method == 'POST' else 'description'}: is no JSON: {error}") from None
        try:
            request = Request(url, data, self._headers, method=method)
            with urlopen(request, timeout=self._timeout_s, context=self._context) as response:
                answer = json.load(response)
        except HTTPError as error:
            with error:
                raise _error_of(error, self._base) from None
        except URLError as error:
            unsent = isinstance(error.reason, ConnectionRefusedError)
            raise PublishError(f"{self._base}: {error.reason}", indeterminate=not unsent) from None
        except (OSError, HTTPException, ValueError) as error:
            raise PublishError(f"{self._base}: {error or type(error).__name__}", indeterminate=True) from None
        if not isinstance(answer, dict):
            raise PublishError(f"{self._base}: its answer is no JSON object", indeterminate=True)
        return answer


def _path(*names: str) -> str:
    kinds = ("domains", "groups", "objects")
    return "/v1/" + "/".join(f"{kind}/{quote(name, safe='')}" for kind, name in zip(kinds, names, strict=True))


def _described(answer: Mapping[str, Any]) -> Described:
    return Described(answer["description"], answer["version"], answer["revision"])


def _error_of(error: HTTPError, base: str) -> Exception:
    try:
        answer = json.load(error)
        words = str(answer["error"])
    except (ValueError, KeyError, TypeError):
        answer, words = {}, f"HTTP status {error.code}"
    if error.code in _BAD_INPUT:
        return ValueError(words)
    if error.code == _NOT_KNOWN:
        return LookupError(words)
    if error.code == _CONFLICT:
        return DescriptionConflict(words, _described(answer))
    # Of a status that no handler has given, as a balancer's, nothing is known.
    outcome = str(answer.get("outcome", "" if error.code < 500 else _MAY_BE))
    return PublishError(f"{base}: {words}", indeterminate=outcome.startswith(_MAY_BE))
