"""A session: a connection whose client has sent a Hello. Holds its state and the steps that change it.

Its phase follows the table in `states.py`. Its streams, its question, its claim, its link's rate, its publishes and its
quota have modules of their own: `stream.py`, `channels_stream.py`, `question.py`, `claim.py`, `link_rate.py`,
`waiting_publishes.py`, `quota.py`. Only their own methods change them.
"""

from __future__ import annotations

from sys import intern

from coldnotify_common.security.publish_rights import NO_NAME, PublishRight
from coldnotify_schemas.internal_pb2 import Opened
from coldnotify_schemas.protocol import SILENCE_EXTRA_S, SILENCE_FACTOR
from coldnotify_schemas.wire_pb2 import (
    CAPABILITY_AT_HOME,
    CAPABILITY_DESCRIPTIONS,
    CAPABILITY_IN_ORDER,
    CAPABILITY_MOVES,
    CAPABILITY_NAMES,
    CAPABILITY_QUERIES,
    CAPABILITY_RAW,
    CAPABILITY_UNSETTLED,
    Hello,
)

from coldnotify_gateway.core.channels_stream import ChannelsStream, has_channels
from coldnotify_gateway.core.claim import Claim, PendingOperations
from coldnotify_gateway.core.dialects import CRC, NAMES, RAW_CRC, RAW_NAMES
from coldnotify_gateway.core.freshness import AgesSaid, age_said
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

MQTT_PAGE_BYTES = 4096
"""Size of an MQTT session's pages: one waits here while the client acknowledges."""


class Identified:
    """One session. Its registrations are not here, because the matcher holds them."""

    __slots__ = (
        "_keepalive_s",
        "_publishes",
        "_quota",
        "address",
        "all_unsettled",
        "at_home",
        "blocked",
        "channels",
        "channels_in_order",
        "claim",
        "client",
        "connected_s",
        "describes",
        "descriptions",
        "device",
        "dialect",
        "domain",
        "doubted",
        "frames",
        "group",
        "heard_s",
        "holds",
        "link",
        "moves",
        "number",
        "objects",
        "opened",
        "peer",
        "phase",
        "publish_right",
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
        publish_right: PublishRight = NO_NAME,
    ) -> None:
        self.peer = before.peer
        self.address = before.address
        self.connected_s = before.connected_s
        self.frames = before.frames
        self.device = before.device
        """The MQTT side of the session; None: its client speaks the device protocol."""
        self.number = number
        self.view = view
        # A gateway's many clients share few domains and groups: each name is stored once.
        self.domain: str = intern(hello.domain)
        self.group: str = intern(hello.group)
        self.client: str = hello.client
        self.dialect: Dialect = before.dialect or _dialect_of(hello)
        self.queries = bool(hello.capabilities & CAPABILITY_QUERIES)
        """The client asks if the service supports queries."""
        self.channels_in_order = bool(hello.capabilities & CAPABILITY_IN_ORDER)
        """No channel overtakes another."""
        self.descriptions = bool(hello.capabilities & CAPABILITY_DESCRIPTIONS)
        """The client wants the descriptions of its queries' members."""
        self.all_unsettled = bool(hello.capabilities & CAPABILITY_UNSETTLED)
        """The client's Hello registers for everything that its application has not taken yet."""
        self.at_home = bool(hello.capabilities & CAPABILITY_AT_HOME)
        """This gateway is the client's home."""
        self.moves = bool(hello.capabilities & CAPABILITY_MOVES)
        """The client goes to another gateway when it is told to."""
        self.holds = False
        """The client is a member of shares: it has said a Hold."""
        self.describes = False
        """Its Welcome promised descriptions."""
        self._keepalive_s: int = min(hello.keepalive_s or limits.keepalive_default_s, limits.keepalive_max_s)
        self.heard_s = now_s
        self.wake_s = NEVER_S

        self.phase = SessionPhase.OPENING
        self.opened = False
        """An Opened has arrived: the epoch is known, and acknowledgements count."""
        self.doubted = False
        """The matcher may not know its position. The session is slow, and is announced once it is drained."""
        self.blocked = False
        """The connection accepts no more bytes for now."""

        self.question = Question(now_s)
        pending = _operations(hello)
        self.claim = Claim(hello.digest, pending) if any(pending) else Claim(hello.digest)
        self.objects = _objects(hello)
        self.channels = _channels(hello)
        self.link = SessionLink(limits.high_water_bytes)
        self._quota: Quota | None = None
        self.publish_right = publish_right
        self._publishes: SessionPublishes | None = None

    # --- looking in

    @property
    def key(self) -> bytes:
        """Returns the key of the client's records in Kafka."""
        return f"{self.domain}/{self.group}/{self.client}".encode()

    @property
    def silent_s(self) -> float:
        """Returns the time at which the session ends if its client sends nothing until then."""
        if self.device is not None:
            return self.heard_s + self.device.silence_s
        keepalive_s = self._keepalive_s
        return self.heard_s + SILENCE_FACTOR * keepalive_s + min(SILENCE_EXTRA_S, keepalive_s)

    def deadline_s(self) -> float:
        """Returns the time of the session's next timed work."""
        question = self.question
        due_s = min(self.silent_s, question.answer_due_s, question.wait_due_s)
        if self._publishes is not None:
            due_s = min(due_s, self._publishes.due_s)
        if self.device is not None:
            due_s = min(due_s, self.device.wake_s)
        return due_s if self.channels is None else min(due_s, self.channels.due_s)

    @property
    def state(self) -> SessionState:
        """Returns the session's state as operators see it."""
        return IN_SYNC[self.objects.stage] if self.phase is SessionPhase.IN_SYNC else BEFORE_SYNC[self.phase]

    @property
    def streams(self) -> tuple[Stream, ...]:
        """Returns the streams that the session follows, ordered by place."""
        return (self.objects,) if self.channels is None else (self.objects, self.channels)

    @property
    def live(self) -> bool:
        """Returns true if its objects are live."""
        return self.objects.live

    @property
    def catching(self) -> bool:
        """Returns true if pages of objects are due or in transit."""
        return self.state is SessionState.CATCHING

    @property
    def slow(self) -> bool:
        """Returns true if its objects are caught up only once the connection is drained."""
        return self.objects.slow

    def complete_in(self, stream: Stream) -> int:
        """Returns the offset up to which the client has everything of a stream; NONE: unknown."""
        return max(stream.complete, self.view.position_in(stream)) if stream.live else stream.complete

    def as_of_s(self, stream: Stream) -> float:
        """Returns the time before which everything acknowledged has been told to the client, in a stream."""
        return max(stream.as_of_s, self.view.as_of(stream, self.domain)) if stream.live else stream.as_of_s

    @property
    def oldest_s(self) -> float:
        """The time before which everything acknowledged has been told to the client, in all streams."""
        return min(self.as_of_s(stream) for stream in self.streams)

    def ages(self, now_s: float) -> AgesSaid:
        """Returns the ages of what the client has been told."""
        channels = self.channels
        of_channels = None if channels is None or not channels.live else age_said(self.as_of_s(channels), now_s)
        return AgesSaid(age_said(self.as_of_s(self.objects), now_s), of_channels)

    @property
    def page_bytes(self) -> int:
        """Returns the size of its next page."""
        return self.link.page_bytes if self.device is None else MQTT_PAGE_BYTES

    @property
    def welcomed(self) -> bool:
        """Returns true if the client knows that it is in sync."""
        return (
            self.question.announces if self.phase is SessionPhase.OPENING else self.phase is not SessionPhase.UNSYNCED
        )

    def knows_member(self, paging: int, since: int) -> bool:
        """Returns true if the frames sent to its connection made an object known to its client as a member of a query.

        The matcher's row of pages `paging`, and the live records after it, contain that since the offset `since`.
        """
        objects = self.objects
        if paging != objects.paging or not paging:
            return False  # the matcher's pages have not arrived here, or were dropped
        # Live records after the row, above `complete`, may have been dropped.
        return objects.live or (self.catching and objects.in_a_row) or since <= objects.complete

    @property
    def quota(self) -> Quota:
        """Returns its quota of requests. Made at the first use, because most sessions request nothing after their
        Hello."""
        if self._quota is None:
            self._quota = Quota(self.connected_s)
        return self._quota

    @property
    def publishes(self) -> SessionPublishes:
        """Returns its publishes. Made at the first use, because most sessions publish nothing."""
        if self._publishes is None:
            self._publishes = SessionPublishes()
        return self._publishes

    @property
    def publish_due_s(self) -> float:
        """Returns the time until which a publish waits for the matcher's answer; NEVER_S: none waits."""
        return NEVER_S if self._publishes is None else self._publishes.due_s

    # --- what changes it

    def move(self, event: PhaseEvent) -> None:
        """Moves the phase by the table."""
        self.doubted &= event is not PhaseEvent.ASK_OPEN
        self.phase = TABLE[self.phase][event]

    def doubt(self) -> None:
        """Marks a slow session as doubted, because the matcher may not know its position."""
        self.doubted = self.slow

    def hear(self, now_s: float) -> None:
        """Notes that the client has sent something."""
        self.heard_s = now_s

    def hold(self) -> None:
        """Notes that the client says Holds."""
        self.holds = True

    def applied(self, stream: Stream | None, complete: int) -> None:
        """Notes that the client has applied everything in a stream up to `complete`."""
        # Before the Opened, the epoch of the client's offset is unknown.
        if stream is not None and self.opened and stream.applied(complete):
            self.view.acks[stream.place][self.number] = complete

    def other_matcher(self) -> None:
        """Repeats the client's acknowledgements to a new matcher, because the old one may not have stored them."""
        if self.opened and self.objects.acked != NONE:
            self.view.acks[self.objects.place][self.number] = self.objects.acked
        if self.channels is not None:
            self.channels.other_matcher()

    def follow_channels(self, log: int, register: int = 0) -> ChannelsStream:
        """Notes that the session has channels, and their log. `register`: the Register that the matcher has
        answered."""
        channels = self._channels()
        channels.answered(log, register)
        return channels

    def say_channels(self, register: int = 0) -> None:
        """Notes channels, or positions of channels, that the client has sent. `register`: the number of its
        Register."""
        self._channels().said(register)

    def ask_channels(self, now_s: float) -> ChannelsStream | None:
        """Begins a row of pages above the client's position. Returns None if the session has no channels."""
        channels = self.channels
        if channels is not None:
            self._leave_live(channels)
            channels.ask(now_s)
        return channels

    def ask_objects(self, now_s: float, *, after_opened: bool) -> None:
        """Begins a row of pages of objects, by the question's number."""
        self._leave_live(self.objects)
        self.objects.begin(self.question.number, now_s, after_opened=after_opened)

    def arrived(self, stream: Stream, complete: int, paging: int, *, last: bool) -> None:
        """Handles the page that was due in a stream, or the matcher's report that none follows."""
        stream.arrived(complete, paging, last=last, blocked=self.blocked)
        if not stream.live:
            return
        self.view.enter_live(self, stream)
        if isinstance(stream, ChannelsStream) and (acked := stream.take_lost_ack()) is not None:
            self.view.acks[stream.place][self.number] = acked

    def use_names(self) -> None:
        """Switches the session to names instead of CRC-32s."""
        if self.dialect.by_name:
            return
        self.dialect = RAW_NAMES if self.dialect.raw else NAMES
        if self.live:
            self.view.enter_live(self, self.objects)

    def is_told_descriptions(self, *, describes: bool) -> None:
        """Notes if the matcher sends this session the descriptions of its queries' members."""
        self.describes = describes

    def in_sync(self, digest: int) -> None:
        """Handles an Opened in sync. Pages follow it."""
        if self.phase is SessionPhase.UNSYNCED:
            # Pages will contain all that the client is registered for, and a repeated question must not skip any of it.
            self.objects.forget()
        self.move(PhaseEvent.OPENED_IN_SYNC)
        self.opened = True
        self.claim.opened(digest)
        if self._quota is not None:
            self._quota.forgive()
        self.question.answered()
        self.objects.open()

    def reach(self) -> None:
        """Notes that an MQTT device that owes no acknowledgement has applied everything of its live streams."""
        if self.device is None or not self.device.deliveries.nothing_owed:
            return
        for stream in self.streams:
            if stream.live:
                self.applied(stream, self.complete_in(stream))

    def begin_kept(self, opened: Opened) -> None:
        """Begins at the cursors that the service has kept for its client."""
        if opened.kept.HasField("complete"):
            self.objects.begin_at(opened.kept.complete)
        for stream in opened.streams[:1]:
            channels = self.follow_channels(stream.log)
            if stream.HasField("epoch"):
                channels.begin_epoch(stream.epoch)
            if stream.HasField("complete"):
                channels.begin_at(stream.complete)

    def not_in_sync(self, now_s: float) -> None:
        """Handles an Opened not in sync. The client must send its whole set."""
        self.ask_objects(now_s, after_opened=True)
        self.move(PhaseEvent.OPENED_NOT_IN_SYNC)
        self.opened = True
        self.claim.not_in_sync()
        self.question.answered()

    def keep_complete(self) -> None:
        """Stores the client's completeness in its streams, because the partition's position is about to be
        discarded."""
        for stream in self.streams:
            stream.told(self.complete_in(stream))
            stream.fresh(self.as_of_s(stream))

    def block(self) -> bool:
        """Notes that the connection is full. Returns true if that makes the session slow."""
        self.blocked = True
        slow = self.live
        for stream in self.streams:
            if stream.live:
                self._leave_live(stream)
                stream.block()
        return slow

    def drain(self) -> None:
        """Notes that the connection is no longer full."""
        self.blocked = False

    def _leave_live(self, stream: Stream) -> None:
        """Fixes the client's completeness at the log's present position, because the stream stops being live."""
        if stream.live:
            stream.told(self.complete_in(stream))
            stream.fresh(self.as_of_s(stream))
            self.view.leave_live(self.number, stream)

    def _channels(self) -> ChannelsStream:
        if self.channels is None:
            self.channels = ChannelsStream()
        return self.channels


def _dialect_of(hello: Hello) -> Dialect:
    by_name, raw = bool(hello.capabilities & CAPABILITY_NAMES), bool(hello.capabilities & CAPABILITY_RAW)
    return (RAW_NAMES if raw else NAMES) if by_name else (RAW_CRC if raw else CRC)


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
    registers = has_channels(hello.interests)
    if not known and not registers:
        return None
    channels = ChannelsStream(said.epoch if said is not None and known else None)
    if said is not None and known and said.HasField("complete"):
        channels.begin_at(said.complete)
    if registers:
        channels.said()
    return channels
