"""`docs/protocol.md`'s other side, without I/O: `Service` is matcher and gateway in one."""

import json
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.protocol import REGISTRATIONS_MAX

from coldnotify._core.publishing.patches import KEYS_MAX
from coldnotify._core.streams.payloads import said_by
from coldnotify.testing.channels import BEGINNING, LoggedMessage, ServiceLog
from coldnotify.testing.service_ledger import ServiceLedger
from coldnotify.testing.service_partition import Newest, ServicePartition
from coldnotify.testing.service_session import Host, Session
from coldnotify.testing.service_shares import letter_of


class Service(Host):
    """Matcher and gateway in one, without I/O: sessions take bytes and give bytes."""

    def __init__(self, *, page_objects: int = 100, registrations_max: int = REGISTRATIONS_MAX) -> None:
        super().__init__(page_objects, registrations_max)
        self.sessions: list[Session] = []
        self.ledger = ServiceLedger(self)

    def publish(
        self,
        domain: str,
        group: str,
        object_: str,
        payload: object = None,
        *,
        version: int | None = None,
        incarnation: int | None = None,
        deleted: bool = False,
        hold: bool = False,
        source: str = "",
        expires_at: int | None = None,
    ) -> int:
        """A back-end publishes. Without `version`, the next one. `hold`: registered clients are told at `release`.
        `source`: the client that caused it, which is told nevertheless.
        """
        partition = self.partition(domain, group)
        partition.end += 1
        old = partition.objects.get(object_)
        incarnation = incarnation if incarnation is not None else old.incarnation if old else 0
        if version is None:
            version = old.version + 1 if old and old.incarnation == incarnation else 0
        encoded, raw = _encoded(payload)
        outcome = "published"
        if old is not None and (incarnation, version) <= (old.incarnation, old.version):
            is_same = (old.payload, old.deleted) == (encoded, deleted)
            is_old = (incarnation, version) < (old.incarnation, old.version)
            outcome = "stale" if is_old else "repeated" if is_same else "altered"
        newest = (incarnation, version) if old is None else max((incarnation, version), (old.incarnation, old.version))
        partition.outcomes[partition.end] = object_, outcome, *newest
        if old is not None and outcome == "stale":
            return old.version
        partition.objects[object_] = Newest(
            version, partition.end, incarnation, encoded, deleted, source, self.now_ms(), expires_at, raw
        )
        partition.held.setdefault(object_, partition.end)
        gone = [query for query in partition.sets.members if deleted and self._put(partition, query, object_)]
        if gone:
            self._tell(domain, group, object_, left=gone)
        elif not hold:
            self.release(domain, group, object_)
        return version

    def send(
        self,
        domain: str,
        group: str,
        channel: str,
        payload: object = None,
        *,
        data: bytes | None = None,
        id: str = "",  # noqa: A002 - as a message calls it
        source: str = "",
        to: Collection[str] = (),
        published_ms: int = 0,
        key: str = "",
    ) -> int:
        """A back-end sends a message: `payload` as JSON, or `data` unchanged. Returns its offset, which is 0 for the
        first. Nobody is told a message with an `id` that came before. `key`: members of a share are handed those with
        one key in order.
        """
        log = self.partition(domain, group).log
        encoded = json.dumps(payload).encode() if data is None else data
        message = LoggedMessage(len(log.messages), channel, encoded, id, source, tuple(sorted(to)), published_ms, key)
        if log.append(message):
            for session in self.sessions:
                session.fan_out_message(domain, group, message)
            self.shares_of(domain, group).expire()
            self.bury(domain, group)
        return message.offset

    def bury(self, domain: str, group: str) -> None:
        """Sends what has become a dead letter of a share."""
        dead, log = self.shares_of(domain, group).dead, self.partition(domain, group).log
        while dead:
            share, offset = dead.pop()
            channel, data, id_ = letter_of(share, log.messages[offset])
            self.send(domain, group, channel, data=data, id=id_)

    def expire_leases(self, domain: str, group: str) -> None:
        """Ends all leases of shares at once, as if their members had been away for so long."""
        self.shares_of(domain, group).expire(float("inf"))
        self.bury(domain, group)

    def retain(self, domain: str, group: str, start: int) -> None:
        """Removes messages below this offset from the log of channels. Clients that lack some are told that they missed
        them.
        """
        self.partition(domain, group).log.retain(start)

    def expire(self, domain: str, group: str, offset: int) -> None:
        """Lets this message expire: clients that lack it are told that they missed it."""
        self.partition(domain, group).log.messages[offset].gone = wire.EXPIRED

    def new_channels_epoch(self) -> None:
        """The channels topic was recreated, or its retention changed: it is empty, and all sessions end."""
        self.close_all(CloseCode.UNKNOWN_SESSION)
        self.channels_epoch += 1
        for partition in self._partitions.values():
            partition.log = ServiceLog()
        for registrations in self.channels.values():
            for registered in registrations.by_name.values():
                registered.position = BEGINNING

    def enter(self, domain: str, group: str, query: str, object_: str) -> None:
        """The object is a member of the query from here on. It need not have been published."""
        self._change(domain, group, query, object_, member=True)

    def leave(self, domain: str, group: str, query: str, object_: str) -> None:
        """The object is a member of the query no more. One that is deleted leaves by itself."""
        self._change(domain, group, query, object_, member=False)

    def patch(self, domain: str, group: str, object_: str, patch: Mapping[str, Any]) -> str:
        """Merges a patch into an object's description. Returns why it cannot be, or ""."""
        encoded, _ = self.partition(domain, group).descriptions.get(object_, (b"", 0))
        said = json.loads(encoded or b"{}") | dict(patch)
        merged = {key: value for key, value in said.items() if value is not None}
        if len(merged) > KEYS_MAX:
            return f"description: has {len(merged)} keys (at most {KEYS_MAX} are allowed)"
        self.describe(domain, group, object_, merged)
        return ""

    def describe(self, domain: str, group: str, object_: str, description: Mapping[str, Any] | None) -> None:
        """Describes the object from here on; None removes the description. Clients that ask for descriptions are told
        those of their queries' members. It enters and leaves no query: a test determines that.
        """
        partition = self.partition(domain, group)
        partition.end += 1
        encoded = b"" if description is None else json.dumps(dict(description)).encode()
        partition.descriptions[object_] = encoded, partition.end
        partition.described_ms[object_] = max(self.now_ms(), partition.described_ms.get(object_, -1) + 1)
        for session in self.sessions:
            session.redescribe(domain, group, object_)

    def _change(self, domain: str, group: str, query: str, object_: str, *, member: bool) -> None:
        partition = self.partition(domain, group)
        if (object_ in partition.sets.members.get(query, ())) != member:
            partition.end += 1
            self._put(partition, query, object_, member=member)
            entered, left = ([query], []) if member else ([], [query])
            self._tell(domain, group, object_, entered=entered, left=left)

    @staticmethod
    def _put(partition: ServicePartition, query: str, object_: str, *, member: bool = False) -> bool:
        return partition.sets.put(query, object_, partition.end, member=member)

    def _tell(
        self, domain: str, group: str, object_: str, *, entered: Iterable[str] = (), left: Iterable[str] = ()
    ) -> None:
        self.partition(domain, group).held.pop(object_, None)
        for session in self.sessions:
            session.change(domain, group, object_, set(entered), set(left))

    def release(self, domain: str, group: str, object_: str | None = None) -> None:
        """Tells the clients what was published with `hold`: one object, or all."""
        partition = self.partition(domain, group)
        for name in (
            [object_] if object_ is not None else sorted(partition.held, key=lambda n: partition.objects[n].offset)
        ):
            if partition.held.pop(name, None) is not None:
                for session in self.sessions:
                    session.fan_out(domain, group, name, partition.objects[name])

    def open(self) -> Session:
        """A client has connected."""
        session = Session(self)
        self.sessions.append(session)
        return session

    def new_epoch(self) -> None:
        """The objects topic was recreated: offsets start over, the publishers publish their newest versions again."""
        self.close_all(CloseCode.UNKNOWN_SESSION)
        self.epoch += 1
        for (domain, group), partition in list(self._partitions.items()):
            old, partition.objects, partition.end, partition.held = partition.objects, {}, 0, {}
            partition.outcomes.clear()
            for name, newest in old.items():
                payload = newest.payload or None
                self.publish(domain, group, name, payload, version=newest.version, incarnation=newest.incarnation)
            partition.sets.begin_anew()
            partition.descriptions = {name: (said, 0) for name, (said, _) in partition.descriptions.items()}

    def come_back(self) -> None:
        """The matcher is there again: clients that wait get their Welcome."""
        self.away = False
        for session in list(self.sessions):
            session.resume()

    def close_all(self, code: int, reason: str = "") -> None:
        """End every session with this code."""
        for session in list(self.sessions):
            session.close(code, reason)


def _encoded(payload: object) -> tuple[bytes, bool]:
    """Returns the payload's bytes; true with bytes that are no JSON."""
    if isinstance(payload, bytes):
        return payload, isinstance(said_by(payload), bytes)
    return (b"" if payload is None else json.dumps(payload).encode()), False
