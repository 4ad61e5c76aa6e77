"""Handles what the device receives about channels. See docs/protocol.md, "Channels"."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2 as wire

from coldnotify_testkit.raw_device.application import ChannelGap, DeviceApplication
from coldnotify_testkit.raw_device.hashes import channel_hash
from coldnotify_testkit.raw_device.operations import UNREGISTER, Operations, RawStage
from coldnotify_testkit.raw_device.state import BEGINNING, ChannelState, RawInterest, RawState, channel

_SINCE = {
    "now": wire.SINCE_NOW, "oldest": wire.SINCE_OLDEST, "newest": wire.SINCE_NEWEST, "time": wire.SINCE_TIME,
}  # fmt: skip
_ASKED = (RawStage.UNSENT, RawStage.SENT)


class NotFollowing(Exception):
    """Ends the session, because what the service sends does not follow what is known. The next Hello reports the
    positions.
    """


class RawChannels:
    """Positions, and the cursor of all of them."""

    def __init__(self, state: RawState, operations: Operations, application: DeviceApplication) -> None:
        self._state = state
        self._operations = operations
        self._application = application
        self._by_hash = {channel_hash(text): text for text in state.channels}
        self.live = False
        """All that lacked has come in this session."""
        self._caught_up: set[str] = set()
        """Pending channels whose messages have all come, and that wait for the cursor to reach their positions."""
        self._begins_anew: set[str] = set()
        """Channels whose position may not belong to this log. A Missed that reports so makes the
        position void, once.
        """

    def begin_session(self) -> None:
        """Nothing is known of what comes."""
        self.live = False
        self._caught_up.clear()
        self._begins_anew.clear()

    # What the application wants

    def want(self, name: str, attributes: Iterable[str], since: str, at: int) -> None:
        """A channel is wanted from here on. With other attributes than before it stays where it is."""
        text = "\0".join([name, *sorted(set(attributes))])
        if text in self._state.channels:
            return
        one = ChannelState(since=since, at=at)
        for other in [other for other in self._state.channels if other.partition("\0")[0] == name]:
            old = self._state.channels[other]
            if not old.since:
                one = ChannelState(position=self._known(other), told=old.told, lost=old.lost)
            self.want_no_more(other)
        self._state.channels[text] = one
        self._by_hash[channel_hash(text)] = text
        self._operations.ask(channel(text))

    def want_no_more(self, text: str) -> None:
        """Unregisters a channel."""
        del self._state.channels[text], self._by_hash[channel_hash(text)]
        self._caught_up.discard(text)
        self._operations.ask(channel(text), UNREGISTER)
        if not self._state.channels:
            self._state.channels_cursor = None

    def of(self, name: str) -> str | None:
        """The text of the channel of this name."""
        return next((text for text in self._state.channels if text.partition("\0")[0] == name), None)

    @property
    def waiting(self) -> set[RawInterest]:
        """Those that are pending only because their log has nothing yet, or nothing as far as they are."""
        return {channel(text) for text in self._caught_up}

    # What the device says

    def said(self, text: str) -> wire.Interest:
        """The channel, as it is registered."""
        one = self._state.channels[text]
        name, *attributes = text.split("\0")
        said = wire.Interest(kind=wire.INTEREST_CHANNEL, text=name, attributes=attributes)
        position = self._known(text)
        if one.since:
            said.since, said.at = _SINCE[one.since], one.at
        elif position == BEGINNING:
            said.since = wire.SINCE_BEGINNING
        else:
            self._begins_anew.add(text)
            said.since, said.at = wire.SINCE_POSITION, position
        return said

    def leave_all(self) -> None:
        """Makes all channels pending, because the whole set is sent again."""
        for text in self._state.channels:
            self._leave(text)

    # What the service says

    def epoch(self, epoch: int) -> None:
        """Notes the epoch of the log. What is known of another log is void."""
        state = self._state
        had_cursor, before = state.channels_cursor is not None, state.channels_epoch
        state.channels_epoch, state.channels_cursor = epoch, None
        if not had_cursor and before in (None, epoch):
            return
        for text, one in state.channels.items():
            if not one.since:
                one.position, one.told, one.lost = BEGINNING, None, True
                if self._operations.stage(channel(text)) is None:
                    self._operations.ask(channel(text), stage=RawStage.CONFIRMED)
        if not had_cursor:
            raise NotFollowing("positions that this session has said are of another log")

    def positions(self, positions: Iterable[wire.Position], asked: Iterable[RawInterest]) -> None:
        """Notes where the channels of this answer begin."""
        for said in positions:
            text = self._by_hash.get(said.interest)
            if text is not None and channel(text) in asked and self._state.channels[text].since:
                one = self._state.channels[text]
                one.since, one.at = "", 0
                one.position = said.position if said.HasField("position") else BEGINNING

    def message(self, said: wire.Message) -> None:
        """A Message."""
        text = self._by_hash.get(said.channel)
        if text is not None and self._listens(text):
            known = self._known(text)
            if said.offset > known:
                self._check(text, known, said.offset - said.back)
                self._tell_loss(text, said.offset)
                self._application.message(text.partition("\0")[0], said.offset, said.id, said.payload)
                self._told(text, said.offset)
        if not said.paged:
            self.complete(said.offset)

    def missed(self, said: wire.Missed) -> None:
        """A Missed."""
        text = self._by_hash.get(said.channel)
        if text is not None and self._listens(text):
            one, known = self._state.channels[text], self._known(text)
            is_void = said.reason == wire.LOST and not said.HasField("after")
            if is_void and not one.lost and text in self._begins_anew and said.before - 1 < known:
                # It was no position of this log: what was known counts no more.
                self._leave(text)
                one.position, one.told, one.lost = BEGINNING, None, True
                known = BEGINNING
            self._begins_anew.discard(text)
            if is_void and one.lost:
                self._tell_loss(text, said.before)
            elif said.before - 1 > known:
                if said.HasField("after"):
                    self._check(text, known, said.after)
                if not is_void:
                    self._tell_loss(text, known + 1)
                after = said.after if said.HasField("after") else None
                gap = ChannelGap(after, said.before, wire.Reason.Name(said.reason).removeprefix("REASON_").lower())
                self._application.missed(text.partition("\0")[0], gap)
                self._told(text, said.before - 1)
        if not said.paged:
            self.complete(said.before - 1)

    def complete(self, complete: int) -> None:
        """All up to there has come, of all channels that are not pending."""
        state = self._state
        if complete >= 0 and (state.channels_cursor is None or complete > state.channels_cursor):
            state.channels_cursor = complete
        self._settle()

    def caught_up(self, complete: int | None) -> None:
        """All that lacked has come, of all channels that are confirmed."""
        self.live = True
        for text, one in self._state.channels.items():
            if self._operations.stage(channel(text)) is RawStage.CONFIRMED and not one.since:
                self._caught_up.add(text)
                self._operations.take(channel(text))
                known = self._known(text) if complete is None else max(complete, self._known(text))
                self._tell_loss(text, known + 1)
        if complete is not None:
            self.complete(complete)
        self._settle()

    # One channel

    def _listens(self, text: str) -> bool:
        """Returns true if the channel's position is known, and the service has been told of it."""
        return not self._state.channels[text].since and self._operations.stage(channel(text)) not in _ASKED

    def _known(self, text: str) -> int:
        """Returns the offset up to which everything is known."""
        one = self._state.channels[text]
        known = [BEGINNING if one.told is None else one.told]
        if one.position is not None:
            known.append(one.position)
        elif self._state.channels_cursor is not None:
            known.append(self._state.channels_cursor)
        return max(known)

    def _leave(self, text: str) -> None:
        """Makes the channel pending from here on: the cursor no longer covers it, its position does."""
        one = self._state.channels[text]
        self._caught_up.discard(text)
        if not one.since and one.position is None:
            one.position = self._known(text)

    def _check(self, text: str, known: int, after: int) -> None:
        """Checks that nothing lies between what is known and what comes. Raises NotFollowing otherwise."""
        if after > known:
            self._leave(text)
            self._operations.ask(channel(text))
            raise NotFollowing(f"{text!r}: what comes follows {after}, and only all up to {known} is known")

    def _tell_loss(self, text: str, before: int) -> None:
        """Reports to the application that the log is another one, if that is still due."""
        one = self._state.channels[text]
        if one.lost:
            one.lost = False
            self._application.missed(text.partition("\0")[0], ChannelGap(None, before, "lost"))
            if before - 1 > BEGINNING:
                self._told(text, before - 1)

    def _told(self, text: str, offset: int) -> None:
        one = self._state.channels[text]
        one.told = offset
        if one.position is not None:
            one.position = max(one.position, offset)

    def _settle(self) -> None:
        """Those that are as far as the cursor are not pending any more."""
        cursor = self._state.channels_cursor
        for text in sorted(self._caught_up) if cursor is not None else ():
            one = self._state.channels[text]
            if one.position is None or cursor is None or one.position <= cursor:
                one.position = None
                self._caught_up.discard(text)
                self._operations.settle(channel(text))
