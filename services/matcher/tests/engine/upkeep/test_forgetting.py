"""Garbage collection: who is forgotten and who never, what is left of it, so many a tick, and a crash in its middle.

Stands for: forgetting, rules
"""

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.gateways.gateways import RETIRED_KEPT_MS
from coldnotify_matcher.engine.upkeep import forgetting
from coldnotify_matcher.engine.upkeep.forgetting import FLEETING_FORGOTTEN_AFTER_MS
from coldnotify_schemas.digest import digest
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import GATEWAY, PREFIX, EngineBench, fan_outs, opened, pages, versions

TOPICS = TopicNames()

DAY_MS = 86_400_000
AFTER_MS = 180 * DAY_MS
NAMES = [f"o{i}" for i in range(100)]
"""Two buckets."""
STATE_TOPICS = (TOPICS.registrations, TOPICS.sessions)


@pytest.fixture
def bench() -> EngineBench:
    return EngineBench(rules=Rules(forgotten_after_ms=AFTER_MS))


def offline(bench: EngineBench, *names: str, client: str = "client-1", session: int = 1) -> None:
    """A client that registered for these and left."""
    bench.opened(*names, client=client, session=session)
    bench.leave(client=client, session=session)
    bench.settle()


def stored(bench: EngineBench, client: str = "client-1") -> set[str]:
    """Keys of the records that compaction leaves of a client."""
    key = PREFIX + client
    return {k for topic in STATE_TOPICS for k in bench.latest(topic) if k == key or k.startswith(key + "/")}


def test_a_client_not_seen_for_so_long_is_unregistered_and_nothing_is_left_of_it(bench: EngineBench) -> None:
    bench.version("o1", 3)
    offline(bench, *NAMES)
    offline(bench, "o1", client="client-2", session=2)
    bench.tick(AFTER_MS - DAY_MS)
    bench.open(["o1"], client="client-2", session=3)
    bench.settle()
    assert len(stored(bench)) == 3

    bench.tick(DAY_MS)

    assert bench.engine.state.counts["forgotten"] == 1
    assert stored(bench) == set()
    assert set(bench.engine.state.clients) == {f"{PREFIX}client-2"}
    assert set(bench.engine.state.objects) == {f"{PREFIX}o1"}, "the others were never published, and nobody wants them"
    assert bench.engine.state.objects[f"{PREFIX}o1"].registered == 1
    bench.load()
    assert set(bench.engine.state.clients) == {f"{PREFIX}client-2"}


LOOKS = f"look.{'0123456789abcdef' * 2}"[:29]


@pytest.mark.parametrize("after_ms", [0, AFTER_MS, 60_000])
@pytest.mark.parametrize(("client", "names"), [("client-1", ()), (LOOKS, ("a",))], ids=["wants nothing", "looked"])
def test_who_has_nothing_to_lose_is_forgotten_within_minutes(
    after_ms: int, client: str, names: tuple[str, ...]
) -> None:
    bench = EngineBench(rules=Rules(forgotten_after_ms=after_ms))
    offline(bench, "a", client="stays")
    bench.opened("a", client=client, session=2)
    if not names:
        bench.unregister("a", client=client, session=2)
    bench.leave(client=client, session=2)
    bench.settle()
    bench.tick(59_000)
    assert stored(bench, client)

    bench.tick(FLEETING_FORGOTTEN_AFTER_MS - 59_000)

    assert not stored(bench, client)
    assert after_ms == 60_000 or stored(bench, "stays")
    assert f"{PREFIX}{client}" not in bench.engine.state.clients


@pytest.mark.parametrize("client", ["look.me", "look." + "x" * 24, LOOKS.upper()])
def test_who_is_only_named_like_a_page_is_kept(client: str) -> None:
    bench = EngineBench()
    offline(bench, "a", client=client)

    bench.tick(AFTER_MS)

    assert stored(bench, client)


def test_a_day_early_it_is_kept(bench: EngineBench) -> None:
    offline(bench, "a")

    bench.tick(AFTER_MS - 1)

    assert len(stored(bench)) == 2


def test_0_is_never() -> None:
    bench = EngineBench()
    offline(bench, "a")

    bench.tick(1000 * AFTER_MS)

    assert len(stored(bench)) == 2


def test_a_client_that_is_online_is_never_collected_however_long_it_is_silent(bench: EngineBench) -> None:
    bench.opened("a")
    for _ in range(20):
        bench.now_ms += AFTER_MS // 10
        bench.beat(1)
        bench.settle()
        bench.tick(1000)

    assert len(stored(bench)) == 2
    assert bench.version("a", 1) is not None
    assert [name for name, *_ in fan_outs(bench.items())] == ["a"]


def test_of_a_silent_client_the_time_begins_when_its_gateway_dies(bench: EngineBench) -> None:
    bench.opened("a")
    bench.now_ms += 2 * AFTER_MS
    bench.beat(1)
    bench.settle()

    bench.tick(60_000)
    assert bench.engine.state.clients[f"{PREFIX}client-1"].session is None
    bench.tick(AFTER_MS - 61_000)
    assert len(stored(bench)) == 2
    bench.tick(1_000)

    assert stored(bench) == set()


def test_a_collected_client_that_comes_back_is_made_whole_by_reg_sync(bench: EngineBench) -> None:
    bench.version("a", 7)
    offline(bench, "a", "b")
    bench.tick(AFTER_MS)
    bench.told.clear()

    bench.open(["a", "b"], cursor=0, session=2)
    (told,) = opened(bench.items())
    assert not told.in_sync
    bench.sync(0, "a", "b", last=True, session=2)

    items = bench.items()
    (told,) = opened(items)
    assert (told.in_sync, told.digest) == (True, digest(["a", "b"]))
    assert sorted(versions(pages(items)[0].newest)) == [("a", 7), ("b", None)]
    assert len(stored(bench)) == 2, "its own null, read back, does not take away what it has written since"
    bench.load()
    assert bench.engine.state.clients[f"{PREFIX}client-1"].digest == digest(["a", "b"])


def test_coming_back_in_the_very_step_in_which_it_is_forgotten(bench: EngineBench) -> None:
    offline(bench, "a")
    bench.now_ms += AFTER_MS
    bench.engine.on_tick(bench.now_ms)
    bench.open(["a"], register=["a"], session=2)
    step = bench.step()
    bench.make_durable(step)

    assert step.tombstones == []
    assert len(stored(bench)) == 2
    assert bench.engine.state.clients[f"{PREFIX}client-1"].session is not None


@pytest.mark.parametrize("records_a_tick", [1, 6])
def test_so_many_records_a_tick(bench: EngineBench, monkeypatch: pytest.MonkeyPatch, records_a_tick: int) -> None:
    monkeypatch.setattr(forgetting, "RECORDS_A_TICK_MAX", records_a_tick)
    for number in range(1, 8):
        offline(bench, "a", client=f"client-{number}", session=number)

    bench.tick(AFTER_MS)
    a_tick = 7 - len(bench.engine.state.clients)
    assert a_tick == max(1, records_a_tick // 2)
    for _ in range(7):
        bench.tick(1000)

    assert bench.engine.state.clients == {}
    assert not any(stored(bench, f"client-{number}") for number in range(1, 8))


def test_so_many_clients_looked_at_a_tick_and_all_in_turn(bench: EngineBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forgetting, "LOOKED_AT_A_TICK_MAX", 3)
    bench.opened("a", client="online", session=100)
    for number in range(1, 8):
        offline(bench, "a", client=f"client-{number}", session=number)
    bench.now_ms += AFTER_MS

    for left in (5, 2, 1):
        bench.beat(100)
        bench.settle()
        bench.tick(1000)
        assert len(bench.engine.state.clients) == left, "eight clients, one of them online, three a tick"


def test_a_clock_that_goes_back_collects_nobody(bench: EngineBench) -> None:
    offline(bench, "a")

    bench.tick(-10 * AFTER_MS)

    assert len(stored(bench)) == 2


def test_without_its_session_record_a_clients_time_begins_anew(bench: EngineBench) -> None:
    """The sessions topic was deleted: not all clients were last seen in 1970."""
    offline(bench, "a")
    bench.log.records[TOPICS.sessions].clear()
    bench.load()

    bench.tick(1000)
    assert len(stored(bench)) == 2, "stored, so that another load does not begin it once more"
    bench.load()
    bench.tick(AFTER_MS - 1000)
    assert len(stored(bench)) == 2
    bench.tick(1000)

    assert stored(bench) == set()


@pytest.mark.parametrize("lost", range(6))
def test_a_crash_in_the_middle_of_collecting(bench: EngineBench, lost: int) -> None:
    """The next owner collects what is left; whoever comes back in between is made whole."""
    bench.version("o1", 5)
    offline(bench, *NAMES)
    offline(bench, "o1", client="client-2", session=2)
    bench.now_ms += AFTER_MS
    bench.engine.on_tick(bench.now_ms)
    step = bench.step()
    assert len(step.state) + len(step.tombstones) == 5
    bench.make_durable(step, lost, len(step.inboxes))

    bench.load()
    for client in bench.engine.state.clients.values():
        assert client.last_seen_ms < bench.now_ms, "whose registrations are there, of him it is known when he was seen"
    bench.open(NAMES, client="client-1", session=3)
    if not opened(bench.items())[-1].in_sync:
        for index in range(0, 100, 50):
            bench.sync(index // 50, *NAMES[index : index + 50], last=index == 50, session=3)
    bench.settle()
    bench.tick(1000)

    assert set(bench.engine.state.clients) == {f"{PREFIX}client-1"}
    assert stored(bench, "client-2") == set()
    assert bench.engine.state.clients[f"{PREFIX}client-1"].digest == digest(NAMES)
    bench.load()
    assert bench.engine.state.clients[f"{PREFIX}client-1"].digest == digest(NAMES)
    bench.version("o1", 6)
    assert [(name, version) for name, version, *_ in fan_outs(bench.items())] == [("o1", 6)]


def test_a_zombies_record_of_a_forgotten_client_does_not_bring_it_back(bench: EngineBench) -> None:
    offline(bench, "a")
    of_before = {topic: dict(bench.latest(topic)) for topic in STATE_TOPICS}
    bench.load()
    bench.tick(AFTER_MS)

    for topic, records in of_before.items():
        for key, value in records.items():
            if key.startswith(PREFIX):
                bench.log.append(topic, key.encode(), value)
    bench.settle()

    assert stored(bench) == set()


def test_a_late_request_of_a_forgotten_session_is_told_that_it_is_not_known(bench: EngineBench) -> None:
    offline(bench, "a")
    bench.tick(AFTER_MS)
    assert AFTER_MS > RETIRED_KEPT_MS
    bench.told.clear()

    bench.register("b")

    assert [item.WhichOneof("item") for item in bench.items(GATEWAY)] == ["closed"]
    assert stored(bench) == set()
