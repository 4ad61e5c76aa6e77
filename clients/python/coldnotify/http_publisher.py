"""Publishing from a back-end over HTTP: needs nothing but the HTTP service's address, no Kafka and no extra.

    publisher = HttpPublisher("http://coldnotify-1:55002", token="...")
    published = publisher.publish("animal.observer", "region-1", "camera-config", {"fps": 5}, version=42)
    published.applied_by(0.9, timeout_s=60)  # or published.outcome()
    publisher.describe("animal.observer", "region-1", "lamp-7", {"on": True, "Level": None})
    publisher.send("animal.observer", "region-1", "tasks", {"look": "north"})

A publish that the service refuses (429 or 503 with Retry-After: too much, nothing was written) is sent again, and the
next ones are sent more slowly, until none is refused. So an application that publishes too much gets delays,
then PublishTimeout.

With HttpPublisher(..., outbox=DIRECTORY) publish() and send() return once the record is durable on this machine's disk;
it is published in its turn, also after a restart (docs/publishing.md).

Exceptions
    ValueError                    bad input; the message begins with the field, nothing was written
    PublishError                  it is not known to be durable; `indeterminate`: it may exist nevertheless
        PublishTimeout            it was refused for all of `timeout_s`, and is not written
        PublishRejected           it may not be published there
        PublishManyError          some of many failed; `outcomes` has each one's
        VersionConflict           its condition did not hold; `newest` is the version that was in force
        DescriptionConflict       the description is not the one of `if_revision`; `found` is the present one
    OutboxError                   the outbox cannot be read, written or locked: nothing was accepted
        OutboxFull                too much waits in it
        OutboxInUse               another process or publisher uses it
    NotApplied                    (a TimeoutError) too few clients have applied a version in time
        NeverApplied              none ever will: it was stale or rejected; `outcome` has the newest one
    LedgerRefused                 the HTTP service does not report who has applied what
    UsedAfterFork                 one with an outbox is used in a child of fork(): nothing was done, create another
"""

import asyncio
import json
import os
import secrets
import ssl
import time
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from coldnotify._core.publishing.outgoing import (
    PAYLOAD_BYTES_MAX,
    Many,
    Outgoing,
    check_payload_bytes_max,
    message_of,
    said_payload,
    version_of,
    versions_of,
)
from coldnotify._core.publishing.patches import Patch, encode_patch
from coldnotify._effect import Newest, Outcome
from coldnotify._http_addresses import HttpAddresses
from coldnotify._http_requests import HttpRefusal, HttpRequests, HttpUnanswered, group_path
from coldnotify._outbox.outbox_base import Pending, RejectedRecord
from coldnotify._outbox.outbox_directory import BYTES_MAX, RECORDS_MAX
from coldnotify._payload_first import payload_first
from coldnotify._publishing.accepted import Accepted, AcceptedMessage
from coldnotify._publishing.applied import Applied, LedgerClient, LedgerRefused, NeverApplied, NotApplied, Receipt
from coldnotify._publishing.many_by_http import publish_all
from coldnotify._publishing.outbox_by_http import ClockRefused, HttpCarrier, VersionRefused
from coldnotify._publishing.published import (
    Published,
    PublishError,
    PublishManyError,
    PublishRejected,
    PublishTimeout,
    Sent,
)
from coldnotify._publishing.turns import NoTurn, PublisherTurns, TurnRefused
from coldnotify._publishing.with_outbox import MayHaveOutbox, OnRejected, WithOutbox
from coldnotify.errors import OutboxDamaged, OutboxError, OutboxFull, OutboxInUse, UsedAfterFork
from coldnotify.flow.controllers import DEFAULT, NAMES

__all__ = [
    "Accepted",
    "AcceptedMessage",
    "Applied",
    "Described",
    "DescriptionConflict",
    "HttpPublisher",
    "LedgerRefused",
    "NeverApplied",
    "Newest",
    "NotApplied",
    "OutboxDamaged",
    "OutboxError",
    "OutboxFull",
    "OutboxInUse",
    "Outcome",
    "Pending",
    "PublishError",
    "PublishManyError",
    "PublishRejected",
    "PublishTimeout",
    "Published",
    "Receipt",
    "RejectedRecord",
    "Sent",
    "SetConflict",
    "SetFault",
    "UsedAfterFork",
    "VersionConflict",
]

_BAD_INPUT, _FORBIDDEN, _NOT_KNOWN, _CONFLICT = (400, 413), 403, 404, 409
_TOO_MUCH = (429, 503)
_NOT_PUBLISHED = "not published"
_RETRY_AFTER_S_MIN = 0.001
"""Used if a refusal says 0: otherwise it would be repeated as fast as it is answered."""
IN_FLIGHT_MAX = 1_000
"""Requests at once: each has a connection and a thread, and more would only wait in the service."""
_ID_BYTES = 12
"""Length of a message's random id, and of a publish with a condition."""
_AGAIN_S = 0.2
"""Pause before a publish with a condition is sent again, whose outcome is not known."""
_MAY_BE = "unknown"
"""Prefix of the service's message about a change that may have been made."""

Value = str | float | bool


class Described(NamedTuple):
    """An object's description."""

    description: dict[str, Value] | None
    """None: it has none."""
    version: int | None
    """The timestamp of its record in ms; None: there never was one."""
    revision: str | None
    """Pass it as `if_revision`; None: there never was a description, and `if_revision` takes "none"."""


class DescriptionConflict(PublishError):
    """The description that was to be changed is another one by now; nothing was written."""

    def __init__(self, message: str, found: Described) -> None:
        super().__init__(message, indeterminate=False)
        self.found = found


class VersionConflict(PublishError):
    """The condition of a publish did not hold: nothing was published."""

    def __init__(self, message: str, newest: Newest | None) -> None:
        super().__init__(message, indeterminate=False)
        self.newest = newest
        """The object's newest version then; None: it has none, or none that is known."""


class SetFault(NamedTuple):
    """One object whose condition did not hold."""

    reason: str
    """In words, after the field."""
    newest: Newest | None
    """The object's newest version then; None: it has none, or none that is known."""


class SetConflict(PublishError):
    """Conditions of a set did not hold: none of its objects was published."""

    def __init__(self, message: str, members: Mapping[str, SetFault]) -> None:
        super().__init__(message, indeterminate=False)
        self.members = members
        """Those at fault, by their objects."""


class _Undecidable(Exception):
    """The service does not know whether a publish with this id has been done before."""

    def __init__(self, message: str, conflict: PublishError) -> None:
        super().__init__(message)
        self.conflict = conflict
        """Raised if it was sent for the first time: then nothing was published."""


class HttpPublisher(MayHaveOutbox):
    """Asks the HTTP service, one request for each call. Safe to use from many threads."""

    def __init__(
        self,
        url: HttpAddresses = "http://127.0.0.1:55002",
        *,
        home: str | None = None,
        token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_s: float = 15,
        in_flight_max: int = IN_FLIGHT_MAX,
        flow: str = DEFAULT,
        object_payload_bytes_max: int = PAYLOAD_BYTES_MAX,
        outbox: str | os.PathLike[str] | None = None,
        outbox_max_records: int = RECORDS_MAX,
        outbox_max_bytes: int = BYTES_MAX,
        on_rejected: OnRejected | None = None,
    ) -> None:
        """`url`: any node of the service, host:port or a URL; or several, each alone or with a weight, as in
        [("a:55002", 3), "b:55002"]. One of them, drawn by weight, is asked until it cannot be reached or answers 503
        with Retry-After; `home` is asked before them, while it answers. A publish that was sent and not answered is not
        sent again, and ends with a PublishError. `token` authenticates this publisher; `ssl_context`
        defines which certificates are trusted with https, and may contain one for this publisher. `timeout_s`: how long
        an answer may take, and how long a refused publish is repeated; the service itself gives up after 10 s by
        default. `in_flight_max`: the most requests of publish() at once. `flow`: the controller that adapts the number
        of requests at once, between 1 and that, to the service's answers: "bottleneck" ..., or "fixed".

        `object_payload_bytes_max`: the services' limit on versions' payloads, for what is checked before it is asked:
        publish_many(), and what goes into an outbox.

        `outbox`, `outbox_max_records`, `outbox_max_bytes`, `on_rejected`: the same as Publisher's. What the service
        answers with 400, 403 or 413 is set aside. Raises ValueError naming the argument; OutboxError, OutboxInUse.
        """
        self._requests = HttpRequests(url, token, ssl_context, home=home)
        if not timeout_s > 0:
            raise ValueError(f"timeout_s: {timeout_s!r} is not above 0")
        if in_flight_max < 1:
            raise ValueError(f"in_flight_max: {in_flight_max!r} is less than 1")
        if flow not in NAMES:
            raise ValueError(f"flow: unknown value {flow!r}, expected one of {', '.join(NAMES)}")
        self._payload_bytes_max = check_payload_bytes_max(object_payload_bytes_max)
        self._turns = PublisherTurns(flow, in_flight_max)
        self._timeout_s = timeout_s
        self._ledger = LedgerClient(self._requests)
        if outbox is not None:
            self._outbox = WithOutbox(
                outbox,
                lambda: HttpCarrier(self._post_outgoing, self._post_several, self._patch_outgoing),
                records_max=outbox_max_records,
                bytes_max=outbox_max_bytes,
                on_rejected=on_rejected,
                ledger=self._ledger,
            )

    @property
    def interval_s(self) -> float:
        """Seconds between two publishes, as refusals have made it; 0: as fast as they come."""
        return self._turns.interval_s

    @property
    def refused(self) -> int:
        """Publishes that were refused until now. Each was sent again, or ended by PublishTimeout."""
        return self._turns.refused

    @payload_first
    def publish(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
        priority: str | None = None,
        description: Patch | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
        if_changed: bool = False,
        id: str | None = None,  # noqa: A002  (the field's name)
    ) -> Receipt:
        """Publishes one version of an object; returns when it is durable. The arguments are those of
        Publisher.publish(). `description`: as in describe(), in force before the version is told, and not with a
        condition.

        At most one condition: `if_version`: only if that is the newest version; `if_absent`: only if the object has no
        version, or is deleted; `if_changed`: only if the newest version says something else, else the receipt has that
        one. It returns when the partition's owner has decided; without `version` the next number is taken. It is sent
        again, with the same `id` (None: a new one), until the outcome is known, or `timeout_s` is over.

        Raises ValueError, PublishError, PublishTimeout, VersionConflict."""
        conditions = {"if_version": if_version, "if_absent": if_absent or None, "if_changed": if_changed or None}
        condition: dict[str, object] = {name: said for name, said in conditions.items() if said is not None}
        if condition:
            _check_condition(condition, outbox=self._outbox is not None, described=description is not None)
        elif id is not None:
            raise ValueError("id: is without a condition")
        if self._outbox is not None:
            outgoing = version_of(
                domain,
                group_id,
                object_id,
                version,
                payload,
                deleted=deleted,
                expires_at=expires_at,
                source=source,
                priority=priority,
                description=description,
                payload_bytes_max=self._payload_bytes_max,
            )
            return self._outbox.accept_versions([outgoing])[0]
        fields = {"version": version, "source": source, "expires_at": expires_at, "priority": priority}
        record = said_payload(payload) | {name: value for name, value in fields.items() if value is not None}
        if deleted:
            record["deleted"] = True
        if description is not None:
            encode_patch(description)
            self.describe(domain, group_id, object_id, description)
        path = _path(domain, group_id, object_id)
        if condition:
            condition["id"] = secrets.token_hex(_ID_BYTES) if id is None else id
            answer = self._post_decided(path, record | condition)
        else:
            answer = self._post(path, record)
        published = Published(answer["version"], answer["partition"], answer["offset"])
        return Receipt.of(published, self._ledger, (domain, group_id, object_id), None)

    @payload_first
    async def publish_async(
        self,
        domain: str,
        group_id: str,
        object_id: str,
        payload: object = None,
        *,
        version: int | None = None,
        source: str | None = None,
        expires_at: int | None = None,
        deleted: bool = False,
        priority: str | None = None,
        description: Patch | None = None,
        if_version: int | None = None,
        if_absent: bool = False,
        if_changed: bool = False,
        id: str | None = None,  # noqa: A002  (the field's name)
    ) -> Receipt:
        """publish() for asyncio, in a thread. Cancelling the wait does not take back what is sent."""
        return await asyncio.to_thread(
            self.publish,
            domain,
            group_id,
            object_id,
            payload=payload,
            version=version,
            source=source,
            expires_at=expires_at,
            deleted=deleted,
            priority=priority,
            description=description,
            if_version=if_version,
            if_absent=if_absent,
            if_changed=if_changed,
            id=id,
        )

    def publish_many(self, domain: str, group_id: str, objects: Many) -> list[Receipt]:
        """Publishes many versions in few requests: {object: {"version": 1, "payload": ...}} or pairs of the two.

        All are checked before any is sent; a request takes up to 1,000, and each may take `timeout_s`. Returns when all
        are durable, in order. Raises ValueError, which begins with the place of the one at fault, as in "objects[3]: ";
        PublishManyError, whose `outcomes` has a Receipt or an error for each: behind a request with one that failed,
        none is sent.
        """
        outgoings = versions_of(domain, group_id, objects, self._payload_bytes_max)
        if self._outbox is not None:
            return list[Receipt](self._outbox.accept_versions(outgoings))
        outcomes = publish_all(outgoings, lambda request: self._post_several(request.records[0], request.body, None))
        receipts = [
            Receipt.of(outcome, self._ledger, one.key, None)
            for one, outcome in zip(outgoings, outcomes, strict=True)
            if isinstance(outcome, Published)
        ]
        if len(receipts) == len(outcomes):
            return receipts
        done = iter(receipts)
        raise PublishManyError([next(done) if isinstance(one, Published) else one for one in outcomes])

    async def publish_many_async(self, domain: str, group_id: str, objects: Many) -> list[Receipt]:
        """publish_many() for asyncio, in a thread. Cancelling the wait does not take back what is sent."""
        return await asyncio.to_thread(self.publish_many, domain, group_id, objects)

    def publish_atomic(
        self,
        domain: str,
        group_id: str,
        objects: Many,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
    ) -> list[Receipt]:
        """Publishes versions of several objects of one group as one: all of them, or none.

        `objects`: {object: {"payload": ..., "version": ..., "if_version": ...}} or pairs of the two, at most 100, and
        60 KiB as JSON; each may have a condition of publish(), and none a priority or a description. Without a
        condition its version has to be above the newest. It returns when the partition's owner has decided, in order,
        with the version in force of each. It is sent again, with the same `id` (None: a new one), until the outcome is
        known, or `timeout_s` is over.

        Raises ValueError, which begins with the place of the one at fault, as in "set[3].version: "; SetConflict,
        PublishError, PublishTimeout.
        """
        if self._outbox is not None:
            raise ValueError("objects: do not go through the outbox as one; publish them without one")
        pairs = objects.items() if isinstance(objects, Mapping) else objects
        members = [_member(place, name, fields) for place, (name, fields) in enumerate(pairs)]
        said: dict[str, object] = {"domain": domain, "group": group_id, "set": members}
        said["id"] = secrets.token_hex(_ID_BYTES) if id is None else id
        answer = self._post_decided("/v1/atomic", said)
        return [
            Receipt.of(
                Published(one["version"], answer["partition"], answer["offset"]),
                self._ledger,
                (domain, group_id, one["object"]),
                None,
            )
            for one in answer["members"]
        ]

    async def publish_atomic_async(
        self,
        domain: str,
        group_id: str,
        objects: Many,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
    ) -> list[Receipt]:
        """publish_atomic() for asyncio, in a thread. Cancelling the wait does not take back what is sent."""
        return await asyncio.to_thread(self.publish_atomic, domain, group_id, objects, id=id)

    def send(
        self,
        domain: str,
        group_id: str,
        channel: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
        to: Iterable[str] = (),
        expires_at: int | None = None,
        source: str | None = None,
        priority: str | None = None,
        key: str | None = None,
    ) -> Sent:
        """Sends a message to a channel; returns when it is durable. The arguments are those of Publisher.send(). Raises
        ValueError, PublishError, PublishTimeout."""
        message_id = secrets.token_hex(_ID_BYTES) if id is None else id
        if self._outbox is not None:
            outgoing = message_of(
                domain,
                group_id,
                channel,
                payload,
                id=message_id,
                to=to,
                expires_at=expires_at,
                source=source,
                priority=priority,
                key=key,
            )
            return self._outbox.accept_messages([outgoing])[0]
        message: dict[str, object] = {"id": message_id, **(said_payload(payload) or {"payload": None})}
        if to:
            message["to"] = sorted(to)
        fields = {"expires_at": expires_at, "source": source, "priority": priority, "key": key}
        message |= {name: value for name, value in fields.items() if value is not None}
        answer = self._post(_path(domain, group_id, channel, kind="channels"), message)
        return Sent(answer["partition"], answer["offset"], message_id)

    async def send_async(
        self,
        domain: str,
        group_id: str,
        channel: str,
        payload: object,
        *,
        id: str | None = None,  # noqa: A002  (the field's name)
        to: Iterable[str] = (),
        expires_at: int | None = None,
        source: str | None = None,
        priority: str | None = None,
        key: str | None = None,
    ) -> Sent:
        """send() for asyncio, in a thread. Cancelling the wait does not take back what is sent."""
        return await asyncio.to_thread(
            self.send,
            domain,
            group_id,
            channel,
            payload,
            id=id,
            to=to,
            expires_at=expires_at,
            source=source,
            priority=priority,
            key=key,
        )

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
        it is durable. With `replace` they become the whole. None instead of a mapping removes the description.

        `if_revision`: only if the description still has this `Described.revision`, or "none". Otherwise raises
        DescriptionConflict.
        """
        path = f"{_path(domain, group_id, object_id)}/description"
        if description is None:
            return _described(self._ask("DELETE", path, if_revision=if_revision))
        method = "PUT" if replace else "PATCH"
        return _described(self._ask(method, path, dict(description), if_revision=if_revision))

    def description(self, domain: str, group_id: str, object_id: str) -> Described:
        """An object's description as it is in force. Raises LookupError where nothing is known of the object."""
        return _described(self._ask("GET", f"{_path(domain, group_id, object_id)}/description"))

    # -- the outbox ----------------------------------------------------------------------------------------------------

    def flush(self, timeout_s: float | None = None) -> int:
        """Waits until the outbox is empty, at most `timeout_s` (default: the publisher's); how many are left."""
        return 0 if self._outbox is None else self._outbox.flush(self._timeout_s if timeout_s is None else timeout_s)

    def close(self, timeout_s: float | None = None) -> None:
        """Closes the outbox after flush(); what is left is published after the next start. May be called twice."""
        if self._outbox is not None:
            self._outbox.close(self._timeout_s if timeout_s is None else timeout_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _traceback: TracebackType | None
    ) -> None:
        self.close()

    def _post_outgoing(self, outgoing: Outgoing, body: dict[str, object], clock_ms: int | None) -> dict[str, Any]:
        return self._post(_path(*outgoing.key, kind=_kind(outgoing)), body, clock_ms=_text(clock_ms))

    def _patch_outgoing(self, outgoing: Outgoing) -> None:
        self._ask("PATCH", f"{_path(*outgoing.key)}/description", outgoing.describe.encode())

    def _post_several(self, first: Outgoing, body: bytes, clock_ms: int | None) -> dict[str, Any]:
        # A message that is not taken must stay in front of those behind it. A version of an object need not.
        in_order = "yes" if first.is_message else None
        path = group_path(first.domain, first.group, _kind(first))
        return self._post(path, body, in_order=in_order, clock_ms=_text(clock_ms))

    # -- HTTP ----------------------------------------------------------------------------------------------------------

    def _post_decided(self, path: str, record: dict[str, object]) -> dict[str, Any]:
        """Posts a record with a condition until it is known what was decided, or the time is over."""
        deadline_s = time.monotonic() + self._timeout_s
        sent_before = False
        while True:
            try:
                return self._post(path, record, deadline_s=deadline_s, decided=True)
            except _Undecidable as error:
                if sent_before:
                    raise PublishError(f"{error}: it may be published", indeterminate=True) from None
                raise error.conflict from None
            except PublishTimeout as error:
                raise PublishTimeout(str(error), indeterminate=sent_before) if sent_before else error from None
            except (VersionConflict, SetConflict):
                raise
            except PublishError as error:
                # What was sent before may be done, although this time nothing was.
                sent_before |= error.indeterminate
                if not sent_before:
                    raise
                if time.monotonic() + _AGAIN_S >= deadline_s:
                    raise PublishError(str(error), indeterminate=True) from None
            time.sleep(_AGAIN_S)

    def _post(
        self,
        path: str,
        record: dict[str, object] | bytes,
        *,
        deadline_s: float | None = None,
        decided: bool = False,
        **query: str | None,
    ) -> dict[str, Any]:
        """`decided`: with a condition, whose outcome is waited for."""
        deadline_s = time.monotonic() + self._timeout_s if deadline_s is None else deadline_s
        last: TurnRefused | None = None
        while True:
            try:
                with self._turns.turn(deadline_s):
                    return self._ask("POST", path, record, outcome=None if decided else "no", **query)
            except TurnRefused as refused:
                last = refused
            except NoTurn:
                why = (
                    str(last)
                    if last is not None
                    else f"{self._requests.base}: as many requests are under way as it answers at a time"
                )
                raise PublishTimeout(
                    f"{why}, since {self._timeout_s:g} s; nothing was written", indeterminate=False
                ) from None

    def _ask(self, method: str, path: str, body: object = None, **query: str | None) -> dict[str, Any]:
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"{'payload' if method == 'POST' else 'description'}: is not JSON: {error}") from None
        try:
            return self._requests.ask(method, path, data, query=query, timeout_s=self._timeout_s)
        except HttpRefusal as refusal:
            found = _error_of(refusal, refusal.base, publish=method == "POST")
            if isinstance(found, _Several):
                return found.answer
            raise found from None
        except HttpUnanswered as error:
            raise PublishError(str(error), indeterminate=not error.unsent) from None


def _path(domain: str, group: str, name: str, kind: str = "objects") -> str:
    return group_path(domain, group, kind, name)


def _check_condition(said: Mapping[str, object], *, outbox: bool, described: bool) -> None:
    names = list(said)
    if len(names) > 1:
        raise ValueError(f"{names[1]}: cannot be combined with {names[0]}")
    if outbox:
        raise ValueError(f"{names[0]}: does not go through the outbox; publish it without one")
    if described:
        raise ValueError(f"{names[0]}: cannot be combined with description")


def _member(place: int, name: str, fields: Mapping[str, Any]) -> dict[str, object]:
    """Returns one member of a set as the service takes it. Raises ValueError."""
    if not isinstance(name, str):
        raise ValueError(f"set[{place}].object: {name!r} is not text")
    said = {
        key: value for key, value in fields.items() if key != "payload" and value is not None and value is not False
    }
    return {**said, **said_payload(fields.get("payload")), "object": name}


def _text(clock_ms: int | None) -> str | None:
    return None if clock_ms is None else str(clock_ms)


def _kind(outgoing: Outgoing) -> str:
    return "channels" if outgoing.is_message else "objects"


class _Several(Exception):
    """The service's answer for several records, not all of which are published."""

    def __init__(self, answer: dict[str, Any]) -> None:
        super().__init__()
        self.answer = answer


def _described(answer: Mapping[str, Any]) -> Described:
    return Described(answer["description"], answer["version"], answer["revision"])


def _conflict_of(answer: Mapping[str, Any], words: str) -> PublishError:
    if isinstance(members := answer.get("members"), list):
        faults = {one["object"]: SetFault(f"{one['field']}: {one['error']}", _newest_of(one)) for one in members}
        return SetConflict(words, faults)
    return VersionConflict(words, _newest_of(answer))


def _newest_of(answer: Mapping[str, Any]) -> Newest | None:
    return None if answer.get("newest") is None else Newest.of(answer["newest"])


def _error_of(refusal: HttpRefusal, base: str, *, publish: bool) -> Exception:
    answer, words, status = refusal.answer, str(refusal), refusal.status
    if publish and isinstance(answer.get("results"), list):
        return _Several(answer)
    if status in _BAD_INPUT:
        if isinstance(clock_ms := answer.get("clock_ms"), int):
            return ClockRefused(words, clock_ms)
        return VersionRefused(words, answer["object"]) if isinstance(answer.get("object"), str) else ValueError(words)
    if status == _FORBIDDEN and answer:  # of the service, and not of a proxy before it
        return PublishRejected(f"{base}: {words}")
    if status == _NOT_KNOWN:
        return LookupError(words)
    if status == _CONFLICT and publish:
        conflict = _conflict_of(answer, words)
        return _Undecidable(words, conflict) if answer.get("outcome") == _MAY_BE else conflict
    if status == _CONFLICT:
        return DescriptionConflict(words, _described(answer))
    # Of a status that no handler has given, as a balancer's, nothing is known.
    outcome = str(answer.get("outcome", "" if status < 500 else _MAY_BE))
    found = PublishError(f"{base}: {words}", indeterminate=outcome.startswith(_MAY_BE))
    after_s = refusal.retry_after_s
    if publish and status in _TOO_MUCH and after_s is not None and outcome in ("", _NOT_PUBLISHED):
        return TurnRefused(found, max(after_s, _RETRY_AFTER_S_MIN))
    return found
