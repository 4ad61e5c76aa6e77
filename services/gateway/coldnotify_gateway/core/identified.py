"""A session: a connection whose client said Hello. What the gateway knows of it, and how that changes.

Its phase follows the table in `states.py`. The logs that it follows, what it waits for, what its client claims, what
its link carries, what it publishes and its quota are parts of their own: `stream.py`, `channels_stream.py`,
`question.py`, `claim.py`, `link_rate.py`, `waiting_publishes.py`, `quota.py`. Only their own methods change them.
"""

from __future__ import annotations

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

from coldnotify_gateway.core import interests
from coldnotify_gateway.core.channels_stream import ChannelsStream
from coldnotify_gateway.core.claim import Claim, PendingOperations
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.link_rate import SessionLink
from coldnotify_gateway.core.partition_view import PartitionView
from coldnotify_gateway.core.question import Question
from coldnotify_gateway.core.quota import Quota
from coldnotify_gateway.core.states import BEFORE_SYNC, IN_SYNC, TABLE, PhaseEvent, SessionPhase, SessionState
from coldnotify_gateway.core.stream import NONE, Stream
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.told import Dialect
from coldnotify_gateway.core.unidentified import Unidentified
from coldnotify_gateway.core.waiting_publishes import SessionPublishes


class Identified:
    """One session. Registrations are not here: they are the matcher's."""

    __slots__ = (
        "_keepalive_s",
        "_publishes",
        "_quota",
        "address",
        "all_unsettled",
        "blocked",
        "channels",
        "channels_in_order",
        "claim",
        "client",
        "connected_s",
        "describes",
        "descriptions",
        "dialect",
        "domain",
        "doubted",
        "frames",
        "group",
        "heard_s",
        "link",
        "may_publish",
        "number",
        "objects",
        "opened",
        "peer",
        "phase",
        "queries",
        "question",
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
        self.dialect = Dialect.NAMES if hello.capabilities & CAPABILITY_NAMES else Dialect.CRC
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

        self.phase = SessionPhase.OPENING
        self.opened = False
        """An Opened has come: the epoch is known, acks count."""
        self.doubted = False
        """The matcher may not know where it is: it is slow, and is to be announced once it is drained."""
        self.blocked = False
        """The connection takes no more bytes for now."""

        self.question = Question(now_s)
        pending = _operations(hello)
        self.claim = Claim(hello.digest, pending) if any(pending) else Claim(hello.digest)
        self.objects = _objects(hello)
        self.channels = _channels(hello)
        self.link = SessionLink(limits.high_water_bytes)
        self._quota: Quota | None = None
        self.may_publish = may_publish
        self._publishes: SessionPublishes | None = None

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
    def state(self) -> SessionState:
        """The session as operators see it."""
        return IN_SYNC[self.objects.stage] if self.phase is SessionPhase.IN_SYNC else BEFORE_SYNC[self.phase]

    @property
    def streams(self) -> tuple[Stream, ...]:
        """The streams that it follows, by their places."""
        return (self.objects,) if self.channels is None else (self.objects, self.channels)

    @property
    def live(self) -> bool:
        """True if its objects are live."""
        return self.objects.live

    @property
    def catching(self) -> bool:
        """True if pages of objects are to come, or are on their way."""
        return self.state is SessionState.CATCHING

    @property
    def slow(self) -> bool:
        """True if its objects are caught up only once the connection is drained."""
        return self.objects.slow

    def complete_in(self, stream: Stream) -> int:
        """The offset up to which the client may believe that it has everything of a stream; NONE: nothing."""
        return max(stream.complete, self.view.position_in(stream)) if stream.live else stream.complete

    @property
    def welcomed(self) -> bool:
        """The client knows that it is in sync."""
        return (
            self.question.announces if self.phase is SessionPhase.OPENING else self.phase is not SessionPhase.UNSYNCED
        )

    def knows_member(self, paging: int, since: int) -> bool:
        """Returns true if its connection was sent what makes its client know an object as a member of a query.

        By all that the matcher has sent, the row of pages `paging` and what was live behind it, that is so since the
        offset `since`.
        """
        objects = self.objects
        if paging != objects.paging or not paging:
            return False  # pages of the matcher's have not come here, or were dropped
        # Of what was live behind it, what lies above `complete` may be dropped.
        return objects.live or (self.catching and objects.in_a_row) or since <= objects.complete

    @property
    def quota(self) -> Quota:
        """What it may ask of the matcher. Made at the first use: most sessions ask for nothing after their Hello."""
        if self._quota is None:
            self._quota = Quota(self.connected_s)
        return self._quota

    @property
    def publishes(self) -> SessionPublishes:
        """What it publishes. Made at the first use: most sessions publish nothing."""
        if self._publishes is None:
            self._publishes = SessionPublishes()
        return self._publishes

    @property
    def publish_due_s(self) -> float:
        """When a publish of the client is not held up any longer; NEVER_S: none is."""
        return NEVER_S if self._publishes is None else self._publishes.due_s

    # --- what changes it

    def move(self, event: PhaseEvent) -> None:
        """The table's step."""
        self.doubted &= event is not PhaseEvent.ASK_OPEN
        self.phase = TABLE[self.phase][event]

    def doubt(self) -> None:
        """The matcher may not know where it is."""
        self.doubted = self.slow

    def hear(self, now_s: float) -> None:
        """Something came from the client."""
        self.heard_s = now_s

    def applied(self, stream: Stream | None, complete: int) -> None:
        """The client has applied all of a stream up to `complete`."""
        # Before the Opened the epoch is not known that the client's number belongs to.
        if stream is not None and self.opened and stream.applied(complete):
            self.view.acks[stream.place][self.number] = complete

    def other_matcher(self) -> None:
        """Another matcher serves it, which may not have stored what the client had acknowledged: that is said again."""
        if self.opened and self.objects.acked != NONE:
            self.view.acks[self.objects.place][self.number] = self.objects.acked
        if self.channels is not None:
            self.channels.other_matcher()

    def has_channels(self, retention: int, register: int = 0) -> ChannelsStream:
        """The matcher says that it has some, and in which log they are. `register`: in the answer to this Register."""
        channels = self._channels()
        channels.answered(retention, register)
        return channels

    def say_channels(self, register: int = 0) -> None:
        """The client registers for channels, or says where they are. `register`: in the Register of this number."""
        self._channels().said(register)

    def ask_channels(self, now_s: float) -> ChannelsStream | None:
        """All above what the client is complete to is asked for anew; None: it has no channels."""
        channels = self.channels
        if channels is not None:
            self._leave_live(channels)
            channels.ask(now_s)
        return channels

    def ask_objects(self, *, after_opened: bool) -> None:
        """The same of objects, by the question's number."""
        self._leave_live(self.objects)
        self.objects.begin(self.question.number, after_opened=after_opened)

    def arrived(self, stream: Stream, complete: int, paging: int, *, last: bool) -> None:
        """The page that was due in a stream, or the matcher's word that there is none."""
        stream.arrived(complete, paging, last=last, blocked=self.blocked)
        if not stream.live:
            return
        self.view.enter_live(self, stream)
        if isinstance(stream, ChannelsStream) and (acked := stream.take_lost_ack()) is not None:
            self.view.acks[stream.place][self.number] = acked

    def use_names(self) -> None:
        """From here on this session gets names instead of CRC-32s."""
        self.dialect = Dialect.NAMES
        if self.live:
            self.view.enter_live(self, self.objects)

    def is_told_descriptions(self, *, describes: bool) -> None:
        """The matcher says whether it tells this session how the members of its queries are described."""
        self.describes = describes

    def in_sync(self, digest: int) -> None:
        """The matcher says so: pages come."""
        if self.phase is SessionPhase.UNSYNCED:
            # All that the client is registered for is to come; asking again for the rest, it must not begin further on.
            self.objects.forget()
        self.move(PhaseEvent.OPENED_IN_SYNC)
        self.opened = True
        self.claim.opened(digest)
        if self._quota is not None:
            self._quota.forgive()
        self.question.answered()
        self.objects.open()

    def not_in_sync(self) -> None:
        """The matcher says so: the client is asked for its whole set."""
        self.ask_objects(after_opened=True)
        self.move(PhaseEvent.OPENED_NOT_IN_SYNC)
        self.opened = True
        self.claim.not_in_sync()
        self.question.answered()

    def keep_complete(self) -> None:
        """The partition's position will not hold any more; what the client may believe does."""
        for stream in self.streams:
            stream.told(self.complete_in(stream))

    def block(self) -> bool:
        """The connection is full. Returns true if the session is slow only now."""
        self.blocked = True
        slow = self.live
        for stream in self.streams:
            if stream.live:
                self._leave_live(stream)
                stream.block()
        return slow

    def drain(self) -> None:
        """The connection is not full any more."""
        self.blocked = False

    def _leave_live(self, stream: Stream) -> None:
        """What the client may believe of the stream is fixed where its log stands."""
        if stream.live:
            stream.told(self.complete_in(stream))
            self.view.leave_live(self.number, stream)

    def _channels(self) -> ChannelsStream:
        if self.channels is None:
            self.channels = ChannelsStream()
        return self.channels


def _operations(hello: Hello) -> PendingOperations:
    return PendingOperations(
        tuple(hello.register),
        tuple(hello.unregister),
        tuple(hello.interests),
        tuple(hello.unregister_interests),
    )


def _objects(hello: Hello) -> Stream:
    objects = Stream(hello.epoch if hello.HasField("epoch") else None)
    if hello.HasField("epoch") and hello.HasField("cursor"):
        objects.begin_at(hello.cursor)
    return objects


def _channels(hello: Hello) -> ChannelsStream | None:
    said = hello.streams[0] if hello.streams else None
    known = said is not None and said.HasField("epoch")
    registers = interests.has_channels(hello.interests)
    if not known and not registers:
        return None
    channels = ChannelsStream(said.epoch if said is not None and known else None)
    if said is not None and known and said.HasField("complete"):
        channels.begin_at(said.complete)
    if registers:
        channels.said()
    return channels
