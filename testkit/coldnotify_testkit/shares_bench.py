"""For tests: an engine with shares of channels, and members that say what they hold."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec
from coldnotify_matcher.engine import Engine
from coldnotify_matcher.engine.shares.one_share import KnownShare
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import share_hash, share_text
from coldnotify_schemas.share_state import ShareRecord
from coldnotify_schemas.wire_pb2 import HELD_WAITS, INTEREST_SHARE, HeldState, Since

from coldnotify_testkit.channels_bench import TOPICS, ChannelsBench
from coldnotify_testkit.engine_bench import GATEWAY, PREFIX

SHARE = "workers"
CHANNEL = "tasks"
HASH = share_hash(share_text(SHARE, CHANNEL))
LEASE_S = 30


class Handed(NamedTuple):
    """One message, or a notice, that a member was handed."""

    offset: int
    hand_out: int
    attempts: int
    hold: int
    reason: int = 0
    payload: bytes = b""


class SharesBench(ChannelsBench):
    """An engine whose domain has a share of a channel."""

    def on_taken_over(self, engine: Engine) -> None:
        """The shares that are stored are served."""
        engine.state.shares.offered = True
        stored = self.stored[TOPICS.shares]
        self.serve(engine, {key: msgspec.json.decode(value, type=ShareRecord) for key, value in stored.items()})

    def serve(self, engine: Engine, records: Mapping[str, ShareRecord]) -> None:
        """Begins to serve these shares."""
        state = engine.state
        shares = [KnownShare.load(key, one, state.steady_ms, applied_counts=True) for key, one in records.items()]
        state.shares.serve(shares, state.clients.values())

    def join(
        self,
        client: str,
        *,
        session: int,
        since: Since = wire_pb2.SINCE_NOW,
        at: int = 0,
        attributes: Iterable[str] = (),
        share: str = SHARE,
        channel: str = CHANNEL,
    ) -> None:
        """A client opens a session, registered for the share."""
        one = wire_pb2.Interest(
            kind=INTEREST_SHARE, share=share, text=channel, attributes=attributes, since=since, at=at
        )
        hash_ = share_hash("\x00".join([share, channel, *attributes]))
        digest = hash_ % MODULUS
        opened = internal_pb2.Open(digest=digest, ask=1, interests=[one], shares=True)
        self.request(session, client, open=opened)

    def hold(
        self,
        client: str,
        *,
        session: int,
        number: int = 1,
        held: Iterable[tuple[int, int, HeldState] | tuple[int, int, HeldState, int]] = (),
        first: bool = False,
        closed: bool = False,
        prefetch: int = 1,
        lease_s: int = LEASE_S,
        hash_: int = HASH,
    ) -> None:
        """A client says what it holds: (offset, hand-out, state, and the seconds of a retry). `first`: in its
        session, with its terms."""
        said = wire_pb2.HeldShare(share=hash_, lease_s=lease_s if first else 0, prefetch=prefetch if first else 0)
        said.closed = closed
        for offset, hand_out, state, *after_s in held:
            said.messages.add(offset=offset, hand_out=hand_out, state=state, after_s=sum(after_s))
        self.request(session, client, hold=wire_pb2.Hold(number=number, all=first, shares=[said]))

    def begin(self, client: str, *, session: int, prefetch: int = 1, lease_s: int = LEASE_S) -> None:
        """A client joins the share, and is there."""
        self.join(client, session=session)
        self.settle()
        self.hold(client, session=session, first=True, prefetch=prefetch, lease_s=lease_s)
        self.settle()

    def settle(self) -> None:
        """All requests are handled, and all is durable: leases end as of now."""
        self.engine.state.shares.as_of_ms = self.now_ms
        super().settle()
        while self.engine.steps_on:
            self.step()

    def passes(self, ms: int) -> None:
        """Time passes, in ticks of a second at most, and all that was said meanwhile is handled."""
        until = self.now_ms + ms
        while self.now_ms < until:
            ms = min(1000, until - self.now_ms)
            self.engine.state.shares.as_of_ms = self.now_ms + ms
            for gateway in self.engine.state.gateways.values():
                gateway.heard(self.now_ms + ms)
            self.tick(ms)
            self.settle()

    def handed(self, session: int, gateway: int = GATEWAY) -> list[Handed]:
        """Returns what a session was handed since the last call."""
        items = self.told[gateway]
        found: list[Handed] = []
        for item in items:
            if item.WhichOneof("item") == "handed" and item.handed.session == session:
                found += map(_handed, item.handed.entries)
                del item.handed.entries[:]
        return found

    def leases(self, session: int, gateway: int = GATEWAY) -> list[tuple[int, list[int]]]:
        """Returns (number, lost offsets) of the answers to a session's Holds since the last call."""
        found: list[tuple[int, list[int]]] = []
        for item in self.told[gateway]:
            if (
                item.WhichOneof("item") == "handed"
                and item.handed.session == session
                and item.handed.HasField("leases")
            ):
                leases = item.handed.leases
                found.append((leases.number, [offset for one in leases.lost for offset in one.offsets]))
                item.handed.ClearField("leases")
        return found

    def stored_share(self, share: str = SHARE, channel: str = CHANNEL) -> ShareRecord:
        """Returns the share's record."""
        domain, group, _ = PREFIX.split("/")
        value = self.stored[TOPICS.shares][f"{domain}/{group}/{share}/{channel}"]
        return msgspec.json.decode(value, type=ShareRecord)


def _handed(entry: internal_pb2.Entry) -> Handed:
    if entry.HasField("missed"):
        missed = entry.missed
        offset = missed.after + 1 if missed.HasField("after") else 0
        return Handed(offset, missed.hand_out, missed.attempts, missed.hold, missed.reason)
    said = entry.message
    return Handed(said.offset, said.hand_out, said.attempts, said.hold, payload=said.payload)


WAITS = HELD_WAITS
