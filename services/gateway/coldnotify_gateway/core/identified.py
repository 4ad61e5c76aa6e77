"""A session: a connection whose client said Hello. What the gateway knows of it, and how that changes.

Its state follows the table in `states.py`. What it waits for, what its client claims, its pages, its channels, what it
publishes and its quota are parts of their own: `question.py`, `claim.py`, `pages.py`, `channel_stages.py`,
`waiting_publishes.py`, `quota.py`. Each is changed by its own methods only.
"""

from __future__ import annotations

from collections.abc import Iterable
from sys import intern

from coldnotify_schemas.protocol import SILENCE_EXTRA_S, SILENCE_FACTOR
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_DESCRIPTIONS,
    CAPABILITY_IN_ORDER,
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    CAPABILITY_UNSETTLED,
    Hello,
)

from coldnotify_gateway.core.channel_stages import Channels
from coldnotify_gateway.core.claim import Claim, Pending
from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.pages import Pages
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.question import Question
from coldnotify_gateway.core.quota import Quota
from coldnotify_gateway.core.states import TABLE, Event, State
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.waiting_publishes import Publishes


class Identified:
    """One session. Registrations are not here: they are the matcher's.

    `complete` is what the client may believe while the session is not live; while it is, the partition's position
    counts too.
    """

    __slots__ = (
        "_keepalive_s",
        "_publishes",
        "_quota",
        "acked",
        "address",
        "all_unsettled",
        "blocked",
        "channels",
        "channels_in_order",
        "claim",
        "client",
        "complete",
        "connected_s",
        "describes",
        "descriptions",
        "domain",
        "doubted",
        "epoch",
        "frames",
        "group",
        "heard_s",
        "may_publish",
        "names",
        "number",
        "opened",
        "pages",
        "peer",
        "queries",
        "question",
        "state",
        "view",
        "wake_s",
    )

    def __init__(
        self,
        before: Unidentified,
        hello: Hello,
        number: int,
        view: PartitionView[Identified],
        now_s: float,
        limits: Limits,
        *,
        may_publish: bool = False,
    ) -> None:
        self.peer = before.peer
        self.address = before.address
        self.connected_s = before.connected_s
        self.frames = before.frames
        self.number = number
        self.view = view
        # A gateway's many clients are of few domains and groups: each name is there once.
        self.domain: str = intern(hello.domain)
        self.group: str = intern(hello.group)
        self.client: str = hello.client
        self.names = bool(hello.capabilities & CAPABILITY_NAMES)
        self.queries = bool(hello.capabilities & CAPABILITY_QUERIES)
        """The client wants to know whether the service knows queries."""
        self.channels_in_order = bool(hello.capabilities & CAPABILITY_IN_ORDER)
        """No channel overtakes another."""
        self.descriptions = bool(hello.capabilities & CAPABILITY_DESCRIPTIONS)
        """It wants to be told how the members of its queries are described."""
        self.all_unsettled = bool(hello.capabilities & CAPABILITY_UNSETTLED)
        """All that its application has not taken is registered for in its Hello."""
        self.describes = False
        """Its Welcome said that it is."""
        self._keepalive_s: int = min(hello.keepalive_s or limits.keepalive_default_s, limits.keepalive_max_s)
        self.heard_s = now_s
        self.wake_s = NEVER_S

        self.state = State.OPENING
        self.opened = False
        """An Opened has come: the epoch is known, acks count."""
        self.doubted = False
        """The matcher may not know where it is: it is slow, and is to be announced once it is drained."""
        self.epoch: int | None = hello.epoch if hello.HasField("epoch") else None
        self.complete: int = hello.cursor if hello.HasField("epoch") and hello.HasField("cursor") else NONE
        self.acked: int = self.complete
        """What the client has applied: its Hello's cursor, and since then what it acknowledged."""
        self.blocked = False
        """The connection takes no more bytes for now."""

        self.question = Question(now_s)
        pending = _operations(hello)
        self.claim = Claim(hello.digest, pending) if any(pending) else Claim(hello.digest)
        self.channels = _channels(hello)
        self.pages = Pages()
        self._quota: Quota | None = None
        self.may_publish = may_publish
        self._publishes: Publishes | None = None

    # --- looking in

    @property
    def key(self) -> bytes:
        """Of the client's records in Kafka."""
        return f"{self.domain}/{self.group}/{self.client}".encode()

    @property
    def silent_s(self) -> float:
        """When the session ends, if nothing is heard until then."""
        return self.heard_s + SILENCE_FACTOR * self._keepalive_s + SILENCE_EXTRA_S

    def deadline_s(self) -> float:
        """When something about this session is due."""
        question = self.question
        due_s = min(self.silent_s, question.answer_due_s, question.wait_due_s)
        if self._publishes is not None:
            due_s = min(due_s, self._publishes.due_s)
        return due_s if self.channels is None else min(due_s, self.channels.due_s)

    @property
    def complete_now(self) -> int:
        """What the client may believe: NONE, or an offset of its partition."""
        return max(self.complete, self.view.position) if self.state is State.LIVE else self.complete

    @property
    def channels_complete_now(self) -> int:
        """What the client may believe of channels: NONE, or an offset of their log."""
        channels = self.channels
        if channels is None:
            return NONE
        if not channels.live:
            return channels.complete
        return max(channels.complete, self.view.channels_positions.get(channels.retention, NONE))

    @property
    def welcomed(self) -> bool:
        """The client knows that it is in sync."""
        return self.question.announces if self.state is State.OPENING else self.state is not State.UNSYNCED

    def knows_member(self, paging: int, since: int) -> bool:
        """Whether its connection was sent what makes its client know an object as a member of a query.

        By all that the matcher has sent, the row of pages `paging` and what was live behind it, that is so since the
        offset `since`.
        """
        if paging != self.pages.paging or not paging:
            return False  # pages of the matcher's have not come here, or were dropped
        in_the_row = self.state is State.CATCHING and (self.pages.sent > 0 or self.pages.due > 1)
        # Of what was live behind it, what lies above `complete` may be dropped.
        return self.state is State.LIVE or in_the_row or since <= self.complete

    @property
    def quota(self) -> Quota:
        """What it may ask of the matcher. Made at the first use: most sessions ask for nothing after their Hello."""
        if self._quota is None:
            self._quota = Quota(self.connected_s)
        return self._quota

    @property
    def publishes(self) -> Publishes:
        """What it publishes. Made at the first use: most sessions publish nothing."""
        if self._publishes is None:
            self._publishes = Publishes()
        return self._publishes

    @property
    def publish_due_s(self) -> float:
        """When a publish of the client is not held up any longer; NEVER_S: none is."""
        return NEVER_S if self._publishes is None else self._publishes.due_s

    # --- what changes it

    def move(self, event: Event) -> None:
        """The table's step. Leaving LIVE, the session's `complete` is fixed where its partition stands."""
        before, after = self.state, TABLE[self.state][event]
        self.doubted &= event is not Event.ASK_OPEN
        if before is State.LIVE and after is not State.LIVE:
            self.complete = self.complete_now
            self.view.leave_live(self.number)
        elif after is State.LIVE and before is not State.LIVE:
            self.view.enter_live(self.number, self.peer, names=self.names)
        self.state = after

    def doubt(self) -> None:
        """The matcher may not know where it is."""
        self.doubted = self.state is State.SLOW

    def hear(self, now_s: float, complete: int = NONE) -> None:
        """Something came from the client: among it, that it has applied all up to `complete`."""
        self.heard_s = now_s
        # Before the Opened the epoch is not known that the client's number belongs to.
        if complete > self.acked and self.opened:
            self.acked = complete
            self.view.acks[self.number] = complete

    def other_matcher(self) -> None:
        """Another matcher serves it, which may not have stored what the client had acknowledged: that is said again."""
        if self.opened and self.acked != NONE:
            self.view.acks[self.number] = self.acked
        if self.channels is not None:
            self.channels.other_matcher()

    def hear_channels(self, complete: int) -> None:
        """The client has applied all of its channels up to `complete`."""
        if self.channels is not None and self.opened and self.channels.applied(complete):
            self.view.channels_acks[self.number] = complete

    def has_channels(self, retention: int, register: int = 0) -> Channels:
        """The matcher says that it has some, and in which log they are. `register`: in the answer to this Register."""
        if self.channels is None:
            self.channels = Channels()
        self.channels.answered(retention, register)
        return self.channels

    def say_channels(self, register: int = 0) -> Channels:
        """The client registers for channels, or says where they are. `register`: in the Register of this number."""
        if self.channels is None:
            self.channels = Channels()
        self.channels.said(register)
        return self.channels

    def ask_channels(self, now_s: float) -> Channels | None:
        """All above what the client is complete to is asked for anew; None: it has no channels."""
        channels = self.channels
        if channels is not None:
            channels.told(self.channels_complete_now)
            self.view.channels_live.pop(self.number, None)
            channels.ask(now_s)
        return channels

    def channels_arrived(self, complete: int, paging: int, *, last: bool) -> None:
        """The page of channels that was due, or that there is none."""
        channels = self.channels
        if channels is None:
            return
        channels.arrived(complete, paging, last=last, blocked=self.blocked)
        if channels.live:
            self.view.channels_live[self.number] = self
            if (acked := channels.take_lost_ack()) is not None:
                self.view.channels_acks[self.number] = acked

    def use_names(self) -> None:
        """From here on this session gets names instead of CRC-32s."""
        self.names = True
        if self.state is State.LIVE:
            self.view.enter_live(self.number, self.peer, names=True)

    def is_told_descriptions(self, *, describes: bool) -> None:
        """The matcher says whether it tells this session how the members of its queries are described."""
        self.describes = describes

    def begin_epoch(self, epoch: int) -> None:
        """What the client has applied was of another epoch."""
        self.epoch, self.complete, self.acked = epoch, NONE, NONE

    def in_sync(self, digest: int) -> None:
        """The matcher says so: pages come."""
        if self.state is State.UNSYNCED:
            # All that the client is registered for is to come; asking again for the rest, it must not begin further on.
            self.complete = NONE
        self.move(Event.OPENED_IN_SYNC)
        self.opened = True
        self.claim.opened(digest)
        if self._quota is not None:
            self._quota.forgive()
        self.question.answered()
        self.pages.begin()

    def not_in_sync(self) -> None:
        """The matcher says so: the client is asked for its whole set."""
        self.move(Event.OPENED_NOT_IN_SYNC)
        self.opened = True
        self.claim.not_in_sync()
        self.question.answered()
        self.pages.drop()

    def page_arrived(self, completes: Iterable[int], paging: int, *, last: bool) -> None:
        """The page that was due, with which the client is complete up to the highest of these."""
        self.complete = max(self.complete, *completes)
        self.question.answered()
        self.pages.arrived(paging, last=last)
        if last:
            self.move(Event.BLOCKED if self.blocked else Event.LAST_PAGE)

    def keep_complete(self) -> None:
        """The partition's position will not hold any more; what the client may believe does."""
        self.complete = self.complete_now
        if self.channels is not None:
            self.channels.told(self.channels_complete_now)

    def block(self) -> bool:
        """The connection is full. Whether the session is slow only now."""
        self.blocked = True
        if self.channels is not None and self.channels.live:
            self.channels.told(self.channels_complete_now)
            self.view.channels_live.pop(self.number, None)
            self.channels.block()
        if self.state is not State.LIVE:
            return False
        self.move(Event.BLOCKED)
        return True

    def drain(self) -> bool:
        """The connection is not full any more. Whether the session is slow, and to be caught up."""
        self.blocked = False
        return self.state is State.SLOW


def _operations(hello: Hello) -> Pending:
    return Pending(
        tuple(hello.register),
        tuple(hello.unregister),
        tuple(hello.queries),
        tuple(hello.unregister_queries),
        tuple(hello.channels),
        tuple(hello.unregister_channels),
    )


def _channels(hello: Hello) -> Channels | None:
    known = hello.HasField("channels_epoch")
    if not known and not hello.channels:
        return None
    channels = Channels(epoch=hello.channels_epoch if known else None)
    if known and hello.HasField("channels_cursor"):
        channels.begin_at(hello.channels_cursor)
    if hello.channels:
        channels.said()
    return channels
