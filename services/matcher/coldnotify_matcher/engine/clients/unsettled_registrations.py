"""Registrations that clients' applications have not taken although the cursor may be past them: as clients report, for
the ledger.

A client whose library can report so is marked unsettled for each registration from the request on that registers it,
because its application cannot have received it by then. The client reports settled registrations, and errors of its
callbacks. Its Hello may say that only the registrations in it are unsettled. The mark is stored with the registration,
in the same record.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from coldnotify_schemas.matcher_state import UnsettledRecord
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX, UNSETTLED_ERROR_BYTES_MAX

from coldnotify_matcher.engine.clients.unsettled import NOWHERE, UnsettledRegistration
from coldnotify_matcher.engine.objects.objects import Obj

if TYPE_CHECKING:
    from coldnotify_schemas import wire_pb2

    from coldnotify_matcher.engine.clients.clients import RegisteredClient, Registration

OFFSET_MAX = (1 << 63) - 1
"""Kafka's offsets are signed 64-bit integers."""


def asked_for(client: RegisteredClient, objects: Iterable[Obj], hashes: Iterable[int]) -> list[Registration]:
    """Returns the registrations in a request that the client is registered for now.

    `objects`: those that it is registered for by name. `hashes`: of the others.
    """
    return [*objects, *(one for hash_ in hashes if (one := _by_hash(client, hash_)) is not None)]


def tells(client: RegisteredClient, *, can: bool) -> None:
    """Note whether its library reports unsettled registrations. To be stored in this step, if that is new."""
    if client.tells_unsettled is not can:
        client.tells_unsettled = can
        client.changed.update(range(len(client.buckets)))
        if not can:
            client.settle_all()


def put(client: RegisteredClient, registrations: Iterable[Registration], now_ms: int) -> None:
    """Mark registrations that were just requested. Those that are unsettled already stay as they are."""
    pending = UnsettledRegistration(now_ms)
    for one in registrations:
        if one not in client.unsettled:
            client.unsettle(one, pending)


def say_all(client: RegisteredClient, registrations: Iterable[Registration], now_ms: int) -> None:
    """Settle all others, because its Hello said that only these are unsettled."""
    pending = set(registrations)
    for one in [one for one in client.unsettled if one not in pending]:
        client.settle(one)
    put(client, pending, now_ms)


def on_frame(client: RegisteredClient, objects: Mapping[str, Obj], frame: wire_pb2.Unsettled, now_ms: int) -> None:
    """Apply a report in the middle of a session, without entries that it is not registered for.

    `objects`: all objects, by domain/group/object.
    """
    said = {}
    for entry in frame.entries:
        registration = _registration(client, objects, entry)
        if registration is not None:
            said[registration] = _unsettled(entry, client.unsettled.get(registration), now_ms)
    if frame.all:
        gone = [one for one in client.unsettled if one not in said]
    else:
        settled: list[Registration | None] = [_by_name(client, objects, name) for name in frame.settled]
        settled += [_by_hash(client, hash_) for hash_ in frame.settled_hashes]
        gone = [one for one in dict.fromkeys(settled) if one in client.unsettled and one not in said]
    for one in gone:
        client.settle(one)
    for one, unsettled in said.items():
        if client.unsettled.get(one) != unsettled:
            client.unsettle(one, unsettled)


def records_of(client: RegisteredClient, bucket: Iterable[Registration]) -> list[UnsettledRecord] | None:
    """Returns the records for one bucket; None: the client cannot report."""
    if not client.tells_unsettled:
        return None
    if not client.unsettled:
        return []
    found = [(one, client.unsettled[one]) for one in bucket if one in client.unsettled]
    records = [
        UnsettledRecord(
            name=one.name if isinstance(one, Obj) else "",
            hash=0 if isinstance(one, Obj) else one.hash,
            since=unsettled.since_ms,
            parked=unsettled.parked,
            failures=unsettled.failures,
            error=unsettled.error,
            members=list(unsettled.members),
            position=unsettled.position,
        )
        for one, unsettled in found
    ]
    return sorted(records, key=lambda record: (record.name, record.hash))


def load(client: RegisteredClient, bucket: Iterable[Registration], records: Iterable[UnsettledRecord]) -> None:
    """Load the records of one bucket's registrations."""
    wanted = {(record.name, record.hash): record for record in records}
    for one in bucket if wanted else ():
        record = wanted.get((one.name, 0) if isinstance(one, Obj) else ("", one.hash))
        if record is not None:
            members = tuple(record.members)
            entry = UnsettledRegistration(
                record.since, record.parked, record.failures, record.error, members, record.position
            )
            client.put_unsettled(one, entry)


def _registration(
    client: RegisteredClient, objects: Mapping[str, Obj], entry: wire_pb2.UnsettledEntry
) -> Registration | None:
    return _by_hash(client, entry.hash) if entry.HasField("hash") else _by_name(client, objects, entry.name)


def _by_name(client: RegisteredClient, objects: Mapping[str, Obj], name: str) -> Obj | None:
    obj = objects.get(f"{client.group_key}/{name}")
    return obj if obj is not None and client.interested(obj) else None


def _by_hash(client: RegisteredClient, hash_: int) -> Registration | None:
    return client.registered_by(hash_)


def _unsettled(
    entry: wire_pb2.UnsettledEntry, before: UnsettledRegistration | None, now_ms: int
) -> UnsettledRegistration:
    error = entry.error.encode()[:UNSETTLED_ERROR_BYTES_MAX].decode(errors="ignore")
    since_ms = now_ms if before is None else before.since_ms
    if entry.since_s:
        since_ms = max(0, now_ms - entry.since_s * 1000)
    position = min(entry.position, OFFSET_MAX) if entry.HasField("position") else NOWHERE
    members = tuple(entry.members[:OBJECTS_PER_FRAME_MAX])
    said = UnsettledRegistration(since_ms, entry.parked, entry.failures, error, members, position)
    # A difference of a second comes from the network: it is not a reason to write a record.
    same = before is not None and replace(said, since_ms=before.since_ms) == before
    return before if same and before is not None else said
