"""Places of registered queries: who is there stays, who comes new may be refused, and no domain has all of them."""

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.interests.by_query.query import query_of
from coldnotify_matcher.engine.interests.by_query.query_places import PlacesMax, QueryPlaces, TakenPlaces, share_of
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.engine_bench import (
    EPOCH,
    GATEWAY,
    INBOX,
    PARTITION,
    PARTITIONS,
    EngineBench,
    pages,
    query_interest,
)

MINE, OTHERS = "animal.observer/region-1", "stranger.domain/g"
STRANGER = "stranger.domain"
GROUP_OF_STRANGERS = next(g for n in range(100) if partition_of(STRANGER, g := f"g{n}", PARTITIONS) == PARTITION)


class Places(QueryPlaces):
    """Those of a partition with these limits."""

    def __init__(self, most: PlacesMax) -> None:
        super().__init__()
        self.most = most


def add(places: Places, group: str, text: str) -> str:
    """Registers, if there is room; else why there is none."""
    query, hash_ = query_of(text), query_hash(text)
    reason = places.why_no_room(group, hash_, query, places.most)
    if not reason:
        places.add(group, hash_, text)
        places.price(group, hash_, query)
    return reason


def test_a_domain_has_at_most_half_of_what_the_others_leave() -> None:
    assert [share_of(20, others) for others in (0, 10, 15, 18, 19, 20, 30)] == [10, 5, 2, 1, 0, 0, 0]
    places = Places(PlacesMax(places=8))
    reasons = [add(places, OTHERS, f"a = {number}") for number in range(6)]
    assert reasons[:4] == [""] * 4
    assert reasons[4] == (
        "stranger.domain has 4 different queries in its partition (at most 4 are allowed, while others have 0)"
    )
    assert [bool(add(places, MINE, f"a = {number}")) for number in range(3)] == [False, False, True]
    assert not add(places, "third.domain/g", "a = 1"), "there is always some left"
    assert places.taken.places == 7


def test_the_same_query_of_another_client_has_its_place() -> None:
    places = Places(PlacesMax(places=2))
    assert not add(places, MINE, "HAS a")
    assert not add(places, MINE, "HAS a")
    assert add(places, MINE, "HAS b")
    assert add(places, "animal.observer/region-2", "HAS a"), "in another group it is another one"
    places.remove(MINE, query_hash("HAS a"))
    assert add(places, MINE, "HAS b")
    places.remove(MINE, query_hash("HAS a"))
    assert not add(places, MINE, "HAS b")
    places.remove(MINE, query_hash("HAS b"))
    assert (places.taken, places._places, places._by_domain) == (TakenPlaces(), {}, {})


def test_bytes_are_bounded() -> None:
    large = " OR ".join(f"a = {number}" for number in range(100))
    places = Places(PlacesMax(size_bytes=1_000_000))
    numbers = range(30)
    reasons = [add(places, OTHERS, f"({large}) AND b = {number}") for number in numbers]
    assert reasons[0] == ""
    assert "KiB of memory in its partition, this one takes" in reasons[-1]
    assert places.taken.size_bytes <= 500_000
    assert not add(places, MINE, "HAS a")


def test_the_work_of_regular_expressions_is_bounded() -> None:
    places = Places(PlacesMax(steps=3000))
    assert not add(places, OTHERS, 'NAME LIKE "((a|b|ab|aa){0,30}){8}c"')
    reason = add(places, OTHERS, 'NAME LIKE "((a|b|ab|aa){0,30}){8}d"')
    assert reason == (
        "stranger.domain has regular expressions of 965 steps in its partition, this one takes 965 steps "
        "(at most 1500 steps are allowed, while others have 0)"
    )
    assert not add(places, OTHERS, "HAS a"), "it has none"


def test_what_was_loaded_keeps_its_place_and_is_priced_once_it_is_known() -> None:
    places = Places(PlacesMax(places=2))
    for number in range(5):
        places.add(OTHERS, query_hash(f"a = {number}"), f"a = {number}")
    assert places.taken == TakenPlaces(5, 5 * (4096 + 16 * 5), 0)
    assert not add(places, OTHERS, "a = 1"), "it is there"
    assert add(places, OTHERS, "a = 9")
    assert add(places, MINE, "a = 9"), "nothing is left, and nothing that is there is taken"
    before = places.taken.size_bytes
    places.price(OTHERS, query_hash("a = 2"), query_of("a = 2"))
    assert places.taken.size_bytes != before
    for number in (1, *range(5)):
        places.remove(OTHERS, query_hash(f"a = {number}"))
    assert places.taken == TakenPlaces(0, 0, 0)


# --- in an engine: what a client hears


def open_with(bench: EngineBench, text: str, session: int, *, registered: bool) -> None:
    queries = [] if registered else [query_interest(text)]
    open_ = internal_pb2.Open(
        digest=query_hash(text), interests=queries, epoch=EPOCH, ask=1, cursor=0 if registered else None
    )
    bench.request(session, open=open_)


def strangers(bench: EngineBench, count: int, *, first: int = 0) -> None:
    """So many clients of another domain, with two queries each that nobody else has."""
    for number in range(first, first + count):
        texts = [f"a = {number}.{which}" for which in (0, 1)]
        request = internal_pb2.Request(
            format=1, gateway=GATEWAY, inbox=INBOX[GATEWAY], session=1000 + number, domain=STRANGER,
            group=GROUP_OF_STRANGERS, client=f"c{number}",
            open=internal_pb2.Open(
                digest=sum(map(query_hash, texts)) % MODULUS,
                interests=[query_interest(text) for text in texts], epoch=EPOCH, ask=1,
            ),
        )  # fmt: skip
        bench.log.requests.append(request)
    bench.settle()


@pytest.mark.parametrize("successor", [False, True], ids=["the same matcher", "a successor"])
def test_a_sleeping_clients_query_keeps_its_place_while_strangers_fill_the_partition(successor: bool) -> None:
    bench = EngineBench()
    bench.engine.state.rules = Rules(query_places=PlacesMax(places=20))
    bench.version("x", 1)
    open_with(bench, 'HAS a OR NAME = "x"', 1, registered=False)
    bench.settle()
    bench.leave()
    bench.settle()
    strangers(bench, 30)
    bench.tick(1)
    bench.tick(400_000)  # the sleeping client's set is idle, and is dropped
    bench.tick(400_000)
    if successor:
        bench.load()
        bench.engine.state.rules = Rules(query_places=PlacesMax(places=0))
    bench.told.clear()
    open_with(bench, 'HAS a OR NAME = "x"', 2, registered=True)
    bench.settle()
    said = [page for page in pages(bench.items()) if page.page]
    assert not any(page.refused for page in said)
    assert said[-1].last
    client = bench.engine.state.clients[f"{MINE}/client-1"]
    assert list(client.queries) == [query_hash('HAS a OR NAME = "x"')]
    assert client.queries.settled
    assert client.queries.members() == 1


def test_strangers_who_come_new_are_refused_by_a_limit_of_their_domain() -> None:
    bench = EngineBench()
    bench.engine.state.rules = Rules(query_places=PlacesMax(places=20))
    strangers(bench, 8)
    refused = [refusal for item in bench.items() for refusal in item.opened.refused]
    assert len(refused) == 6
    assert {refusal.reason for refusal in refused} == {
        "query: stranger.domain has 10 different queries in its partition (at most 10 are allowed, while others have 0)"
    }
    bench.told.clear()
    open_with(bench, "HAS a", 1, registered=False)
    bench.settle()
    assert not any(item.opened.refused for item in bench.items())
