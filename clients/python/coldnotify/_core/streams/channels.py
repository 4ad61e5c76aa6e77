"""The channels that a client wants: the service's messages, their callbacks, and the cursor.

Theory of operation =================== For channels the document states two things that are true together:

    Of every wanted channel without a pending registration, everything up to the cursor of channels has been told,
    or missed and reported as missed. Of one with a pending registration, everything up to its position has.

- A channel that was just registered is pending until the service has sent where it begins, and everything after that
  (`last`), and as much has been told as the cursor says.
- A channel that cannot be told for now becomes pending at its position, so that the cursor passes: nobody has
  subscribed, its callbacks failed too often (it is *parked*), or too much waits for them.
- A channel's messages wait in its `Feed`, in order. The size of all feeds together is limited in bytes. Above the limit
  the longest is cut and becomes *deaf*: its messages are dropped until what it has kept is told. Then it is requested
  again.
- A message must follow what is known: `back` tells from where on nothing lies between. If something does, a frame was
  lost: the session ends, and the next Hello carries all positions.

A message counts as told once its callbacks have returned; that becomes durable with the next write of the document, and
the service learns the cursor after that. So after a crash a message may be told again, if its callbacks had returned
and the document was not written yet. The same holds for objects.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping

from coldnotify_schemas import wire_pb2 as wire

from coldnotify._core import settings as numbers
from coldnotify._core.interests.interests import ChannelInterest, Interest, channels_of
from coldnotify._core.interests.registrations import OperationStage, Registrations
from coldnotify._core.interests.since import OLDEST, Since
from coldnotify._core.journal import Journal
from coldnotify._core.settings import ClientSettings
from coldnotify._core.streams.channel_cursor import ChannelCursor
from coldnotify._core.streams.feed import BEGINNING, ChannelJob, Feed, Item, KeptChannel
from coldnotify.errors import ChannelCallbackFailed, ChannelParked, ColdNotifyError, MessagesMissed
from coldnotify.message import Missed

_ASKED = (OperationStage.UNSENT, OperationStage.WITHHELD, OperationStage.SENT)


class Channels:
    """All channels that are wanted, by name, and the cursor."""

    def __init__(
        self,
        journal: Journal,
        registrations: Registrations,
        settings: ClientSettings,
        report: Callable[[ColdNotifyError], None],
        kept: Mapping[ChannelInterest, KeptChannel],
        epoch: int | None = None,
        cursor: int | None = None,
    ) -> None:
        self._journal = journal
        self._registrations = registrations
        self._settings = settings
        self._report = report
        self._cursor = ChannelCursor(epoch, cursor)
        self._feeds: dict[str, Feed] = {}
        self._by_hash: dict[int, Feed] = {}
        self._subscribers: dict[str, set[int]] = {}
        self._missed_subscribers: dict[str, set[int]] = {}
        self._ready: OrderedDict[str, Feed] = OrderedDict()
        self._resting: dict[str, Feed] = {}
        """They wait for their `retry_at`."""
        self._ahead: dict[str, Feed] = {}
        """Channels whose positions are above the cursor, or without one: they are pending until it has come there."""
        self._jobs: set[ChannelJob] = set()
        self._size_bytes = 0
        self.told_unknown = False
        """The application has heard that the service knows no channels."""
        self.progress = 0
        """How often something of a pending channel was told, or was found to be nothing."""
        for channel in sorted(registrations.channels):
            feed = Feed(channel, kept.get(channel))
            if feed.since is None and self._is_owed(feed):
                self._leave(feed)
            self._add(feed)

    def _add(self, feed: Feed) -> None:
        self._feeds[feed.channel.name] = feed
        self._by_hash[feed.channel.hash] = feed

    # What the application asks for

    def want(self, channel: ChannelInterest, since: Since) -> None:
        """It is wanted from now on. One that is wanted stays where it is; with other attributes, too."""
        if self._registrations.wants(channel):
            return
        old = self._feeds.get(channel.name)
        kept = KeptChannel(since=since)
        if old is not None:
            position = old.applied(self._cursor.cursor) if old.since is None else None
            kept = KeptChannel(since=old.since, position=position, told=old.told, lost=old.lost)
            self._registrations.unregister(old.channel)
            self.forget(old.channel)
        self._registrations.register(channel)
        self._add(Feed(channel, kept))

    def of(self, name: str) -> ChannelInterest | None:
        """The channel of this name that is wanted."""
        feed = self._feeds.get(name)
        return None if feed is None else feed.channel

    def forget(self, channel: ChannelInterest) -> None:
        """It is not wanted any more: nothing of it waits. Its subscribers stay."""
        feed = self._by_hash.pop(channel.hash, None)
        if feed is not None:
            del self._feeds[channel.name]
            self._drop(feed)
            self._move()

    def subscribe(self, name: str, subscriber: int) -> None:
        """Adds a callback for messages. What waited for one is told; what was dropped is requested again."""
        self._subscribers.setdefault(name, set()).add(subscriber)
        feed = self._feeds.get(name)
        if feed is not None:
            if feed.parked:
                feed.retry_at = None
                self._resting.pop(name, None)
            self._offer(feed)
            self._settle(feed)
            self._refill(feed)

    def unsubscribe(self, name: str, subscriber: int) -> None:
        """One callback less. A job that has begun with it is not called back."""
        subscribers = self._subscribers.get(name, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._subscribers.pop(name, None)
        feed = self._feeds.get(name)
        if feed is not None and not subscribers and feed.items:
            self._owe(feed)
            self._ready.pop(name, None)

    def subscribe_missed(self, name: str, subscriber: int) -> None:
        """Adds a callback for missed messages."""
        self._missed_subscribers.setdefault(name, set()).add(subscriber)

    def unsubscribe_missed(self, name: str, subscriber: int) -> None:
        """One callback less."""
        subscribers = self._missed_subscribers.get(name, set())
        subscribers.discard(subscriber)
        if not subscribers:
            self._missed_subscribers.pop(name, None)

    # What a session says

    def begin_session(self) -> None:
        """Begins a new session: pending channels are requested again."""
        if not self._registrations.has_channels:
            self._cursor.void(None)
        for feed in self._feeds.values():
            if self._is_owed(feed):
                self._fold(feed)
            else:
                feed.live = True

    def begin_sync(self) -> None:
        """Begins a reg-sync: the service gets all registrations again, with each channel's position. Before, they
        become pending.
        """
        for feed in self._feeds.values():
            if feed.since is None:
                self._leave(feed)
                self._fold(feed)

    def said(self, interests: Iterable[Interest]) -> list[wire.Interest]:
        """Returns the channels among `interests`, for a frame that has them all."""
        feeds = (self._by_hash.get(channel.hash) for channel in channels_of(interests))
        return [self._said(feed) for feed in feeds if feed is not None]

    def _said(self, feed: Feed) -> wire.Interest:
        if feed.since is not None and self._is_foreign(feed.since):
            self._lose(feed)
        feed.asked_from = feed.received
        return feed.registered

    def begin_epoch(self, epoch: int, *, void: bool) -> bool:
        """Notes the log's epoch. `void`: a cursor that the Hello carried does not count, and the service sends each
        channel from the beginning. Returns true if this session can continue, because the positions that it was told
        are of this log.
        """
        if not void and self._cursor.epoch in (None, epoch):
            self._cursor.epoch = epoch
            return True
        self._cursor.void(epoch)
        self._journal.changed(urgent=True)
        for feed in self._feeds.values():
            if feed.since is None:
                self._begin_anew(feed)
                self._registrations.expect(feed.channel)
        return void

    def _begin_anew(self, feed: Feed) -> None:
        """Restarts a channel whose state is of another log: it is told from the beginning, after a
        report of the loss.
        """
        self._drop(feed)
        feed.told, feed.lost = None, True
        feed.position = feed.received = feed.asked_from = BEGINNING
        feed.live = feed.deaf = feed.parked = False
        self._journal.changed(urgent=True)

    def resolved(self, positions: Iterable[wire.Position], operations: Mapping[Interest, object]) -> None:
        """Notes where the channels of these operations begin, as the service sent it."""
        for said in positions:
            feed = self._by_hash.get(said.interest)
            if feed is not None and feed.since is not None and self._is_answered(feed, operations):
                self._resolve(feed, said.position if said.HasField("position") else BEGINNING)

    def confirmed(self, interests: Iterable[Interest]) -> None:
        """The service has these registrations: it sends what follows their positions."""
        for channel in channels_of(interests):
            feed = self._by_hash[channel.hash]
            # What was parked or cut since the service was asked is not among what it tells now.
            feed.deaf = feed.received < feed.asked_from
            feed.failures = 0
            if feed.deaf and not feed.parked:
                self._refill(feed)
            if feed.since is not None and feed.since.is_position:
                self._resolve(feed, feed.since.at)

    def message(self, said: wire.Message) -> str:
        """Handles a message. Returns what is wrong if earlier ones are missing; "" if nothing is."""
        feed = self._by_hash.get(said.channel)
        if feed is not None and self._listens(feed, said.paged):
            known = self._known(feed)
            if said.offset > known:
                if said.offset - said.back > known:
                    return self._gap(feed, known, said.offset)
                self._loss_first(feed, said.offset)
                self._put(feed, Item(said, self._known(feed)))
        if not said.paged:
            self.complete(said.offset)
        return ""

    def missed(self, said: wire.Missed) -> str:
        """Messages may be missing. As `message`."""
        feed = self._by_hash.get(said.channel)
        if feed is not None and self._listens(feed, said.paged):
            if said.reason == wire.LOST and not said.HasField("after") and said.before <= feed.asked_from:
                # The position that this session has said is above the log's end, so it is none of this log.
                self._begin_anew(feed)
            known = self._known(feed)
            if said.before - 1 > known or (said.reason == wire.LOST and not feed.tells_loss):
                if said.HasField("after") and said.after > known:
                    return self._gap(feed, known, said.before)
                if said.reason != wire.LOST:
                    self._loss_first(feed, known + 1)
                self._put(feed, Item(said, known))
        if not said.paged and said.before:
            self.complete(said.before - 1)
        return ""

    def complete(self, complete: int) -> None:
        """Everything at or below it has come, of all channels that the service sends live."""
        self._cursor.completed(complete)
        self._move()

    def caught_up(self, complete: int | None) -> None:
        """Handles the end of catching up, complete up to `complete`: the service sends live messages from here on."""
        if complete is not None:
            self._cursor.completed(complete)
        for channel in channels_of(self._registrations.unanswered(OperationStage.CONFIRMED)):
            feed = self._by_hash.get(channel.hash)
            if feed is not None:
                self._registrations.arrived(channel)
                self.progress += 1
                if complete is not None and not feed.deaf:
                    self._loss_first(feed, complete + 1)
                feed.live = not feed.deaf
        self._move()
        for channel in channels_of(list(self._registrations.pending)):
            feed = self._by_hash.get(channel.hash)
            if feed is not None:
                self._settle(feed)

    @property
    def for_hello(self) -> tuple[int | None, int | None]:
        """Returns epoch and cursor. Without a cursor, there is no epoch to send."""
        if self._cursor.cursor is None or not self._registrations.has_channels:
            return None, None
        return self._cursor.epoch, self._cursor.cursor

    # What the callback thread says

    def next_job(self, now: float) -> ChannelJob | None:
        """The callbacks to run next, or None. One message of a channel after another."""
        for feed in [feed for feed in self._resting.values() if feed.retry_at is None or feed.retry_at <= now]:
            feed.retry_at = None
            del self._resting[feed.channel.name]
            self._offer(feed)
        while self._ready:
            name, feed = self._ready.popitem(last=False)
            item = feed.items[0]
            message = feed.message(item, self._cursor.epoch or 0)
            is_missed = isinstance(message, Missed)
            audience = self._missed_subscribers.get(name, set()) if is_missed else self._subscribers[name]
            subscribers = audience - item.told_to
            if not subscribers:
                if isinstance(message, Missed) and not item.told_to:
                    self._report(MessagesMissed(message))
                # Else those whose callback failed have gone; the others know already.
                self._told(feed)
                continue
            feed.running = ChannelJob(feed, item, tuple(sorted(subscribers)), message)
            self._jobs.add(feed.running)
            return feed.running
        return None

    def ready_at(self) -> float:
        """Returns when the next job can begin: -inf for now; inf: nothing waits for a time."""
        if self._ready:
            return float("-inf")
        return min((feed.retry_at or float("-inf") for feed in self._resting.values()), default=float("inf"))

    def done(self, job: ChannelJob, failed: Mapping[int, BaseException], now: float) -> None:
        """Handles the end of a job's callbacks; `failed` contains the errors of those that raised, by subscriber."""
        self._jobs.discard(job)
        feed, item = job.feed, job.item
        for cause in failed.values():
            self._report(ChannelCallbackFailed(feed.channel.title, item.end, cause))
        if feed.running is not job:
            return  # unregistered meanwhile, or the log is another one
        if not failed:
            self._told(feed)
            return
        feed.running = None
        item.told_to |= set(job.subscribers) - set(failed)
        feed.failures += 1
        delay_s = min(self._settings.retry_max_s, self._settings.retry_min_s * 2 ** (feed.failures - 1))
        feed.retry_at = now + delay_s
        self._resting[feed.channel.name] = feed
        if feed.failures >= self._settings.tries_max:
            self._park(feed, item)

    # What others ask

    def lacks(self, channel: ChannelInterest) -> bool:
        """Returns true if something of a pending channel must be told, or is still to come."""
        feed = self._by_hash.get(channel.hash)
        if feed is None or self._registrations.stage(channel) is not OperationStage.ARRIVED:
            return True
        return bool(feed.items or feed.deaf)

    def told(self, channel: ChannelInterest) -> int:
        """Returns the offset up to which a pending channel is told; -1: nothing is."""
        feed = self._by_hash.get(channel.hash)
        return BEGINNING if feed is None else feed.applied(None)

    @property
    def epoch(self) -> int | None:
        """Epoch of the log of the domain's channels."""
        return self._cursor.epoch

    @property
    def cursor(self) -> int | None:
        """Everything at or below it is told, of every channel without a pending registration."""
        return self._cursor.cursor

    @property
    def as_of(self) -> float | None:
        """Everything acknowledged before that time is told, of every channel without a pending registration."""
        return self._cursor.as_of

    def prove(self, as_of: float) -> None:
        """Everything acknowledged before that time has come, of all channels that the service sends live."""
        self._cursor.prove(as_of)

    @property
    def kept(self) -> dict[ChannelInterest, KeptChannel]:
        """For the document."""
        return {feed.channel: feed.kept for feed in self._feeds.values()}

    @property
    def waiting(self) -> int:
        """The number of channels with messages that wait to be told."""
        return sum(bool(feed.items) for feed in self._feeds.values())

    @property
    def all_parked(self) -> set[ChannelInterest]:
        """The channels whose callbacks failed too often, until they succeed."""
        return {feed.channel for feed in self._feeds.values() if feed.parked}

    @property
    def running(self) -> bool:
        """True if a job is running."""
        return bool(self._jobs)

    @property
    def idle(self) -> bool:
        """True if all callbacks have returned: what still waits has no subscriber, or is parked."""
        return not (self._ready or self._jobs or any(feed.items for feed in self._resting.values()))

    # One channel

    def _is_owed(self, feed: Feed) -> bool:
        return self._registrations.is_owed(feed.channel)

    def _is_answered(self, feed: Feed, operations: Mapping[Interest, object]) -> bool:
        """Returns true if an answer to these operations is for the pending registration."""
        return self._registrations.pending.get(feed.channel) is operations.get(feed.channel)

    def _is_foreign(self, since: Since) -> bool:
        """Returns true if it is a position of another log."""
        return since.is_position and self._cursor.epoch is not None and since.epoch != self._cursor.epoch

    def _lose(self, feed: Feed) -> None:
        """Its beginning was a position of another log: it begins with what this log has, and that is reported."""
        feed.since, feed.lost = OLDEST, True
        self._journal.changed(urgent=True)

    def _resolve(self, feed: Feed, position: int) -> None:
        if feed.since is not None and self._is_foreign(feed.since):
            self._lose(feed)
            self._registrations.ask_again(feed.channel)
            return
        feed.since, feed.position, feed.received = None, position, position
        # Durable before the service hears of this position: who then says `since` again might get another one.
        self._journal.changed(urgent=True)
        self._loss_first(feed, position + 1)

    def _listens(self, feed: Feed, paged: bool) -> bool:
        """Returns true if its messages are kept. A parked channel is requested again when something comes."""
        stage = self._registrations.stage(feed.channel)
        if feed.deaf and feed.parked and feed.retry_at is None and not paged:
            self._refill(feed)
        return not feed.deaf and feed.since is None and stage not in _ASKED

    def _known(self, feed: Feed) -> int:
        """All up to there has come."""
        complete = self._cursor.complete
        return max(feed.received, complete) if feed.live and complete is not None else feed.received

    def _gap(self, feed: Feed, known: int, before: int) -> str:
        """The service sends it from another place than its position, which the next Hello carries."""
        self._owe(feed)
        return f"channel {feed.channel.title!r}: messages between {known} and {before} have not come"

    def _loss_first(self, feed: Feed, before: int) -> None:
        """If the loss of the log must still be reported, puts that first."""
        if not feed.tells_loss:
            said = wire.Missed(channel=feed.channel.hash, before=before, reason=wire.LOST)
            # What frames say to be complete does not stand for that: the channel is pending until it is told.
            self._put(feed, Item(said, feed.received))

    def _put(self, feed: Feed, item: Item) -> None:
        owed = self._is_owed(feed)
        if not owed and feed.channel.name not in self._subscribers:
            self._owe(feed)
            owed = True
        if not owed:
            self._cursor.hold(item)
        feed.put(item)
        self._size_bytes += item.size_bytes
        self._offer(feed)
        if self._size_bytes > numbers.CHANNELS_BACKLOG_BYTES_MAX:
            self._cut(max(self._feeds.values(), key=lambda one: one.size_bytes))

    def _cut(self, feed: Feed) -> None:
        """Too much waits: the rest of its messages is requested again, once it has told what it keeps."""
        self._owe(feed)
        dropped = feed.cut(feed.size_bytes // 2)
        if dropped:
            feed.deaf, feed.live = True, False
            self._release(dropped)

    def _park(self, feed: Feed, item: Item) -> None:
        self._report(ChannelParked(feed.channel.title, item.end, feed.failures))
        self._owe(feed)
        self._drop(feed)
        feed.deaf = feed.parked = True
        feed.live = False
        feed.failures = 0
        self._move()

    def _told(self, feed: Feed) -> None:
        item = feed.pop()
        self._release((item,))
        feed.failures = 0
        feed.parked = False
        self.progress += self._is_owed(feed)
        self._journal.changed()
        self._move()
        self._offer(feed)
        self._settle(feed)
        self._refill(feed)

    def _offer(self, feed: Feed) -> None:
        """Lets the first of its items be told as soon as possible."""
        name = feed.channel.name
        if feed.items and name in self._subscribers and feed.running is None and feed.retry_at is None:
            self._ready[name] = feed

    def _settle(self, feed: Feed) -> None:
        """Settles its pending registration, if it has come as far as the cursor."""
        cursor, channel = self._cursor.cursor, feed.channel
        if feed.deaf or self._registrations.stage(channel) is not OperationStage.ARRIVED:
            return
        # Also where the log has nothing yet: the next message may not come for long.
        self._loss_first(feed, (feed.received if cursor is None else max(cursor, feed.received)) + 1)
        if cursor is None:
            self._ahead[channel.name] = feed
            return
        if feed.items and (channel.name not in self._subscribers or feed.items[0].limit < cursor):
            return
        if feed.position is not None and feed.position > max(cursor, BEGINNING if feed.told is None else feed.told):
            # The cursor alone would let what lies in front of the position be told.
            self._ahead[channel.name] = feed
            return
        self._registrations.settle(channel)
        feed.position = None
        for item in feed.items:
            self._cursor.hold(item)

    def _refill(self, feed: Feed) -> None:
        """Requests what was dropped, once everything that was kept is told."""
        if not feed.deaf or feed.items or feed.channel.name not in self._subscribers:
            return
        if self._registrations.stage(feed.channel) not in _ASKED:
            self._leave(feed)
            self._fold(feed)
            self._registrations.ask_again(feed.channel)

    def _owe(self, feed: Feed) -> None:
        """Makes it a pending registration, because it cannot be told for now, so that the cursor passes."""
        if not self._is_owed(feed):
            self._leave(feed)
            self._registrations.owe(feed.channel)
            self._move()

    def _leave(self, feed: Feed) -> None:
        """Uncouples it from the cursor: from here on its own position counts."""
        if feed.position is None:
            feed.position = feed.applied(self._cursor.cursor)
        for item in feed.items:
            item.held = False

    def _fold(self, feed: Feed) -> None:
        """Uncouples it from what frames report as complete."""
        feed.received = self._known(feed)
        feed.live = False

    def _drop(self, feed: Feed) -> None:
        self._release(feed.drop())
        self._ready.pop(feed.channel.name, None)

    def _release(self, items: Collection[Item]) -> None:
        for item in items:
            item.held = False
            self._size_bytes -= item.size_bytes

    def _move(self) -> None:
        if self._cursor.move():
            self._journal.changed()
            ahead, self._ahead = self._ahead, {}
            for name, feed in ahead.items():
                if self._feeds.get(name) is feed:
                    self._settle(feed)
