"""What gateways ask about channels of clients that have none: nothing is waited for in vain."""

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.rules.channel_bounds import ChannelBounds
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_testkit.channels_bench import ChannelsBench, channel, channel_pages, entry_of, hash_of, text
from coldnotify_testkit.engine_bench import PREFIX, pages


def only_page(bench: ChannelsBench) -> internal_pb2.Page:
    (page,) = channel_pages(bench.take())
    return page


def unregister(bench: ChannelsBench) -> None:
    """A client of a channel wants it no more."""
    bench.send("a")
    bench.open([text("a")], [channel("a")])
    bench.settle()
    bench.request(unregister=wire_pb2.Unregister(request=1, interests=[hash_of("a")]))
    bench.settle()
    bench.take()


@pytest.mark.parametrize("again", [False, True])
def test_an_open_of_who_has_no_channel_any_more_ends_the_wait(again: bool) -> None:
    """Its Hello unregistered the last one, or its gateway announces a session that had one."""
    bench = ChannelsBench()
    unregister(bench)
    bench.open([], session=1 if again else 2, ask=7, cursor=0, again=again)
    bench.settle()
    page = only_page(bench)
    assert (page.ask, page.page, page.last, page.HasField("complete")) == (7, 1, True, False)


def test_an_open_that_unregisters_the_last_one_ends_the_wait() -> None:
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("a")], [channel("a")])
    bench.settle()
    bench.take()
    bench.open([], session=2, ask=7, cursor=0, unregister=[hash_of("a")])
    bench.settle()
    page = only_page(bench)
    assert (page.ask, page.page, page.last) == (7, 1, True)


def test_a_set_without_channels_ends_the_wait() -> None:
    """An announcement was not in sync, and its client said its set."""
    bench = ChannelsBench()
    unregister(bench)
    bench.open([text("b")], ask=7, cursor=0, again=True)
    bench.settle()
    assert channel_pages(bench.take()) == []
    bench.request(sync=wire_pb2.SyncChunk(last=True))
    bench.settle()
    page = only_page(bench)
    assert (page.ask, page.page, page.last) == (7, 1, True)


@pytest.mark.parametrize("asked", [0, 2])
def test_who_asks_for_pages_without_channels_has_the_last_one(asked: int) -> None:
    """The gateway asked before it knew that the last channel was unregistered."""
    bench = ChannelsBench()
    unregister(bench)
    bench.ask(7, page=asked, cursor=0)
    bench.settle()
    page = only_page(bench)
    assert (page.ask, page.page, page.last) == (7, asked + 1, True)


def test_a_channel_that_is_registered_later_is_caught_up_by_a_question_of_its_own() -> None:
    bench = ChannelsBench()
    unregister(bench)
    bench.ask(7, cursor=0)
    register = wire_pb2.Register(request=2, interests=[channel("b", since=wire_pb2.SINCE_POSITION, at=0)])
    bench.request(register=register)
    bench.send("b")
    bench.settle()
    kinds = [item.WhichOneof("item") for item in bench.take()]
    assert kinds == ["stream_page", "answered"], "first the end of what was asked for"
    bench.ask(8, cursor=0)
    bench.settle()
    page = only_page(bench)
    assert [entry.message.offset for entry in page.entries] == [1]


def test_a_successor_that_knows_channels_of_the_client_says_nothing_before_it_is_asked_anew() -> None:
    """It has loaded the registrations, and not yet where the client is."""
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)])
    bench.settle()
    bench.take_over()
    bench.take()
    bench.ask(7, cursor=0)
    bench.settle()
    assert channel_pages(bench.take()) == []


def waiting_for_a_set(bench: ChannelsBench) -> None:
    """A client is registered for another channel than it says."""
    bench.send("a")
    bench.open([text("a")], [channel("a")])
    bench.settle()
    bench.open([text("b")], session=2, ask=7, cursor=0)
    bench.settle()
    bench.take()


def set_of(*channels: wire_pb2.Interest) -> wire_pb2.SyncChunk:
    return wire_pb2.SyncChunk(last=True, interests=channels)


def test_a_set_answers_what_its_open_asked_though_the_last_channel_was_unregistered_between() -> None:
    """The Unregister was on its way when the Open was found not to be in sync."""
    bench = ChannelsBench()
    waiting_for_a_set(bench)
    bench.request(2, unregister=wire_pb2.Unregister(request=1, interests=[hash_of("a")]))
    bench.request(2, sync=set_of(channel("b")))
    bench.settle()
    (page,) = pages(bench.take())
    assert (page.streams[0].complete, page.streams[0].ask) == (0, 7)


def test_what_is_asked_while_the_digests_differ_is_answered_by_the_set() -> None:
    """Its connection was full, and is drained."""
    bench = ChannelsBench()
    waiting_for_a_set(bench)
    bench.ask(8, cursor=0, session=2)
    bench.request(2, sync=set_of(channel("b")))
    bench.settle()
    (page,) = pages(bench.take())
    assert (page.streams[0].complete, page.streams[0].ask) == (0, 8)


def test_the_next_page_that_is_asked_for_while_the_digests_differ_comes_with_the_set() -> None:
    """It begins where the set says, which may lie behind the cursor. Page 1 would be stale to the gateway."""
    bench = ChannelsBench()
    for _ in range(3):
        bench.send("a", b"x" * 900)
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)], page_bytes=1024)
    bench.settle()
    assert only_page(bench).page == 1
    bench.request(check_digest=internal_pb2.CheckDigest(digest=1, ask=2))
    bench.ask(1, page=1, cursor=0)
    bench.request(sync=set_of(channel("a", since=wire_pb2.SINCE_POSITION, at=0)))
    bench.settle()
    page = only_page(bench)
    assert (page.ask, page.page, [entry.message.offset for entry in page.entries]) == (1, 2, [1, 2])


def test_a_set_that_is_said_again_without_channels_waits_for_no_block() -> None:
    """The channel's block was waited for. As nothing it would be read for ever, before all that others wait for."""
    bench = ChannelsBench(rules=Rules(channel_bounds=ChannelBounds(tail_messages_max=1)))
    for _ in range(20):
        bench.send("a")
    bench.settle()
    bench.open([text("b")])
    since = channel("a", since=wire_pb2.SINCE_POSITION, at=8)
    for chunk in (set_of(since), wire_pb2.SyncChunk(last=True)):
        bench.request(sync=chunk)
    bench.handle()
    assert bench.engine.channels.wanted_blocks() == []
    assert bench.engine.next_due_ms() is None


def behind_by_three(bench: ChannelsBench) -> int:
    """A client has all of channel "b", and has page 1 of "a", which began behind its cursor. The paging."""
    for name in ("a", "a", "a", "b"):
        bench.send(name, b"x" * 900)
    bench.open([text("b")], [channel("b")], page_bytes=1024)
    bench.settle()
    register = wire_pb2.Register(request=1, interests=[channel("a", since=wire_pb2.SINCE_OLDEST)])
    bench.request(register=register)
    bench.ask(2, cursor=3, page_bytes=1024)
    bench.settle()
    page = only_page(bench)
    assert (page.page, page.last, [entry.message.offset for entry in page.entries]) == (1, False, [0])
    return page.paging


def test_what_a_last_page_had_is_told_again_to_who_has_not_taken_that_page() -> None:
    """Its gateway asked twice for page 2, as if the first question was lost. It took the answer to the first."""
    bench = ChannelsBench()
    paging = behind_by_three(bench)
    bench.ask(2, page=1, paging=paging, cursor=3, page_bytes=1024)
    bench.ask(2, page=1, paging=paging, cursor=3, page_bytes=1 << 16)
    bench.settle()
    first, second = channel_pages(bench.take())
    assert (first.page, first.last) == (second.page, not second.last) == (2, False)
    bench.ask(2, page=2, paging=first.paging, cursor=3)
    bench.settle()
    page = only_page(bench)
    assert page.last
    assert [entry.message.offset for entry in page.entries][-1:] == [2]


def test_a_loss_of_the_log_is_told_again_to_who_has_not_taken_the_last_page() -> None:
    bench = ChannelsBench()
    bench.send("a")
    since = channel("a", since=wire_pb2.SINCE_POSITION, at=9)
    bench.open([text("a")], [since], cursor=9, epoch=4)
    bench.settle()
    page = only_page(bench)
    assert [entry_of(entry) for entry in page.entries] == [("LOST", None, 0), (0, -1)]
    bench.ask(1)
    bench.settle()
    assert only_page(bench).entries == page.entries


def test_who_has_taken_the_last_page_is_told_nothing_again() -> None:
    """Its gateway asks by a new number, from where its client is."""
    bench = ChannelsBench()
    paging = behind_by_three(bench)
    bench.ask(2, page=1, paging=paging, cursor=3)
    bench.settle()
    assert only_page(bench).last
    bench.ask(3, cursor=3)
    bench.settle()
    page = only_page(bench)
    assert (page.last, len(page.entries)) == (True, 0)


def test_what_the_last_page_had_is_kept_until_its_client_has_applied_it() -> None:
    """A session may last for months, and have begun with thousands of channels."""
    bench = ChannelsBench()
    paging = behind_by_three(bench)
    bench.ask(2, page=1, paging=paging, cursor=3)
    bench.settle()
    session = bench.engine.state.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert session.channels is not None
    assert session.channels.positions.begun == {hash_of("a"): -1}
    bench.request(acks=internal_pb2.Acks(streams=[internal_pb2.AckedStream(sessions=[1], completes=[3])]))
    bench.settle()
    assert session.channels.positions.begun == {}


def test_a_page_of_channels_has_at_most_as_many_entries_as_its_gateway_asks_for() -> None:
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("a")], [channel("a")])
    bench.settle()
    for _ in range(3):
        bench.send("a")
    bench.settle()
    bench.take()
    bench.request(stream_catch_up=internal_pb2.CatchUp(ask=2, cursor=0, epoch=bench.epoch, entries_max=2))
    bench.settle()
    page = only_page(bench)
    assert ([entry_of(entry)[0] for entry in page.entries], page.last) == ([1, 2], False)
