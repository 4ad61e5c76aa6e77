"""Messages of channels by filters: live, from tail and blocks, across takeovers; each once, or `missed`."""

from dataclasses import dataclass, field

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import NO_HEADERS, MessageHeaders
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import filter_hash
from coldnotify_testkit.channels_bench import TOPICS, ChannelsBench, channel, text
from coldnotify_testkit.engine_bench import EPOCH, GATEWAY, sessions_of

HOUR_S = 3_600


@dataclass
class Listener:
    """A device with filters, and its gateway."""

    bench: ChannelsBench
    name: str = "unit-1"
    session: int = 0
    filters: list[str] = field(default_factory=list)
    heard: list[tuple[str, bytes]] = field(default_factory=list)
    missed: list[tuple[int, int, str]] = field(default_factory=list)
    after: int = -1
    present: bool = False
    live: bool = False
    complete: int | None = None
    epoch: int | None = None
    acked: int | None = None
    ask: int = 0
    page: int = 1
    last_offset: int = -1
    page_bytes: int = 0

    def connect(self, *subscribing: str, clean: bool = False) -> "Listener":
        """Begin a session."""
        self.session += 1
        self.heard, self.missed, self.live, self.last_offset = [], [], False, -1
        self.complete = self.acked = self.epoch = None
        self.ask, self.page = 0, 1
        kept = internal_pb2.Kept(clean=clean, expiry_s=HOUR_S, protocol="mqtt 5.0")
        self._request(open=internal_pb2.Open(ask=1, kept=kept, page_bytes=self.page_bytes))
        return self.subscribe(*subscribing)

    def announce(self) -> None:
        """Its gateway opens the session again."""
        self.ask += 1
        self.page, self.live = 1, False
        kept = internal_pb2.Kept(expiry_s=HOUR_S, protocol="mqtt 5.0")
        stream = internal_pb2.OpenStream(epoch=self.epoch, cursor=self.complete, ask=self.ask, acked=self.acked)
        digest = sum(map(filter_hash, self.filters)) % MODULUS
        self._request(
            open=internal_pb2.Open(ask=99, kept=kept, again=True, digest=digest, epoch=EPOCH, streams=[stream])
        )

    def subscribe(self, *texts: str, options: int = 0) -> "Listener":
        """Register for filters."""
        said = [wire_pb2.Interest(kind=wire_pb2.INTEREST_FILTER, text=one, options=options) for one in texts]
        self.filters += texts
        self._request(register=wire_pb2.Register(request=1, interests=said))
        return self.run()

    def unsubscribe(self, *texts: str) -> "Listener":
        """Register for these no more."""
        self._request(unregister=wire_pb2.Unregister(request=2, interests=[filter_hash(one) for one in texts]))
        return self.run()

    def slow_down(self) -> None:
        """Its gateway passes over what is told live, until it asks for what was."""
        self.ask, self.page, self.live = self.ask + 1, 1, False

    def read_on(self) -> "Listener":
        """Its gateway asks from its place on."""
        self._request(stream_catch_up=internal_pb2.CatchUp(cursor=self.complete, ask=self.ask, epoch=self.epoch))
        return self.run()

    def leave(self) -> None:
        """End the session."""
        stream = internal_pb2.CompleteStream(epoch=self.epoch, complete=self.acked)
        self._request(leave=internal_pb2.Leave(epoch=EPOCH, streams=[stream]))
        self.run()

    def run(self) -> "Listener":
        """Let everything happen."""
        for _ in range(1_000):
            self.bench.settle()
            items = self.bench.take(GATEWAY)
            if not items:
                return self
            for item in items:
                self._on_item(item)
        raise AssertionError("it does not come to rest")

    def take(self) -> list[str]:
        """The channels of the messages since the last time."""
        heard, self.heard = self.heard, []
        return [name for name, _ in heard]

    def _on_item(self, item: internal_pb2.Item) -> None:
        kind = item.WhichOneof("item") or ""
        if kind == "stream_fan_out":
            sessions = sessions_of(item.stream_fan_out)
            assert len(sessions) == len(set(sessions))
            if self.session in sessions and self.live:
                self._on_entry(item.stream_fan_out.entry)
                self._move(item.stream_fan_out.entry.message.offset)
            return
        if getattr(item, kind).session != self.session:
            return
        if kind == "opened":
            if not item.opened.ask and not item.opened.in_sync:
                self.announce()
            elif item.opened.ask == 1:
                self.present = item.opened.kept.present
                self.filters = [one.text for one in item.opened.kept.filters]
                (stream,) = item.opened.streams
                self.epoch = stream.epoch
                self.complete = self.acked = stream.complete if stream.HasField("complete") else None
        elif kind == "page":
            for said in item.page.streams:
                if said.ask == self.ask:
                    self.live = True
                    self._move(said.complete)
        elif kind == "stream_page" and item.stream_page.kind == internal_pb2.PAGE:
            self._on_page(item.stream_page)

    def _on_page(self, page: internal_pb2.Page) -> None:
        if (page.ask, page.page) != (self.ask, self.page):
            return
        for entry in page.entries:
            self._on_entry(entry)
        if page.HasField("complete"):
            self._move(page.complete)
        self.live = page.last
        if not page.last:
            self.page += 1
            self._request(
                stream_catch_up=internal_pb2.CatchUp(
                    cursor=self.complete, ask=self.ask, page=page.page, paging=page.paging, epoch=self.epoch
                )
            )

    def _on_entry(self, entry: internal_pb2.Entry) -> None:
        if entry.HasField("missed"):
            reason = wire_pb2.Reason.Name(entry.missed.reason)
            self.after = entry.missed.after
            self.missed.append((entry.missed.channel, entry.missed.before, reason))
            return
        assert not entry.message.channel
        assert entry.message.offset > self.last_offset, "in order, and once"
        self.last_offset = entry.message.offset
        self.heard.append((entry.message.name, entry.message.payload))

    def _move(self, complete: int) -> None:
        if self.complete is None or complete > self.complete:
            self.complete = self.acked = complete
            streams = [internal_pb2.AckedStream(epoch=self.epoch, sessions=[self.session], completes=[complete])]
            self._request(acks=internal_pb2.Acks(epoch=EPOCH, streams=streams))

    def _request(self, **body: object) -> None:
        self.bench.request(self.session, self.name, GATEWAY, **body)


def test_a_filter_begins_now_and_hears_each_message_once_however_many_fit() -> None:
    bench = ChannelsBench()
    bench.send("a/1", b"before")
    listener = Listener(bench).connect().subscribe("a/#", "+/1", "b")
    for name in ("a/1", "a/2", "b", "c", "a", "$x/1", "new/1"):
        bench.send(name)
    listener.run()
    assert listener.take() == ["a/1", "a/2", "b", "a", "new/1"]
    assert listener.live


def test_a_filter_that_is_registered_while_others_are_caught_up_begins_now() -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_bytes_max=1)))
    listener = Listener(bench).connect().subscribe("a")
    bench.send("a")
    listener.run()
    listener.leave()
    for name in ("a", "b", "a", "b", "c"):
        bench.send(name)
    bench.settle()
    listener.connect("b")
    bench.send("b")
    listener.run()
    assert listener.take() == ["a", "a", "b"]


def test_sessions_by_filters_and_by_names_hear_it_apart() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect().subscribe("#")
    bench.open([text("a")], [channel("a")], session=70, client="named")
    bench.settle()
    bench.take()
    bench.send("a")
    bench.settle()
    fan_outs = [item.stream_fan_out for item in bench.take() if item.WhichOneof("item") == "stream_fan_out"]
    assert [(sessions_of(one), one.entry.message.name) for one in fan_outs] == [([70], ""), ([listener.session], "a")]


@pytest.mark.parametrize("tail_bytes_max", [1, 1 << 20])
@pytest.mark.parametrize("page_bytes", [0, 1024])
def test_all_that_was_sent_meanwhile_comes_from_tail_or_blocks_in_order(tail_bytes_max: int, page_bytes: int) -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_bytes_max=tail_bytes_max)))
    listener = Listener(bench, page_bytes=page_bytes).connect().subscribe("a/#", "b")
    bench.send("a/1")
    listener.run()
    listener.leave()
    sent = [name for i in range(40) for name in (f"a/{i % 7}", "c", "b", f"new/{i}")]
    for name in sent:
        bench.send(name, b"y" * 100)
    bench.settle()
    listener.connect()
    assert listener.present
    assert listener.take() == [name for name in sent if name.startswith("a/") or name == "b"]
    assert not listener.missed
    bench.send("a/9")
    listener.run()
    assert listener.take() == ["a/9"]


def test_a_takeover_repeats_nothing_and_passes_nothing_over() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect().subscribe("#")
    away = Listener(bench, name="unit-2", session=100)
    away.connect().subscribe("a/+")
    bench.send("a/1")
    listener.run()
    away.leave()
    bench.settle()
    listener.take()
    bench.send("a/2")
    bench.take_over()
    bench.send("a/3")
    listener.run()
    assert listener.take() == ["a/2", "a/3"]
    away.connect()
    assert [name for name in away.take() if name != "a/1"] == ["a/2", "a/3"]


def test_ending_one_filter_of_several_costs_nothing_of_the_others() -> None:
    bench = ChannelsBench()
    device = Listener(bench).connect("tasks/#", "news")
    assert device.unsubscribe("news").live
    device.slow_down()
    bench.send("tasks/a")
    device.run()
    assert device.take() == []
    assert device.read_on().take() == ["tasks/a"]


def test_a_clean_session_hears_nothing_of_before() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect().subscribe("#")
    listener.leave()
    bench.send("a")
    bench.settle()
    listener.connect(clean=True).subscribe("#")
    assert listener.take() == []
    bench.send("b")
    listener.run()
    assert listener.take() == ["b"]


def test_messages_that_retention_removed_are_missed_by_the_filters_that_fit() -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_bytes_max=1)))
    listener = Listener(bench).connect().subscribe("a/#", "b")
    bench.send("c")
    listener.run()
    listener.leave()
    for _ in range(10):
        bench.send("a/1")
    bench.settle()
    bench.remove_below(6)
    bench.engine.channels.on_log_start(bench.retention, 6)
    listener.connect()
    assert listener.missed == [(filter_hash("a/#"), 6, "RETENTION")]
    assert listener.take() == ["a/1"] * 5


def test_messages_for_attributes_expired_ones_and_its_own_are_not_told() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect().subscribe("a/#", options=0x04)
    for away in (False, True):
        if away:
            listener.leave()
        bench.send("a/for", headers=NO_HEADERS._replace(to=("x",)))
        bench.send("a/old", headers=NO_HEADERS._replace(expires_at=1))
        bench.send("a/own", headers=NO_HEADERS._replace(source=listener.name))
        bench.send("a/yes", headers=NO_HEADERS._replace(source="other"))
        bench.settle()
        if away:
            listener.connect()
        listener.run()
        assert listener.take() == ["a/yes"]
        assert not listener.missed


def test_another_log_is_missed_by_all_filters() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect().subscribe("a")
    bench.send("a")
    listener.run()
    listener.leave()
    bench.settle()
    bench.epoch += 1
    bench.log, bench.end, bench.committed = [], 0, None
    bench.take_over()
    bench.send("a")
    bench.settle()
    listener.connect()
    assert [(hash_, reason) for hash_, _, reason in listener.missed] == [(filter_hash("a"), "LOST")]
    assert listener.take() == ["a"]


def test_a_message_is_told_with_its_properties_and_what_is_left() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect("a")
    listener.run()
    headers = MessageHeaders(properties=b"\x00", expires_at=bench.now_ms + 9_000, passed_over=2)
    bench.send("a", headers=headers)
    bench.send("a")
    bench.settle()
    entries = [one.stream_fan_out.entry for one in bench.take() if one.HasField("stream_fan_out")]
    assert [(one.properties, one.expires_in_ms) for one in entries] == [(b"\x00", 9_000), (b"", 0)]
    assert [one.HasField("expires_in_ms") for one in entries] == [True, False]
    assert bench.engine.state.counts["properties_passed_over"] == 2


def test_a_lost_session_record_whose_requests_are_handled_again_costs_no_message() -> None:
    bench = ChannelsBench()
    bench.send("a", b"before")
    listener = Listener(bench).connect().subscribe("a")
    listener.leave()
    bench.send("a", b"meanwhile")
    bench.settle()
    bench.stored[TOPICS.sessions].clear()
    bench.requests_committed = 0
    bench.take_over()
    bench.settle()
    listener.connect()
    assert listener.present
    assert [payload for _, payload in listener.heard] == [b"meanwhile"]
    assert listener.missed == []


def of_a_sleeper(away: int = 5) -> tuple[ChannelsBench, Listener]:
    """Returns a device that slept while messages of a/1 were sent and removed, and that has another filter."""
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_bytes_max=1)))
    listener = Listener(bench).connect().subscribe("a/#", "b")
    bench.send("c")
    listener.run()
    listener.leave()
    for _ in range(away):
        bench.send("a/1")
    bench.settle()
    bench.remove_below(away + 1)
    bench.engine.channels.on_log_start(bench.retention, away + 1)
    keep_tail(bench)
    return bench, listener


def keep_tail(bench: ChannelsBench) -> None:
    """Have the matcher keep what it reads from now on."""
    bench.engine.state.channel_logs[bench.retention].tail.bound(1 << 20)


def take_over(bench: ChannelsBench) -> None:
    bench.take_over()
    keep_tail(bench)


MISSED = (filter_hash("a/#"), 6, "RETENTION")


@pytest.mark.parametrize("takes_over", [False, True])
def test_missed_messages_are_said_on_each_connection_until_one_behind_them(takes_over: bool) -> None:
    bench, listener = of_a_sleeper()
    for _ in range(3):
        assert listener.connect().missed == [MISSED]
        bench.send("b")
        listener.run()
        assert listener.take() == ["b"]
        listener.leave()
        if takes_over:
            take_over(bench)
    bench.send("a/1")
    bench.settle()
    assert listener.connect().missed == [MISSED]
    assert listener.take() == ["a/1"]
    listener.leave()
    if takes_over:
        take_over(bench)
    assert listener.connect().missed == []


def test_a_gap_grows_while_nothing_is_heard() -> None:
    bench, listener = of_a_sleeper()
    assert listener.connect().missed == [MISSED]
    listener.leave()
    for _ in range(3):
        bench.send("a/2")
    bench.settle()
    bench.engine.state.channel_logs[bench.retention].tail.drop_below(9)
    bench.remove_below(9)
    bench.engine.channels.on_log_start(bench.retention, 9)
    assert listener.connect().missed[-1] == (filter_hash("a/#"), 9, "RETENTION")
    assert listener.after == 0


def test_an_own_message_does_not_say_the_gap_to_a_device_with_no_local() -> None:
    bench, listener = of_a_sleeper()
    listener.connect().subscribe("a/#", options=0x04)
    bench.send("a/1", headers=NO_HEADERS._replace(source=listener.name))
    listener.run()
    listener.leave()
    assert listener.connect().missed == [MISSED]


def test_a_lost_log_is_said_on_each_connection_until_a_message_behind_it() -> None:
    bench = ChannelsBench()
    listener = Listener(bench).connect().subscribe("a")
    listener.leave()
    bench.settle()
    bench.epoch += 1
    bench.log, bench.end, bench.committed = [], 0, None
    bench.take_over()
    for _ in range(2):
        assert [reason for _, _, reason in listener.connect().missed] == ["LOST"]
        listener.leave()
        bench.take_over()
    bench.send("a")
    bench.settle()
    assert [reason for _, _, reason in listener.connect().missed] == ["LOST"]
    assert listener.take() == ["a"]
    listener.leave()
    assert listener.connect().missed == []


@pytest.mark.parametrize("takes_over", [False, True])
def test_messages_of_a_channel_that_is_forgotten_are_missed(takes_over: bool) -> None:
    bench, listener = of_a_sleeper()
    for _ in range(1_000):
        bench.tick(1_000)
    if takes_over:
        take_over(bench)
    for _ in range(2):
        assert MISSED in listener.connect().missed
        listener.leave()
    bench.send("a/1")
    bench.settle()
    assert MISSED in listener.connect().missed
    assert listener.take() == ["a/1"]
    listener.leave()
    assert listener.connect().missed in ([], [(filter_hash("b"), 6, "RETENTION")])
