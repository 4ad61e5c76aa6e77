"""Shares in the service for tests: each message of a channel is handed to one member, under a lease.

A lease whose time is over ends with the next Hold of any member, or by `ServiceShare.expire`.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import channel_text, share_hash, share_text
from coldnotify_schemas.share_names import dead_letter_id, dead_letters_channel

from coldnotify.testing.channels import LoggedMessage, ServiceLog

ATTEMPTS_MAX = 10


@dataclass(slots=True)
class ServiceLease:
    """The latest hand-out of a message that is not settled."""

    number: int = 0
    attempts: int = 0
    member: str | None = None
    """The client that holds it, or held it last; None: it gave it back, or there was none."""
    is_held: bool = False
    begun: bool = False
    ends_ms: float = 0
    """When its lease ends; while nobody holds it, when it may be handed out again."""

    def hand(self, client: str, ends_ms: float) -> None:
        """A member is handed it."""
        self.number += 1
        self.member, self.is_held, self.begun, self.ends_ms = client, True, False, ends_ms

    def extend(self, ends_ms: float, *, begins: bool) -> None:
        """Its holder still has it. `begins`: the callback does."""
        self.ends_ms = ends_ms
        if begins and not self.begun:
            self.begun = True
            self.attempts += 1

    def give_back(self, due_ms: float, *, dies: bool = False) -> None:
        """It may be handed out again from then on. `dies`: it becomes a dead letter instead."""
        self.is_held, self.member, self.ends_ms = False, None, due_ms
        self.attempts = ATTEMPTS_MAX if dies else self.attempts

    def expire(self, now_ms: float) -> None:
        """Ends its lease, if the time is over. Its holder may still settle it until another one is handed it."""
        if self.is_held and self.ends_ms <= now_ms:
            self.is_held, self.ends_ms = False, 0


@dataclass(slots=True)
class ServiceMember:
    """A member in its present session."""

    send: Callable[..., None]
    lease_s: int
    prefetch: int
    hold: int
    """The number of its last Hold."""


@dataclass(slots=True)
class ServiceShare:
    """One share."""

    name: str
    channel: str
    attributes: tuple[str, ...]
    base: int
    """It begins behind this offset."""
    members: dict[str, ServiceMember] = field(default_factory=dict)
    """By client: those that are connected, and say Holds."""
    leases: dict[int, ServiceLease] = field(default_factory=dict)
    settled: set[int] = field(default_factory=set)

    @property
    def hash(self) -> int:
        """The hash of its registration."""
        return share_hash(share_text(self.name, self.channel, self.attributes))

    def held_by(self, client: str) -> list[int]:
        """Returns the offsets of what a member holds."""
        return [offset for offset, one in self.leases.items() if one.is_held and one.member == client]

    def is_held(self, client: str, said: wire.HeldMessage) -> bool:
        """Returns true if the client holds this hand-out, or nobody has had the message since it did."""
        one = self.leases.get(said.offset)
        return one is not None and one.member == client and one.number == said.hand_out

    def take(self, client: str, said: wire.HeldMessage, now_ms: float, lease_s: int) -> bool:
        """Does what a Hold says of a message. Returns false if the lease is lost."""
        one = self.leases.get(said.offset)
        if said.state == wire.HELD_DONE and said.offset in self.settled:
            return True
        if one is None or not self.is_held(client, said) or (said.state != wire.HELD_DONE and not one.is_held):
            return False
        if said.state == wire.HELD_DONE:
            self.settle(said.offset)
        elif said.state == wire.HELD_BACK:
            one.give_back(now_ms + said.after_s * 1000)
        elif said.state == wire.HELD_REJECTED:
            one.give_back(now_ms, dies=True)
        else:
            one.extend(now_ms + lease_s * 1000, begins=said.state == wire.HELD_BEGUN)
        return True

    def settle(self, offset: int) -> None:
        """Settles a message."""
        self.leases.pop(offset, None)
        self.settled.add(offset)

    def expire(self, now_ms: float) -> None:
        """Ends the leases whose time is over."""
        for one in self.leases.values():
            one.expire(now_ms)

    def hand_out(self, log: ServiceLog, now_ms: float) -> Iterator[int]:
        """Hands out what may be, to those who have fewest in hand. Yields the offsets of what becomes a dead letter."""
        keys: set[str] = set()
        for message in log.lacking(channel_text(self.channel, self.attributes), self.base):
            if message.offset in self.settled:
                continue
            is_first = not message.key or message.key not in keys
            keys.add(message.key)
            one = self.leases.setdefault(message.offset, ServiceLease())
            if one.is_held or one.ends_ms > now_ms or not is_first:
                continue
            if one.attempts >= ATTEMPTS_MAX and not message.gone:
                self.settle(message.offset)
                yield message.offset
                continue
            free = [(len(self.held_by(name)), name) for name in self.members]
            free = [(held, name) for held, name in free if held < self.members[name].prefetch]
            if free:
                self._hand(message, one, min(free)[1], now_ms)

    def _hand(self, message: LoggedMessage, one: ServiceLease, client: str, now_ms: float) -> None:
        member = self.members[client]
        one.hand(client, now_ms + member.lease_s * 1000)
        self.say(message, one)

    def say(self, message: LoggedMessage, one: ServiceLease) -> None:
        """Sends a hand-out to its member."""
        member = self.members[one.member or ""]
        if message.gone:
            missed = wire.Missed(
                channel=self.hash,
                before=message.offset + 1,
                reason=wire.Reason.Name(message.gone),
                paged=True,
                hand_out=one.number,
                attempts=one.attempts,
                hold=member.hold,
            )
            if message.offset:
                missed.after = message.offset - 1
            member.send(missed=missed)
            return
        said = wire.Message(
            channel=self.hash,
            offset=message.offset,
            payload=message.data,
            id=message.id,
            source=message.source,
            published_ms=message.published_ms,
            paged=True,
            hand_out=one.number,
            attempts=one.attempts,
            hold=member.hold,
            key=message.key,
        )
        member.send(message=said)


class ServiceShares:
    """The shares of a domain and group."""

    def __init__(self, log: Callable[[], ServiceLog], now_ms: Callable[[], float]) -> None:
        self._log = log
        self._now_ms = now_ms
        self.by_name: dict[tuple[str, str], ServiceShare] = {}
        self.dead: list[tuple[ServiceShare, int]] = []
        """Dead letters that are to be sent: the share, and the offset."""

    def register(self, said: wire.Interest) -> str:
        """A client registers for a share. Returns why it may not, or ""."""
        name = said.text, said.share
        share = self.by_name.get(name)
        attributes = tuple(said.attributes)
        if share is None:
            base = self._log().resolve(channel_text(said.text, attributes), said)
            self.by_name[name] = ServiceShare(said.share, said.text, attributes, base)
        elif share.attributes != attributes:
            return f"attributes: the share has {list(share.attributes)}"
        return ""

    def of_hash(self, hash_: int) -> ServiceShare | None:
        """Returns the share whose registration has this hash."""
        return next((one for one in self.by_name.values() if one.hash == hash_), None)

    def on_hold(self, client: str, hold: wire.Hold, hashes: Iterable[int], send: Callable[..., None]) -> None:
        """A member says what it holds. `hashes`: of the shares that it is registered for."""
        now_ms, known, lost = self._now_ms(), set(hashes), []
        for said in hold.shares:
            share = self.of_hash(said.share)
            if share is None or said.share not in known:
                lost.append(wire.LostLeases(share=said.share, offsets=[one.offset for one in said.messages]))
                continue
            before = share.members.get(client)
            lease_s = said.lease_s or (before.lease_s if before else 30)
            gone = [one.offset for one in said.messages if not share.take(client, one, now_ms, lease_s)]
            if gone:
                lost.append(wire.LostLeases(share=said.share, offsets=gone))
            if said.closed:
                share.members.pop(client, None)
            elif said.prefetch or before:
                prefetch = said.prefetch or (before.prefetch if before else 1)
                share.members[client] = ServiceMember(send, lease_s, prefetch, hold.number)
        send(leases=wire.Leases(number=hold.number, lost=lost))
        if hold.all:
            self._say_again(client, hold, now_ms)
        self.expire(now_ms)

    def _say_again(self, client: str, hold: wire.Hold, now_ms: float) -> None:
        named = {(said.share, one.offset) for said in hold.shares for one in said.messages}
        for share in self.by_name.values():
            if client not in share.members:
                continue
            for offset in share.held_by(client):
                one = share.leases[offset]
                if (share.hash, offset) not in named and not one.begun:
                    one.extend(now_ms + share.members[client].lease_s * 1000, begins=False)
                    share.say(self._log().messages[offset], one)

    def leave(self, client: str, send: Callable[..., None]) -> None:
        """A session ends. Its client's leases go on."""
        for share in self.by_name.values():
            member = share.members.get(client)
            if member is not None and member.send == send:
                del share.members[client]

    def unregister(self, client: str, hashes: Iterable[int]) -> None:
        """A client is a member no more of the shares that have these hashes: it gives back what it holds."""
        for hash_ in hashes:
            share = self.of_hash(hash_)
            if share is not None:
                share.members.pop(client, None)
                for offset in share.held_by(client):
                    share.leases[offset].give_back(0)

    def expire(self, now_ms: float | None = None) -> None:
        """Ends leases whose time is over at `now_ms`, by default now, and hands out what may be."""
        for share in list(self.by_name.values()):
            share.expire(self._now_ms() if now_ms is None else now_ms)
            for offset in share.hand_out(self._log(), self._now_ms()):
                self.dead.append((share, offset))


class ClientShares:
    """The shares that one client is registered for."""

    def __init__(self) -> None:
        self.texts: set[str] = set()

    @property
    def hashes(self) -> list[int]:
        """The registrations' hashes on the wire."""
        return [share_hash(text) for text in sorted(self.texts)]

    def register(self, shares: ServiceShares, interests: Iterable[wire.Interest]) -> list[wire.Refusal]:
        """Registers the client for the shares among these. Returns those that it may not be a member of."""
        refused = []
        for said in interests:
            if said.kind == wire.INTEREST_SHARE:
                text = share_text(said.share, said.text, said.attributes)
                reason = shares.register(said)
                if reason:
                    refused.append(wire.Refusal(interest=share_hash(text), reason=reason))
                else:
                    self.texts.add(text)
        return refused

    def unregister(self, hashes: Iterable[int]) -> None:
        """It wants these no more."""
        gone = set(hashes)
        self.texts = {text for text in self.texts if share_hash(text) not in gone}


def letter_of(share: ServiceShare, message: LoggedMessage) -> tuple[str, bytes, str]:
    """Returns a dead letter's channel, payload and id."""
    return dead_letters_channel(share.channel, share.name), message.data, dead_letter_id(share.name, message.offset)
