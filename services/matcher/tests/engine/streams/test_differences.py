"""The two streams of a session are one machine. What is not the same in them is here, each by name.

Their waits (10 s or 60 s) and the link's measurement live in the gateway.
"""

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import NO_HEADERS
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.digest import MODULUS, object_digest
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.channels_bench import ChannelsBench, channel, channel_pages, hash_of, text
from coldnotify_testkit.engine_bench import EPOCH, PREFIX, EngineBench, opened, pages, query_interest

TEXT = "has a"
QUERY = query_hash(TEXT)


def kinds(bench: ChannelsBench) -> list[str | None]:
    return [item.WhichOneof("item") for item in bench.take()]


def with_a_channel() -> ChannelsBench:
    bench = ChannelsBench()
    bench.send("a")
    bench.open([text("a")], [channel("a")])
    bench.settle()
    bench.take()
    return bench


def test_the_last_page_of_objects_says_that_the_other_stream_lacks_nothing_and_no_item_more_comes() -> None:
    bench = with_a_channel()
    bench.open([text("a")], session=2, ask=7, cursor=0)
    bench.settle()
    closed, opened_, page = bench.take()
    assert [one.WhichOneof("item") for one in (closed, opened_, page)] == ["closed", "opened", "page"]
    assert (page.page.last, page.page.streams[0].ask, page.page.streams[0].complete) == (True, 7, 0)


def test_a_stream_of_another_log_whose_places_only_the_client_knows_is_closed_and_objects_are_told_anew() -> None:
    bench = with_a_channel()
    bench.request(catch_up=internal_pb2.CatchUp(ask=2, cursor=5, epoch=EPOCH + 1))
    bench.settle()
    assert kinds(bench) == ["page"]
    bench.request(stream_catch_up=internal_pb2.CatchUp(ask=2, cursor=0, epoch=bench.epoch + 1))
    bench.settle()
    (item,) = bench.take()
    assert item.closed.code == CloseCode.UNKNOWN_SESSION


def test_that_the_digests_differ_is_of_the_session_and_pauses_both_streams() -> None:
    bench = with_a_channel()
    bench.request(check_digest=internal_pb2.CheckDigest(digest=1, ask=9))
    bench.settle()
    session = bench.engine.state.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert session.channels is not None
    assert (session.in_sync, session.objects.live, session.channels.live) == (False, False, False)
    bench.ask(9, cursor=0)
    bench.settle()
    assert channel_pages(bench.take()) == []


def test_a_message_of_high_priority_is_told_ahead_of_a_page_that_is_on_its_way() -> None:
    """In order within its channel; it moves nothing. Objects have no order to keep: an urgent one is told at once."""
    bench = ChannelsBench()
    for _ in range(3):
        bench.send("a", b"x" * 450)
    bench.open([text("a")], [channel("a", since=wire_pb2.SINCE_OLDEST)], page_bytes=1024)
    bench.settle()
    (page,) = channel_pages(bench.take())
    bench.send("a", b"soon", NO_HEADERS._replace(high_priority=True))
    bench.settle()
    (ahead,) = channel_pages(bench.take())
    assert (page.last, (ahead.kind == internal_pb2.PAGE_AHEAD), ahead.HasField("complete")) == (False, True, False)
    assert [entry.message.offset for entry in ahead.entries] == [2, 3]


def test_answers_are_told_in_pages_of_objects_alone() -> None:
    bench = with_a_channel()
    bench.request(register=wire_pb2.Register(request=1, interests=[query_interest(TEXT)]))
    bench.ask(2, cursor=0)
    bench.settle()
    (page,) = channel_pages(bench.take())
    assert page.last
    session = bench.engine.state.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert list(session.answers.owed) == [QUERY]
    assert not hasattr(session.channels, "answers")
    bench.request(catch_up=internal_pb2.CatchUp(ask=2, epoch=EPOCH))
    bench.settle()
    assert [list(page.answered) for page in pages(bench.take())] == [[], [QUERY]], "the first waits for the set"


def test_the_number_of_what_is_asked_of_objects_is_that_of_open_and_check_too() -> None:
    bench = with_a_channel()
    session = bench.engine.state.clients[f"{PREFIX}client-1"].session
    assert session is not None
    assert session.channels is not None
    bench.request(check_digest=internal_pb2.CheckDigest(digest=hash_of("a"), ask=9))
    bench.settle()
    assert (session.objects.ask, session.channels.ask) == (9, 1)
    assert [one.ask for one in opened(bench.take())] == [9]


def test_a_page_of_objects_has_answers_then_sets_and_then_what_lacks_by_offset() -> None:
    bench = EngineBench()
    bench.version("old", 1)
    bench.describe("member", b'{"description":{"a":1}}', timestamp_ms=1)
    bench.version("new", 1)
    bench.settle()
    before = bench.engine.state.position - 2
    wanted = sum(map(object_digest, ("old", "new"))) + QUERY
    bench.request(
        1,
        open=internal_pb2.Open(
            digest=wanted % MODULUS, register=["old", "new"], interests=[query_interest(TEXT)], epoch=EPOCH,
            ask=1,
            cursor=before,
        ),
    )  # fmt: skip
    bench.settle()
    page = pages(bench.items())[-1]
    assert [newest.name for newest in page.newest] == ["old", "member", "new"]
