"""Channels of a tenant above its agreement: sessions come by pages, each in its turn, and nothing is dropped."""

from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.channels.channel_paging import TURN_MS_MAX
from coldnotify_matcher.engine.tenants.allowances import Allowances, OutAgreement
from coldnotify_schemas import internal_pb2
from coldnotify_testkit.channels_bench import (
    ChannelsBench,
    channel,
    channel_fan_outs,
    channel_pages,
    text,
)
from coldnotify_testkit.engine_bench import DOMAIN, GATEWAY


class Limited(ChannelsBench):
    """A bench whose domain may be told so much, and gateways that ask when they are to."""

    def __init__(self) -> None:
        self.allowances = Allowances()
        super().__init__(rules=Rules(allowances=self.allowances))
        self.heard: dict[int, list[int]] = {}
        """By session, the offsets that it was told while its gateway passed on what came."""
        self.paged: set[int] = set()
        """Sessions that wait for a page."""
        self.cursors: dict[int, int] = {}
        self.asked: dict[int, int] = {}
        self.left: set[int] = set()

    def agree(self, per_s: float) -> None:
        self.allowances.agree([OutAgreement(DOMAIN, per_s, None, 2)], self.now_ms)

    def live(self, session: int) -> None:
        self.open([text("a")], [channel("a")], session=session, client=f"client-{session}")
        self.settle()
        self.take()
        self.heard[session], self.cursors[session], self.asked[session] = [], -1, 1

    def hear(self) -> None:
        """What gateways are told, as they handle it."""
        for item in self.take(GATEWAY):
            if item.HasField("stream_fan_out"):
                (fan_out,) = channel_fan_outs([item])
                for session in set(self.heard) - self.paged:
                    self._hear(session, fan_out.entry)
            elif item.HasField("stream_page"):
                self._on_page(item.stream_page)
        self.settle()

    def _on_page(self, page: internal_pb2.Page) -> None:
        session = page.session
        if not page.page:
            if session not in self.paged:
                self.paged.add(session)
                self._ask(session)
            return
        for entry in page.entries:
            self._hear(session, entry)
        if page.last:
            self.paged.discard(session)
        else:
            request = internal_pb2.CatchUp(ask=page.ask, page=page.page, paging=page.paging)
            self.request(session, f"client-{session}", stream_catch_up=request)

    def _ask(self, session: int) -> None:
        self.asked[session] += 1
        cursor = self.cursors[session]
        request = internal_pb2.CatchUp(ask=self.asked[session], cursor=cursor if cursor >= 0 else None)
        self.request(session, f"client-{session}", stream_catch_up=request)

    def _hear(self, session: int, entry: internal_pb2.Entry) -> None:
        offset = entry.message.offset
        assert offset > self.cursors[session], "none twice, none out of order"
        assert offset - entry.message.back <= self.cursors[session] or self.cursors[session] < 0
        self.heard[session].append(offset)
        self.cursors[session] = offset

    def pass_ms(self, ms: int) -> None:
        for _ in range(ms // 100):
            self.now_ms += 100
            self.engine.flush(self.now_ms)
            if self.now_ms % 1000 == 0:
                self.engine.on_tick(self.now_ms)
            if self.now_ms % 5000 == 0:
                sessions = [number for number in self.heard if number not in self.left]
                self.request(beat=internal_pb2.Beat(sessions=len(sessions), checksum=sum(sessions), serial=1))
            self.settle()
            self.hear()


def test_every_message_is_told_in_order_at_the_agreed_rate() -> None:
    bench = Limited()
    for session in (1, 2, 3):
        bench.live(session)
    bench.agree(15)
    for _ in range(600):
        bench.send("a")
        bench.settle()
        bench.hear()
        bench.pass_ms(100)
    told = [len(offsets) for offsets in bench.heard.values()]
    # 60 s: 30 a second are asked for, 15 fit, and a burst of two seconds.
    assert 15 * 60 - 30 <= sum(told) <= 15 * 60 + 2 * 30
    assert bench.engine.state.use_of(DOMAIN).deliveries == sum(told)
    assert max(told) - min(told) <= 2 * 30, "they take turns"
    bench.pass_ms(70_000)
    assert bench.heard == {session: list(range(600)) for session in (1, 2, 3)}
    assert bench.paged == set()


def test_sessions_take_turns_and_an_empty_page_keeps_ones_place() -> None:
    bench = Limited()
    for session in range(1, 11):
        bench.live(session)
    bench.agree(0.1)
    for _ in range(3):
        bench.send("a")
        bench.settle()
        bench.hear()
    bench.pass_ms(3 * TURN_MS_MAX)
    assert bench.engine.state.counts["channel_pages"] > 9, "empty pages say that it goes on"
    told = sorted(len(offsets) for offsets in bench.heard.values())
    # The first was told at once, to all: that debt is paid within a minute. Then one in ten seconds.
    assert (told[0], told[-1]) == (1, 2)
    bench.agree(1000)
    bench.pass_ms(2 * TURN_MS_MAX)
    assert all(offsets == [0, 1, 2] for offsets in bench.heard.values())


def test_who_leaves_while_it_waits_leaves_nothing_behind() -> None:
    bench = Limited()
    bench.live(1)
    bench.live(2)
    bench.agree(0.1)
    for _ in range(3):
        bench.send("a")
        bench.settle()
        bench.hear()
    bench.request(1, "client-1", leave=internal_pb2.Leave())
    bench.left.add(1)
    bench.settle()
    bench.agree(1000)
    bench.pass_ms(TURN_MS_MAX)
    assert bench.heard[2] == [0, 1, 2]
    assert bench.engine.next_due_ms() is None


def test_a_session_that_is_just_told_that_nothing_lacks_is_told_what_came_between() -> None:
    """A message comes in the step in which the page of its objects waits."""
    bench = Limited()
    bench.send("a")
    bench.settle()
    bench.agree(0.1)
    spent = bench.allowances.of(DOMAIN)
    assert spent is not None
    spent.take(10**6, 0)
    bench.open([text("a")], [channel("a")], session=1, client="client-1")
    bench.settle()
    bench.heard[1], bench.cursors[1], bench.asked[1] = [], 0, 1
    bench.take()
    bench.send("a")
    bench.settle()
    bench.hear()
    bench.pass_ms(2 * TURN_MS_MAX)
    assert bench.heard[1] == [1]
    assert channel_pages(bench.take()) == []
