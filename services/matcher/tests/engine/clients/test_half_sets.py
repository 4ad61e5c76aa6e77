"""What is in of reg-syncs that are not whole: bounded in all, whoever begins one, and who means it gets through."""

from sys import getsizeof

from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.clients.half_sets import STALLED_MS
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import digest
from coldnotify_testkit.engine_bench import OTHER_GATEWAY, PREFIX, EngineBench, opened

CHUNK = tuple(f"{i:0255}" for i in range(64))
CHUNK_BYTES = sum(map(getsizeof, CHUNK)) + 8 * len(CHUNK)
BYTES_MAX = 10 * CHUNK_BYTES


def bench_of_ten_chunks() -> EngineBench:
    return EngineBench(rules=Rules(half_sets_bytes_max=BYTES_MAX))


def begin(bench: EngineBench, session: int, chunks: int) -> None:
    """A client that lacks something says so many chunks of its set."""
    bench.open(["x"], session=session, client=f"client-{session}")
    for index in range(chunks):
        bench.sync(index, *CHUNK, session=session, client=f"client-{session}")
    bench.settle()


def chunks_in(bench: EngineBench) -> dict[int, int]:
    """By session, the chunks that are held."""
    sessions = [client.session for client in bench.engine.state.clients.values()]
    chunks = bench.engine.state.half_sets.chunks
    return {session.number: chunks(session) for session in sessions if session and chunks(session)}


def test_whoever_begins_sets_and_never_ends_them_the_sum_stays_in_bounds() -> None:
    bench = bench_of_ten_chunks()
    for session in range(1, 101):
        begin(bench, session, 3)
        assert bench.engine.state.half_sets.size_bytes == CHUNK_BYTES * sum(chunks_in(bench).values()) <= BYTES_MAX
    assert bench.engine.state.counts["half_sets_dropped"] >= 97


def test_the_largest_is_dropped_and_of_like_ones_the_one_that_waits_longest() -> None:
    bench = bench_of_ten_chunks()
    begin(bench, 1, 1)
    begin(bench, 2, 4)
    begin(bench, 3, 4)
    bench.settle()
    begin(bench, 4, 2)  # one too many
    assert chunks_in(bench) == {1: 1, 3: 4, 4: 2}
    bench.sync(1, *CHUNK, session=1, client="client-1")
    begin(bench, 5, 2)
    assert chunks_in(bench) == {1: 2, 3: 4, 4: 2, 5: 2}


def test_who_means_it_gets_through_however_many_do_not_go_on() -> None:
    bench = bench_of_ten_chunks()
    for session in range(1, 6):
        begin(bench, session, 2)
    assert bench.engine.state.half_sets.size_bytes == BYTES_MAX
    bench.now_ms += STALLED_MS
    begin(bench, 9, 7)
    assert chunks_in(bench) == {5: 2, 9: 7}
    bench.sync(7, "last", last=True, session=9, client="client-9")

    told = opened(bench.items())[-1]

    assert told.session == 9
    assert told.in_sync
    assert told.digest == digest([*CHUNK, "last"])
    assert bench.engine.state.clients[f"{PREFIX}client-9"].registered == len(CHUNK) + 1


def test_of_many_at_once_some_get_through_and_with_their_second_and_third_tries_all() -> None:
    bench = bench_of_ten_chunks()
    clients = {session: f"client-{session}" for session in range(1, 21)}
    for session, client in clients.items():
        bench.open(["x"], session=session, client=client)
    bench.items()
    rounds = 0
    while clients:
        rounds += 1
        assert rounds < 20
        for index in range(5):
            for session, client in clients.items():
                bench.sync(index, *CHUNK, session=session, client=client, last=index == 4)
        in_sync = [told.session for told in opened(bench.items()) if told.in_sync]
        assert in_sync
        for session in in_sync:
            del clients[session]


def test_whose_set_was_dropped_is_told_at_the_last_chunk_and_its_second_try_counts() -> None:
    bench = bench_of_ten_chunks()
    begin(bench, 1, 6)
    begin(bench, 2, 6)
    assert chunks_in(bench) == {2: 6}
    bench.items()
    bench.sync(6, *CHUNK)
    assert not bench.items(), "it is told once"
    bench.sync(7, last=True)
    (told,) = opened(bench.items())
    assert not told.in_sync

    bench.sync(0, *CHUNK)
    bench.sync(1, "a", last=True)
    assert opened(bench.items())[-1].digest == digest([*CHUNK, "a"])


def test_a_set_of_one_chunk_is_never_dropped() -> None:
    bench = EngineBench(rules=Rules(half_sets_bytes_max=0))
    bench.open(["x"])
    bench.sync(0, *CHUNK, last=True)
    assert opened(bench.items())[-1].in_sync


def test_nothing_is_counted_of_a_set_that_is_over_however_it_ends() -> None:
    def leaves(bench: EngineBench) -> None:
        bench.request(leave=internal_pb2.Leave())

    def is_displaced(bench: EngineBench) -> None:
        bench.open(["x"], session=2, gateway=OTHER_GATEWAY)

    def opens_again(bench: EngineBench) -> None:
        bench.open(["x"], again=True)

    def begins_anew(bench: EngineBench) -> None:
        bench.sync(0)

    def leaves_a_gap(bench: EngineBench) -> None:
        bench.sync(7)

    def ends_it(bench: EngineBench) -> None:
        bench.sync(3, last=True)

    def compares(bench: EngineBench) -> None:
        bench.request(check_digest=internal_pb2.CheckDigest(digest=1, ask=2))

    for end in (leaves, is_displaced, opens_again, begins_anew, leaves_a_gap, ends_it, compares):
        bench = bench_of_ten_chunks()
        begin(bench, 1, 3)
        assert bench.engine.state.half_sets.size_bytes == 3 * CHUNK_BYTES
        end(bench)
        bench.settle()
        assert bench.engine.state.half_sets.size_bytes == 0, end.__name__


def test_of_a_gateway_that_is_dead_nothing_is_kept() -> None:
    bench = bench_of_ten_chunks()
    begin(bench, 1, 3)
    bench.tick(60_000)
    assert bench.engine.state.half_sets.size_bytes == 0
