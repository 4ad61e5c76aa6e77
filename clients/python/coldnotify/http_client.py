"""Asking the HTTP service from a back-end what the commands ask it: find, who-lacks, explain, object reset. No extra.

    client = HttpClient("http://coldnotify-1:55002", token="...")
    for lamp in client.find("animal.observer", "region-1", 'Room = 410 AND Kind = "lamp"'):
        print(lamp.object_id, lamp.version, lamp.description)
    behind = client.who_lacks("animal.observer", "region-1", "camera-config")
    print(behind.lacking, "of", behind.registered, [one.client_id for one in behind.clients])
    print(client.explain("animal.observer", "region-1", "observer-1", "camera-config").words)
    client.reset("animal.observer", "region-1", "camera-config", {"fps": 5}).applied_by(1.0)

Each has a twin for asyncio: who_lacks_async() ... A request takes at most `timeout_s`.

Exceptions
    ValueError              bad input; the message begins with the field
    AskError                it was not done, or not answered; `str()` has the service's words
        NothingKnown        (a LookupError) nothing of this name is known there
        NotAllowed          this identity may not ask that
        NewestChanged       the object's newest version is another one by now, `newest`; nothing was reset
        AskAgain            not now; come back after `retry_after_s`
"""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify._core.publishing.outgoing import said_payload, version_of
from coldnotify._effect import Newest
from coldnotify._http_addresses import HttpAddresses
from coldnotify._http_requests import HttpRefusal, HttpRequests, HttpUnanswered, group_path, pages_of
from coldnotify._publishing.applied import LedgerClient, Receipt
from coldnotify._publishing.published import Published

__all__ = [
    "AskAgain",
    "AskError",
    "CallbackState",
    "ClientExplanation",
    "ExplainedStep",
    "FoundObject",
    "HttpClient",
    "LackedVersion",
    "LackingClient",
    "LackingClients",
    "Newest",
    "NewestChanged",
    "NotAllowed",
    "NothingKnown",
]

Value = str | float | bool
_BAD_INPUT, _NOT_ALLOWED, _NOT_KNOWN, _CONFLICT, _NOT_NOW = (400, 413), (401, 403, 421), 404, 409, (429, 503)
_MAY_BE = "unknown"
"""Prefix of the service's message about a change that may have been made."""


class AskError(Exception):
    """The service has not done, or not answered, what it was asked."""

    def __init__(self, message: str, status: int | None = None, *, indeterminate: bool = False) -> None:
        super().__init__(message)
        self.status = status
        """The answer's HTTP status; None: there was no answer."""
        self.indeterminate = indeterminate
        """True: a reset may have been made all the same."""


class NothingKnown(AskError, LookupError):
    """The service knows nothing of this name."""


class NotAllowed(AskError):
    """This identity may not ask that."""


class NewestChanged(AskError):
    """The object's newest version is not the one that was named; nothing was reset."""

    def __init__(self, message: str, newest: Newest | None) -> None:
        super().__init__(message, _CONFLICT)
        self.newest = newest
        """The present one; None: nothing was published."""


class AskAgain(AskError):
    """The service cannot answer now: nobody serves the group, or there was too much."""

    def __init__(self, message: str, status: int, retry_after_s: float | None, *, indeterminate: bool) -> None:
        super().__init__(message, status, indeterminate=indeterminate)
        self.retry_after_s = retry_after_s
        """None: the service has not said."""


@dataclass(frozen=True, slots=True)
class FoundObject:
    """An object that fits a query."""

    object_id: str
    version: int | None
    """None: it was described, and not published."""
    description: Mapping[str, Value] | None


@dataclass(frozen=True, slots=True)
class CallbackState:
    """The callbacks of a client that have not taken a version."""

    state: str
    """pending: they have not returned; parked: they raised too often, and are tried again in the next session."""
    since_ms: int
    """Unix time."""
    failures: int
    """The number of times that they have raised."""
    error: str | None
    """The first line of what they raised last."""


@dataclass(frozen=True, slots=True)
class LackingClient:
    """A client that has not applied a version."""

    client_id: str
    state: str
    """asleep: it is not connected; else that of its session: live, catching ..."""
    since_ms: int | None
    """Unix time since which it lacks it; None: not known."""
    last_seen_ms: int | None
    callbacks: CallbackState | None
    """None: it has not been told, or says nothing of its callbacks."""


@dataclass(frozen=True, slots=True)
class LackingClients:
    """The clients that lack a version among those registered for its object: their numbers, and the first by name."""

    object_id: str
    version: int | None
    """The newest; None: nothing was published."""
    wanted_version: int | None
    """The version that was asked about."""
    published: bool
    exact: bool
    """False: the version is older than what is remembered; at most so many lack it."""
    registered: int
    applied: int
    lacking: int
    asleep: int
    """Those of the lacking ones that are not connected."""
    pending: int
    """Those whose callbacks have not returned."""
    parked: int
    """Those whose callbacks raised too often."""
    by_query: int
    """Those of the registered ones that are registered by a query."""
    told_at_least: int
    """Those of the registered ones that cannot say what their callbacks took."""
    clients: tuple[LackingClient, ...]
    """At most `limit` of the lacking ones."""


@dataclass(frozen=True, slots=True)
class ExplainedStep:
    """One line of an explanation's timeline."""

    when_ms: int | None
    step: str
    """publish, match, gateway, acknowledgement, rejected."""
    text: str


@dataclass(frozen=True, slots=True)
class LackedVersion:
    """An object whose newest version a client lacks."""

    object_id: str
    version: int | None
    since_ms: int | None
    callbacks: CallbackState | None


@dataclass(frozen=True, slots=True)
class ClientExplanation:
    """The reason why a client has, or has not, applied what it is registered for."""

    client_id: str
    object_id: str | None
    verdict: str
    """One word: applied, asleep, failing, not_registered ..."""
    words: str
    """The verdict for a person."""
    timeline: tuple[ExplainedStep, ...]
    lacking: tuple[LackedVersion, ...]
    """The first hundred that it lacks."""
    gateways_silent: tuple[str, ...]
    """Gateways that have not answered."""


class HttpClient:
    """Asks the HTTP service, one request after another. Safe to use from many threads."""

    def __init__(
        self,
        url: HttpAddresses = "http://127.0.0.1:55002",
        *,
        home: str | None = None,
        token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 15,
    ) -> None:
        """The arguments are those of HttpPublisher. Raises ValueError naming the argument."""
        self._requests = HttpRequests(url, token, ssl_context, home=home)
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not above 0")
        self._timeout_s = timeout_s

    def find(self, domain: str, group_id: str, query: str, *, limit: int | None = None) -> Iterator[FoundObject]:
        """Yields the objects that fit a query now, in the order of their names, at most `limit`; a page of 1,000 is
        asked for when the one before is used up. Raises AskError; ValueError, which says where the query is wrong.
        """
        for page in self._pages(group_path(domain, group_id, "objects"), {"query": query}, limit):
            for one in page["items"]:
                yield FoundObject(one["object"], one["version"], one["description"])

    async def find_async(
        self, domain: str, group_id: str, query: str, *, limit: int | None = None
    ) -> AsyncIterator[FoundObject]:
        """find() for asyncio: `async for`."""
        pages = self._pages(group_path(domain, group_id, "objects"), {"query": query}, limit)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            for one in page["items"]:
                yield FoundObject(one["object"], one["version"], one["description"])

    def who_lacks(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        *,
        version: int | None = None,
        limit: int | None = ITEMS_PER_PAGE_MAX,
    ) -> LackingClients:
        """Returns how many clients have not applied a version, None: the newest, and the first `limit` of them, None:
        all. An acknowledgement shows a second or two later. Raises AskError, NothingKnown, ValueError."""
        path = group_path(domain, group_id, "objects", object_id, "lacking")
        shown: dict[str, Any] = {}
        clients: list[LackingClient] = []
        for page in self._pages(path, {"version": version}, limit):
            shown = shown or page
            clients += [
                LackingClient(
                    one["client"], one["state"], one["since_ms"], one["last_seen_ms"], _callbacks(one.get("callbacks"))
                )
                for one in page["items"]
            ]
        return LackingClients(
            object_id=shown["object"],
            version=shown["version"],
            wanted_version=shown["wanted_version"],
            published=shown["published"],
            exact=shown["exact"],
            registered=shown["registered"],
            applied=shown["applied"],
            lacking=shown["lacking"],
            asleep=shown["asleep"],
            pending=shown.get("pending", 0),
            parked=shown.get("parked", 0),
            by_query=shown.get("by_query", 0),
            told_at_least=shown.get("told_at_least", 0),
            clients=tuple(clients),
        )

    async def who_lacks_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        *,
        version: int | None = None,
        limit: int | None = ITEMS_PER_PAGE_MAX,
    ) -> LackingClients:
        """who_lacks() for asyncio, in a thread."""
        return await asyncio.to_thread(self.who_lacks, domain, group_id, object_id, version=version, limit=limit)

    def explain(self, domain: str, group_id: str, client_id: str, object_id: str | None = None) -> ClientExplanation:
        """Returns why a client has, or has not, applied the newest version of an object; None: of all that it is
        registered for. A name that nobody has used is a verdict, too. Raises AskError, ValueError."""
        path = group_path(domain, group_id, "clients", client_id, "explanation")
        shown = self._ask("GET", path, query={"object": object_id})
        return ClientExplanation(
            client_id=shown["client"],
            object_id=shown["object"],
            verdict=shown["verdict"],
            words=shown["words"],
            timeline=tuple(ExplainedStep(one["when_ms"], one["step"], one["text"]) for one in shown["timeline"]),
            lacking=tuple(
                LackedVersion(one["object"], one["version"], one["since_ms"], _callbacks(one.get("callbacks")))
                for one in shown["lacking"]
            ),
            gateways_silent=tuple(shown["gateways_silent"]),
        )

    async def explain_async(
        self, domain: str, group_id: str, client_id: str, object_id: str | None = None
    ) -> ClientExplanation:
        """explain() for asyncio, in a thread."""
        return await asyncio.to_thread(self.explain, domain, group_id, client_id, object_id)

    def reset(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        payload: object = None,
        *,
        version: int = 0,
        newest: Newest | None = None,
    ) -> Receipt:
        """Starts an object's versions over: publishes `version`, which outdoes all earlier ones, whatever its number.

        `newest`: only if that is its newest version still, as with Outcome.newest; None: whatever it is now. Raises
        NewestChanged, NothingKnown if nothing was published, AskError, ValueError. One that is `indeterminate` may be
        repeated with the same `newest`: it cannot happen twice.
        """
        version_of(domain, group_id, object_id, version, payload)  # so that bad input is named before anything is asked
        if newest is None:
            shown = self._ask("GET", group_path(domain, group_id, "objects", object_id))
            if shown["version"] is None:
                raise NothingKnown(f"object: {domain}/{group_id}/{object_id} was never published", _NOT_KNOWN)
            newest = Newest.of(shown)
        seen = {"version": newest.version, "incarnation": newest.incarnation}
        body = {"object": object_id, "newest": seen, "version": version} | said_payload(payload)
        answer = self._ask("POST", group_path(domain, group_id, "resets"), json.dumps(body).encode())
        published = Published(answer["version"], answer["partition"], answer["offset"])
        about = domain, group_id, object_id
        return Receipt.of(published, LedgerClient(self._requests), about, newest.incarnation + 1)

    async def reset_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        payload: object = None,
        *,
        version: int = 0,
        newest: Newest | None = None,
    ) -> Receipt:
        """reset() for asyncio, in a thread. Cancelling the wait does not take back what is sent."""
        return await asyncio.to_thread(self.reset, domain, group_id, object_id, payload, version=version, newest=newest)

    def _pages(self, path: str, query: Mapping[str, object], limit: int | None) -> Iterator[dict[str, Any]]:
        if limit is not None and limit < 1:
            raise ValueError(f"limit: {limit!r} is less than 1")
        yield from pages_of(lambda part: self._ask("GET", path, query={**query, **part}), limit)

    def _ask(
        self, method: str, path: str, body: bytes | None = None, query: Mapping[str, object] | None = None
    ) -> dict[str, Any]:
        try:
            return self._requests.ask(method, path, body, query=query or {}, timeout_s=self._timeout_s)
        except HttpRefusal as refusal:
            raise _error_of(refusal, refusal.base) from None
        except HttpUnanswered as error:
            raise AskError(str(error), indeterminate=method == "POST" and not error.unsent) from None


def _callbacks(shown: Mapping[str, Any] | None) -> CallbackState | None:
    if shown is None:
        return None
    return CallbackState(shown["state"], shown["since_ms"], shown["failures"], shown["error"])


def _error_of(refusal: HttpRefusal, base: str) -> Exception:
    words, status, answer = str(refusal), refusal.status, refusal.answer
    if answer and status in _BAD_INPUT:
        return ValueError(words)
    if answer and status == _NOT_KNOWN:
        return NothingKnown(words, status)
    if status in _NOT_ALLOWED:
        return NotAllowed(f"{base}: {words}", status)
    if status == _CONFLICT and isinstance(newest := answer.get("newest"), dict):
        return NewestChanged(words, None if newest.get("version") is None else Newest.of(newest))
    # Of a status that no handler has given, as a balancer's, nothing is known.
    outcome = str(answer.get("outcome", "" if status < 500 or answer else _MAY_BE))
    may_be = outcome.startswith(_MAY_BE)
    if status in _NOT_NOW:
        return AskAgain(f"{base}: {words}", status, refusal.retry_after_s, indeterminate=may_be)
    return AskError(f"{base}: {words}", status, indeterminate=may_be)
