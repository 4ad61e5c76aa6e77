"""What passing time alone does: gateways that fall silent lose their sessions, old cursors are stored."""

import msgspec
from coldnotify_matcher.engine.upkeep.upkeep import GATEWAY_SILENCE_MS_MAX, STORE_CURSORS_EVERY_MS
from coldnotify_schemas.matcher_state import SessionRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    GATEWAY,
    OTHER_GATEWAY,
    PREFIX,
    EngineBench,
    fan_outs,
    kinds,
)

TOPICS = TopicNames()


def record_of(bench: EngineBench, client: str = "client-1") -> SessionRecord:
    return msgspec.json.decode(bench.latest(TOPICS.sessions)[PREFIX + client], type=SessionRecord)


def test_cursors_are_stored_every_30_s() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.version("a", 1)
    bench.acks({1: 0})
    assert bench.settle().state == []
    for _ in range(3):
        bench.beat(1)
        assert bench.tick(STORE_CURSORS_EVERY_MS // 3 - 1).state == []
    bench.beat(1)

    (write,) = bench.tick(10).state

    assert write.topic == TOPICS.sessions
    assert record_of(bench).cursor == 0
    assert bench.tick(10_000).state == [], "once is enough"


def test_a_gateway_that_falls_silent_loses_its_sessions() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.opened("a", session=2, client="client-2", gateway=OTHER_GATEWAY)
    bench.now_ms += GATEWAY_SILENCE_MS_MAX
    bench.beat(2, gateway=OTHER_GATEWAY)
    bench.settle()
    bench.tick(1)
    bench.told.clear()

    bench.version("a", 1)

    assert fan_outs(bench.items()) == []
    assert fan_outs(bench.told[OTHER_GATEWAY].items) == [("a", 1, 0, [2])]
    assert not record_of(bench).online
    bench.beat(1)
    assert not bench.items()[0].beat.agreed


def test_a_gateway_that_is_heard_in_time_keeps_them() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.tick(GATEWAY_SILENCE_MS_MAX)

    assert bench.engine.state.clients[f"{PREFIX}client-1"].session is not None


def test_sessions_of_a_gateway_that_was_silent_are_announced_and_live_again_told_once() -> None:
    bench = EngineBench()
    bench.opened("a", "b")
    bench.tick(GATEWAY_SILENCE_MS_MAX + 1)
    bench.open(["a"], unregister=["b"], again=True)
    numbers = [record.number for record in bench.told[GATEWAY].records]
    items = bench.items()
    assert kinds(items) == ["opened", "page"]
    assert [record.number for record in bench.told[GATEWAY].records][-1] == numbers[-1] + 1, "its numbers go on"

    bench.version("a", 1)
    bench.version("b", 1)

    assert fan_outs(bench.items()) == [("a", 1, 0, [1])]
