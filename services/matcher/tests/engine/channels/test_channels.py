"""Channels through the engine: registered, followed, told as messages come, and caught up from tail and blocks.

Stands for: followed_logs, by_channel, message_records, subscriptions, tail, channel_bounds
"""

import msgspec
import pytest
from coldnotify_matcher.engine import Block, Rules
from coldnotify_matcher.engine.channel_logs.channel_log import WANTED_MAX
from coldnotify_matcher.engine.channel_logs.kept_blocks import BLOCK_OFFSETS
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds, divided
from coldnotify_matcher.engine.tenants.allowances import Allowances, OutAgreement
from coldnotify_matcher.engine.tenants.high_shares import HighAgreement, HighShares
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import NO_HEADERS, MessageHeaders, Retention, Retentions, parse_message_headers
from coldnotify_schemas.interests import Kind
from coldnotify_schemas.matcher_state import (
    CHANNEL_BUCKETS,
    FORMAT_WITH_INTERESTS,
    RegistrationsRecord,
    SessionRecord,
    StoredInterest,
)
from coldnotify_schemas.protocol import REPEATS_KNOWN_OFFSETS
from coldnotify_schemas.records import REASON_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.channels_bench import (
    LOG_EPOCH,
    ChannelsBench,
    channel,
    channel_fan_outs,
    channel_pages,
    entry_of,
    hash_of,
    text,
)
from coldnotify_testkit.engine_bench import DOMAIN, PARTITION, PREFIX, opened, pages, sessions_of

TOPICS = TopicNames()


def live(bench: ChannelsBench, *names: str, session: int = 1, client: str = "client-1") -> None:
    """A session that hears of these channels from now on."""
    bench.open([text(name) for name in names], [channel(name) for name in names], session=session, client=client)
    bench.settle()
    bench.take()


def test_a_message_is_told_to_live_sessions_of_its_channel() -> None:
    bench = ChannelsBench()
    live(bench, "a", "b")
    live(bench, "b", session=2, client="client-2")
    bench.send("a", b"1")
    bench.send("b", b"2")
    bench.settle()

    first, second = channel_fan_outs(bench.take())
    assert (first.entry.message.payload, first.entry.message.channel) == (b"1", hash_of("a"))
    assert sessions_of(first) == [1]
    assert sessions_of(second) == [1, 2]


def test_since_oldest_comes_from_the_tail() -> None:
    bench = ChannelsBench()
    for name in ("a", "b", "a"):
        bench.send(name)
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)])
    bench.settle()

    (page,) = channel_pages(bench.take())
    assert [entry_of(entry) for entry in page.entries] == [(0, -1), (2, 0)]
    assert page.last
    assert page.complete == 2


def test_nothing_lacking_is_said_with_the_page_of_objects() -> None:
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("b")], [channel("b")])
    bench.settle()

    items = bench.take()
    (page,) = pages(items)
    (said,) = opened(items)
    assert (page.streams[0].complete, page.streams[0].ask) == (0, 1)
    assert channel_pages(items) == []
    assert (said.streams[0].log, said.streams[0].epoch) == (internal_pb2.LOG_1D, LOG_EPOCH)
    assert said.kinds & wire_pb2.KINDS_CHANNELS
    assert [(one.interest, one.position) for one in said.streams[0].positions] == [(hash_of("b"), 0)]


def test_a_channel_is_refused_with_the_reason() -> None:
    bench = ChannelsBench(registrations_max=1)
    bench.send("a")
    wrong = wire_pb2.Interest(kind=wire_pb2.INTEREST_CHANNEL, text="a", attributes=["y", "x"])
    bench.open([text("a")], [channel("a"), channel("b"), wrong, channel("")])
    bench.settle()

    (said,) = opened(bench.take())
    assert [one.reason.partition(":")[0] for one in said.refused] == ["channel", "attributes", "channel"]


def test_other_attributes_take_the_place_of_the_registration() -> None:
    bench = ChannelsBench()
    live(bench, "a")
    bench.request(register=wire_pb2.Register(request=1, interests=[channel("a", "x")]))
    bench.settle()
    bench.take()
    bench.send("a", headers=MessageHeaders(to=("y",)))
    bench.send("a", headers=MessageHeaders(to=("x",)))
    bench.ask(2, cursor=0)
    bench.settle()

    (page,) = channel_pages(bench.take())
    assert [entry.message.channel for entry in page.entries] == [hash_of("a", "x")]
    assert [entry.message.offset for entry in page.entries] == [1]


def test_what_has_expired_is_said_to_be_missed() -> None:
    bench = ChannelsBench()
    live(bench, "a")
    bench.send("a", headers=MessageHeaders(expires_at=bench.now_ms))
    bench.send("a")
    bench.settle()

    assert [entry_of(one.entry) for one in channel_fan_outs(bench.take())] == [("EXPIRED", None, 1), (1, 0)]


@pytest.mark.parametrize(
    ("value", "headers", "key", "field"),
    [
        (b"x", NO_HEADERS, b"nonsense", "key"),
        (b"x", NO_HEADERS, b"animal.observer/region-1/\xff\xfe", "key"),
        (b"x", "id: is not UTF-8", b"animal.observer/region-1/a", "id"),
        (None, NO_HEADERS, b"animal.observer/region-1/a", "payload"),
        (b"x" * 65_537, NO_HEADERS, b"animal.observer/region-1/a", "payload"),
        (b"x", NO_HEADERS, b"hourly/region-1/a", "domain"),
    ],
)
def test_what_is_no_message_is_rejected(
    value: bytes | None, headers: MessageHeaders | str, key: bytes, field: str
) -> None:
    bench = ChannelsBench(rules=Rules(retentions=Retentions({"hourly": Retention.HOUR})))
    bench.send("", value, headers, key=key)
    bench.settle()

    (rejected,) = bench.rejected
    assert dict(rejected.headers)[REASON_HEADER].startswith(field.encode())
    assert bench.engine.state.counts[f"messages_rejected:{field}"] == 1


def test_a_stray_is_moved_once_with_what_it_says() -> None:
    bench = ChannelsBench()
    said = MessageHeaders(id="i", to=("x",))
    bench.send("", headers=said, key=b"animal.observer/region-2/a")
    bench.send("", headers=said._replace(moved=b"1@1"), key=b"animal.observer/region-2/a")
    bench.settle()

    (move,) = bench.moved
    assert parse_message_headers(move.headers) == said._replace(moved=b"%d@0" % PARTITION)
    assert len(bench.rejected) == 1


def test_a_block_serves_all_who_wait_for_it_and_one_that_nobody_wants_is_skipped() -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=2)), block_records=1000)
    for offset in range(3000):
        bench.send("a" if offset in (0, 2500) else "b", b"")
    bench.settle()
    for number in (1, 2):
        since = channel("a", since=wire_pb2.SINCE_OLDEST)
        bench.open([text("a")], [since], session=number, client=f"client-{number}")
    bench.settle()

    assert bench.blocks_read == [0, 2000]
    first, second = channel_pages(bench.take())
    assert [entry.message.offset for entry in first.entries] == [entry.message.offset for entry in second.entries]
    assert [entry.message.offset for entry in first.entries] == [0, 2500]
    assert first.last


def test_a_block_that_ends_before_what_is_waited_for_is_read_once() -> None:
    """A block has a bound in bytes, too. Who waits for what is behind it does so for the next one, in his turn."""
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=1)), block_records=4)
    for _ in range(20):
        bench.send("a")
    bench.settle()
    for number, at in enumerate((9, 1), 1):
        since = channel("a", since=wire_pb2.SINCE_POSITION, at=at)
        bench.open([text("a")], [since], session=number, client=f"client-{number}")
    bench.handle()

    assert bench.read_blocks(10) == 5
    assert bench.blocks_read == [0, 4, 8, 12, 16]
    bench.step()
    first, second = channel_pages(bench.take())
    assert [entry.message.offset for entry in first.entries] == list(range(10, 20))
    assert [entry.message.offset for entry in second.entries] == list(range(2, 20))


def test_blocks_that_were_read_in_the_followed_part_hide_nothing_behind_it() -> None:
    """Its summary has the room between them. What comes behind it is in the next one."""
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=1)))
    since = channel("a", since=wire_pb2.SINCE_OLDEST)
    mine = [bench.send("a") for _ in range(10)]
    bench.settle()
    bench.open([text("a")], [since])
    bench.settle()
    assert bench.blocks_read == [0, 4, 8]
    mine.append(bench.send("a", gap=BLOCK_OFFSETS))
    for _ in range(4):
        bench.send("b")
    mine.append(bench.send("a", gap=BLOCK_OFFSETS))
    bench.settle()
    bench.take()
    bench.open([text("a")], [since], session=2, client="client-2")
    bench.settle()
    assert [one.message.offset for page in channel_pages(bench.take()) for one in page.entries] == mine


def test_those_who_come_back_to_different_places_come_together() -> None:
    """In turns the block of who lacks least is read, and the next one onward, with which travels whom it passes."""
    bounds = ChannelBounds(tail_messages_max=1, blocks_bytes_max=1)
    bench = ChannelsBench(rules=Rules(channel_bounds=bounds), block_records=BLOCK_OFFSETS)
    blocks = 8
    for offset in range(blocks * BLOCK_OFFSETS + 1):
        bench.send("a" if offset % BLOCK_OFFSETS == 1 else "b", b"")
    bench.settle()
    for number, block in enumerate((5, 0, 6, 3, 1, 4, 2)):
        since = channel("a", since=wire_pb2.SINCE_POSITION, at=block * BLOCK_OFFSETS)
        bench.open([text("a")], [since], session=number + 1, client=f"client-{number}")
    bench.settle()

    assert bench.blocks_read[:4] == [6 * BLOCK_OFFSETS, 0, 7 * BLOCK_OFFSETS, 1 * BLOCK_OFFSETS]
    assert len(bench.blocks_read) < 2 * blocks
    assert sum(len(page.entries) for page in channel_pages(bench.take())) == 7 * blocks - sum(range(7))


def test_a_matchers_memory_is_divided_by_use_and_each_log_reaches_an_even_part() -> None:
    assert divided(1000, []) == []
    assert divided(1000, [0, 0]) == [500, 500]
    assert divided(1000, [0, 7]) == [125, 875]
    used = [900, 0, 0, 0]
    for _ in range(40):
        parts = divided(1000, used)
        assert sum(parts) <= 1000
        used = [min(used[0], parts[0]), parts[1], 0, 0]
    assert used[1] >= 245


def test_a_log_that_is_bound_anew_drops_the_oldest() -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=3)), block_records=4)
    for _ in range(12):
        bench.send("a", 100 * b"x")
    bench.settle()
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)])
    bench.settle()
    (log,) = bench.engine.state.channel_logs.values()
    assert log.tail.size_bytes > 0 < log.blocks.kept_bytes
    assert log.memory_bytes >= log.tail.size_bytes + log.blocks.kept_bytes
    log.bound(ChannelBounds.of(7 * (log.tail.size_bytes - 1)))
    assert len(log.tail) == 2
    log.bound(ChannelBounds.of(0))
    assert (len(log.tail), log.blocks.kept_bytes) == (0, 0)
    log.bound(ChannelBounds())
    bench.take()
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)], session=2, client="other")
    bench.settle()
    assert [one.message.offset for page in channel_pages(bench.take()) for one in page.entries] == list(range(12))


def test_logs_have_their_blocks_read_in_turns() -> None:
    """However many wait for those of one log, another one's clients do not wait for all of them."""
    bench = ChannelsBench()
    bench.engine.channels.start(Retention.HOUR, LOG_EPOCH, 0, 0)
    for log in bench.engine.state.channel_logs.values():
        for number in range(3):
            log.wait(RegisteredClient(f"{PREFIX}client-{number}"), number * BLOCK_OFFSETS)
    turns = []
    for _ in range(4):
        turns.append(bench.engine.channels.wanted_blocks()[0][0])
        bench.engine.channels.on_block(Block(turns[-1], 9 * BLOCK_OFFSETS, 10 * BLOCK_OFFSETS, 0, []), bench.now_ms)
    assert turns == [Retention.DAY, Retention.HOUR] * 2


def test_all_blocks_that_are_waited_for_are_counted() -> None:
    """Also those whose turn is far off: of a log, eight are said to come next."""
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=2)))
    behind = REPEATS_KNOWN_OFFSETS // BLOCK_OFFSETS
    """Blocks that all need the same ones before them."""
    for _ in range((behind + 13) * BLOCK_OFFSETS):
        bench.send("a")
    bench.settle()
    for number in range(behind, behind + 12):
        since = channel("a", since=wire_pb2.SINCE_POSITION, at=number * BLOCK_OFFSETS)
        bench.open([text("a")], [since], session=number, client=f"client-{number}")
    bench.handle()
    assert len(bench.engine.channels.wanted_blocks()) == WANTED_MAX
    assert bench.engine.channels.awaited_blocks == 12


def test_a_beat_says_how_far_the_logs_are() -> None:
    bench = ChannelsBench()
    bench.send("a")
    bench.request(beat=internal_pb2.Beat(serial=1))
    bench.settle()

    (answer,) = (item.beat for item in bench.take() if item.WhichOneof("item") == "beat")
    assert [(one.log, one.complete) for one in answer.streams] == [(internal_pb2.LOG_1D, 0)]


def test_the_cursor_of_channels_is_stored_at_most_as_far_as_the_log_goes() -> None:
    bench = ChannelsBench()
    bench.send("a")
    live(bench, "a")
    bench.request(acks=internal_pb2.Acks(streams=[internal_pb2.AckedStream(sessions=[1], completes=[99])]))
    bench.request(leave=internal_pb2.Leave())
    bench.settle()
    bench.tick(31_000)

    record = msgspec.json.decode(bench.stored[TOPICS.sessions][f"{PREFIX}client-1"], type=SessionRecord)
    assert (record.channels_epoch, record.channels_cursor) == (LOG_EPOCH, 0)


def test_a_bucket_with_channels_has_format_2() -> None:
    bench = ChannelsBench()
    bench.send("a")
    live(bench, "a")

    (value,) = bench.stored[TOPICS.registrations].values()
    record = msgspec.json.decode(value, type=RegistrationsRecord)
    assert record.format == FORMAT_WITH_INTERESTS
    assert record.interests == [StoredInterest(Kind.CHANNEL, "a", 0, LOG_EPOCH)]


def test_who_registers_in_a_session_without_channels_is_told_the_epoch() -> None:
    """Also if it was registered in this log before: a client that wants no channel keeps no epoch."""
    bench = ChannelsBench()
    live(bench, "a")
    bench.request(acks=internal_pb2.Acks(streams=[internal_pb2.AckedStream(sessions=[1], completes=[0])]))
    bench.request(unregister=wire_pb2.Unregister(request=1, interests=[hash_of("a")]))
    bench.settle()
    bench.open([])
    bench.settle()
    bench.take()
    bench.request(register=wire_pb2.Register(request=2, interests=[channel("a")]))
    bench.settle()
    (said,) = [item.answered for item in bench.take() if item.HasField("answered")]
    assert said.streams[0].epoch == LOG_EPOCH


def test_who_is_not_known_and_comes_with_another_logs_cursor_is_told_that_messages_may_be_missing() -> None:
    """It was forgotten, and the log was lost: that it was registered, its client alone knows."""
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("a"), text("b")], cursor=7, epoch=LOG_EPOCH + 1)
    bench.settle()
    bench.take()
    said = [channel("a", since=wire_pb2.SINCE_BEGINNING), channel("b", since=wire_pb2.SINCE_NOW)]
    bench.request(sync=wire_pb2.SyncChunk(index=0, last=True, interests=said))
    bench.settle()
    (page,) = channel_pages(bench.take())
    assert [entry_of(one) for one in page.entries] == [("LOST", None, 0), (0, -1)]
    assert page.last


@pytest.mark.parametrize("writes_lost", [slice(1, None), slice(0, CHANNEL_BUCKETS - 1), slice(0, 0)])
def test_a_predecessor_that_died_between_two_buckets_leaves_nothing_unsaid(writes_lost: slice) -> None:
    """It had begun to write that nobody knows what retention has removed."""
    bench = ChannelsBench()
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)])
    bench.settle()
    for _ in range(3):
        bench.send("a")
    bench.remove_below(3)
    bench.take_over()
    bench.read()
    bench.engine.channels.commit_due = True
    bench.step(writes_lost=writes_lost)
    bench.take_over()
    bench.take()
    bench.open([text("a")], session=2)
    bench.settle()

    missed = [entry.missed for page in channel_pages(bench.take()) for entry in page.entries]
    assert {(one.before, one.reason) for one in missed} == {(3, wire_pb2.RETENTION)}


def test_a_successor_begins_where_what_is_written_goes_up_to() -> None:
    """Its predecessor died when the last offsets were written, and up to where they go was not."""
    bench = ChannelsBench()
    bench.send("b")
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)])
    bench.settle()
    bench.send("b")
    bench.send("a")
    bench.send("b", gap=2 * REPEATS_KNOWN_OFFSETS)
    bench.read()
    bench.engine.channels.commit_due = True
    bench.step()
    bench.remove_below(2)
    bench.take_over()
    bench.take()
    bench.open([text("a")], session=2, cursor=1)
    bench.settle()

    told = [entry.message.offset for page in channel_pages(bench.take()) for entry in page.entries]
    assert told == [2]


def test_a_set_that_is_to_come_is_told_by_the_latest_open() -> None:
    """The session's gateway has asked twice before its client has said the set."""
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("a")], ask=1, cursor=0)
    bench.settle()
    bench.open([text("a")], ask=2, cursor=0, again=True)
    bench.settle()
    bench.take()
    said = channel("a", since=wire_pb2.SINCE_POSITION, at=0)
    bench.request(sync=wire_pb2.SyncChunk(last=True, interests=[said]))
    bench.settle()
    (page,) = pages(bench.take())
    assert (page.streams[0].complete, page.streams[0].ask) == (0, 2)


# --- of high priority


HIGH = MessageHeaders(high_priority=True)
PAGE_BYTES = 4096
"""Three messages or so."""
LARGE = b"x" * 1200


def told_of(page: internal_pb2.Page) -> list[tuple[str, int]]:
    """(channel, offset) of its messages."""
    names = {hash_of(name): name for name in "abc"}
    return [(names[entry.message.channel], entry.message.offset) for entry in page.entries]


def test_a_live_message_of_high_priority_is_urgent() -> None:
    bench = ChannelsBench()
    live(bench, "a")
    bench.send("a")
    bench.send("a", headers=HIGH)
    bench.settle()
    assert [(entry_of(one.entry), one.urgent) for one in channel_fan_outs(bench.take())] == [
        ((0, -1), False),
        ((1, 0), True),
    ]


def test_above_its_tenants_share_it_comes_in_its_turn() -> None:
    shares = HighShares()
    shares.agree([HighAgreement(DOMAIN, 0.5)])
    bench = ChannelsBench(rules=Rules(high_shares=shares))
    live(bench, "a")
    for _ in range(30):
        bench.send("a", headers=HIGH)
    bench.settle()
    urgent = [one.urgent for one in channel_fan_outs(bench.take())]
    assert urgent[:10] == [True] * 10
    assert urgent.count(True) == 24, "ten are saved up, and each publish earns a half where there is room for it"


def test_what_is_of_high_priority_waits_for_no_turn_of_its_tenant_where_it_is_live() -> None:
    allowances = Allowances()
    bench = ChannelsBench(rules=Rules(allowances=allowances))
    live(bench, "a")
    allowances.agree([OutAgreement(DOMAIN, 0.001, None, 1)], bench.now_ms)
    for _ in range(3):
        bench.send("a", headers=HIGH)
    bench.settle()
    assert [one.entry.message.offset for one in channel_fan_outs(bench.take())] == [0, 1, 2]


def behind(bench: ChannelsBench, *, in_order: bool = False) -> internal_pb2.Page:
    """A session has its first page; of a, b and a much is still to come, and then comes one of b."""
    for number in range(8):
        bench.send("b" if number == 5 else "a", LARGE)
    bench.open([text("a"), text("b")], [channel(name, since=wire_pb2.SINCE_OLDEST) for name in "ab"],
               page_bytes=PAGE_BYTES)  # fmt: skip
    bench.requests[-1].open.channels_in_order = in_order
    bench.settle()
    (page,) = channel_pages(bench.take())
    assert told_of(page) == [("a", 0), ("a", 1), ("a", 2)]
    return page


def test_the_next_page_begins_with_the_channel_and_the_cursor_stays_with_the_others() -> None:
    bench = ChannelsBench()
    first = behind(bench)
    bench.send("a", LARGE)
    bench.send("b", headers=HIGH)
    bench.settle()
    assert ahead(bench) == [[("b", 5), ("b", 9)]]
    bench.ask(1, page=1, paging=first.paging, page_bytes=PAGE_BYTES)
    bench.settle()
    (second,) = channel_pages(bench.take())
    assert told_of(second) == [("b", 5), ("b", 9), ("a", 3), ("a", 4)]
    assert [entry_of(entry)[1] for entry in second.entries] == [-1, 5, 2, 3], "what lies between is of each channel"
    assert list(second.urgent) == [hash_of("b")]
    assert second.complete == 5, "in front of the next one of a"
    told = []
    page = second
    while not page.last:
        bench.ask(1, page=page.page, paging=page.paging, page_bytes=PAGE_BYTES)
        bench.settle()
        (page,) = channel_pages(bench.take())
        assert not page.urgent
        told += told_of(page)
    assert told == [("a", 6), ("a", 7), ("a", 8)], "all else, and nothing twice"
    assert page.complete == 9


def ahead(bench: ChannelsBench) -> list[list[tuple[str, int]]]:
    """What was told in front of a page, since the last look."""
    told = [page for page in channel_pages(bench.take()) if (page.kind == internal_pb2.PAGE_AHEAD)]
    assert not any(page.HasField("complete") or page.last for page in told)
    assert all((page.ask, page.page) == (1, 1) for page in told)
    return [told_of(page) for page in told]


def test_while_a_page_is_on_its_way_it_is_told_at_once_with_what_comes_before_it_and_each_once() -> None:
    bench = ChannelsBench()
    behind(bench)
    bench.send("b")
    bench.send("b", headers=HIGH)
    bench.send("b", headers=HIGH)
    bench.send("elsewhere", headers=HIGH)
    bench.settle()
    assert ahead(bench) == [[("b", 5), ("b", 8), ("b", 9)], [("b", 10)]]
    for _ in range(4):
        bench.send("b", LARGE, HIGH)
    bench.settle()
    assert ahead(bench) == [[("b", 12)], [("b", 13)]], "together no more than a page"


def test_what_lacks_before_it_and_is_not_in_memory_comes_with_it_in_the_page() -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=2)))
    for _ in range(8):
        bench.send("b", LARGE)
    bench.open([text("a"), text("b")], [channel(name, since=wire_pb2.SINCE_OLDEST) for name in "ab"],
               page_bytes=PAGE_BYTES)  # fmt: skip
    bench.settle()
    bench.take()
    bench.send("b", headers=HIGH)
    bench.send("a", headers=HIGH)
    bench.settle()
    assert ahead(bench) == [[("a", 9)]]


def test_what_has_expired_before_it_is_said_in_the_page() -> None:
    bench = ChannelsBench()
    behind(bench)
    bench.send("b", headers=MessageHeaders(expires_at=bench.now_ms))
    bench.send("b", headers=HIGH)
    bench.settle()
    assert ahead(bench) == []


def test_who_has_gone_or_has_caught_up_is_told_nothing_in_front() -> None:
    bench = ChannelsBench()
    page = behind(bench)
    while not page.last:
        bench.ask(1, page=page.page, paging=page.paging, page_bytes=PAGE_BYTES)
        bench.settle()
        (page,) = channel_pages(bench.take())
    bench.send("b", headers=HIGH)
    bench.settle()
    items = bench.take()
    assert channel_pages(items) == []
    assert [one.urgent for one in channel_fan_outs(items)] == [True]


def test_who_wants_channels_in_order_has_pages_in_order() -> None:
    bench = ChannelsBench()
    first = behind(bench, in_order=True)
    bench.send("b", headers=HIGH)
    bench.settle()
    assert ahead(bench) == []
    bench.ask(1, page=1, paging=first.paging, page_bytes=PAGE_BYTES)
    bench.settle()
    (second,) = channel_pages(bench.take())
    assert told_of(second) == [("a", 3), ("a", 4), ("b", 5)]
    assert not second.urgent


def test_what_has_left_memory_is_of_high_priority_no_more() -> None:
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=2)))
    bench.send("a", LARGE)
    bench.send("b", headers=HIGH)
    bench.send("a", LARGE)
    bench.settle()
    bench.open([text("a"), text("b")], [channel(name, since=wire_pb2.SINCE_OLDEST) for name in "ab"])
    bench.settle()
    (page,) = channel_pages(bench.take())
    assert told_of(page) == [("b", 1), ("a", 0), ("a", 2)]
    bench.send("a", LARGE)
    bench.open([text("a"), text("b")], [channel(name, since=wire_pb2.SINCE_OLDEST) for name in "ab"],
               session=2, client="client-2")  # fmt: skip
    bench.settle()
    (page,) = channel_pages(bench.take())
    assert told_of(page) == [("a", 0), ("b", 1), ("a", 2), ("a", 3)]


def test_a_takeover_tells_it_like_all_others() -> None:
    bench = ChannelsBench()
    bench.send("a")
    bench.send("b", headers=HIGH)
    bench.settle()
    bench.take_over()
    bench.open([text("a"), text("b")], [channel(name, since=wire_pb2.SINCE_OLDEST) for name in "ab"])
    bench.settle()
    (page,) = channel_pages(bench.take())
    assert told_of(page) == [("a", 0), ("b", 1)]


def test_what_cannot_be_read_is_told_as_missed_behind_what_was_told_last() -> None:
    """Also where blocks without messages of the channel were passed before: of their offsets no client has heard."""
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=1)), block_records=2)
    for name in ("a", "b", "b", "b", "a", "b", "a"):
        bench.send(name)
    bench.settle()
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_POSITION, at=0)])
    bench.handle()
    while wanted := bench.engine.channels.wanted_blocks():
        (_, start) = wanted[0]
        bench.read_block(start, unreadable=start == 4)
    bench.step()

    assert bench.blocks_read == [0, 2, 4]
    (page,) = channel_pages(bench.take())
    assert [entry_of(entry) for entry in page.entries] == [("UNREADABLE", 0, 6), (6, 5)]


def test_a_repeat_is_told_if_retention_has_removed_its_original() -> None:
    bench = ChannelsBench()
    live(bench, "a")
    bench.send("a", headers=MessageHeaders(id="i"))
    bench.settle()
    bench.take()
    bench.remove_below(1)
    bench.engine.channels.on_log_start(bench.retention, bench.log_start)
    bench.send("a", headers=MessageHeaders(id="i"))
    bench.send("a", headers=MessageHeaders(id="i"))
    bench.settle()

    assert [said.entry.message.offset for said in channel_fan_outs(bench.take())] == [1]


@pytest.mark.parametrize("behind", [0, 3 * BLOCK_OFFSETS])
def test_a_repeat_is_told_if_its_original_is_missed_and_the_removal_was_noticed_late(behind: int) -> None:
    """`behind`: so many offsets lie between the repeat and the log's end."""
    bench = ChannelsBench()
    for name in ("a", "b", "b"):
        bench.send(name, headers=MessageHeaders(id=name if name == "a" else ""))
    bench.read()
    bench.remove_below(2)
    bench.send("a", headers=MessageHeaders(id="a"))
    bench.send("b", gap=behind)
    bench.read()
    bench.engine.channels.on_log_start(bench.retention, bench.log_start)
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_BEGINNING)])
    bench.settle()

    (page,) = channel_pages(bench.take())
    assert [entry_of(entry) for entry in page.entries] == [("RETENTION", None, 2), (3, 1)]
    assert page.last
