"""Sessions of devices that keep nothing: what was kept is present or not, for how long, and whose it is.

Stands for: kept_cursors
"""

import json
from dataclasses import replace

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.clients.kept_cursors import STORE_EVERY_MS
from coldnotify_matcher.engine.inputs.kept_opening import KEPT, NATIVE
from coldnotify_matcher.engine.upkeep.upkeep import GATEWAY_SILENCE_MS_MAX
from coldnotify_schemas import internal_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.matcher_state import EXPIRY_NEVER
from coldnotify_testkit.engine_bench import GATEWAY, OTHER_GATEWAY, PREFIX, TOPICS, EngineBench, closed, opened
from coldnotify_testkit.kept_device import ALWAYS, HOUR_S, IF_NEW, NEVER, KeptDevice, KeptGateway, Said


def subscribed(
    bench: EngineBench, *filters: str, expiry_s: int = HOUR_S, clean: bool = False, options: int = ALWAYS
) -> KeptDevice:
    """A device that has subscribed, and has been told all."""
    gateway = KeptGateway(bench)
    device = gateway.device().connect(expiry_s=expiry_s, clean=clean)
    gateway.run()
    device.subscribe(*filters, options=options)
    gateway.run()
    device.take()
    return device


def stored(bench: EngineBench, device: KeptDevice) -> dict[str, object] | None:
    """Its session record."""
    value = bench.latest(TOPICS.sessions).get(f"{PREFIX}{device.name}")
    return None if value is None else json.loads(value)


def test_a_devices_filters_are_present_when_it_comes_back_also_at_a_successor() -> None:
    bench = EngineBench()
    device = KeptGateway(bench).device().connect()
    device.gateway.run()
    assert not device.is_present()
    device.subscribe("a/#", identifier=3)
    device.gateway.run()
    device.leave()
    for _ in range(2):
        device.connect()
        device.gateway.run()
        assert device.is_present()
        assert device.filters == {"a/#": (0, 3)}
        device.leave()
        bench.load()
    device.connect(clean=True)
    device.gateway.run()
    assert not device.is_present()
    assert device.filters == {}


def test_a_session_without_filters_is_present_too_while_it_is_kept() -> None:
    bench = EngineBench()
    device = subscribed(bench)
    device.leave()
    bench.load()
    device.connect()
    device.gateway.run()
    assert device.is_present()


def test_a_clean_session_begins_at_the_end_and_is_told_nothing_of_before() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#")
    device.leave()
    for name in ("a", "b"):
        bench.version(name, 1)
    device.connect(clean=True)
    device.gateway.run()
    assert device.complete == 1
    device.subscribe("b")
    device.gateway.run()
    assert device.take() == [Said("b", 1, 1, ("b",))]
    bench.load()
    device.gateway.run()
    bench.version("a", 2)
    bench.version("b", 2)
    device.gateway.run()
    assert device.take() == [Said("b", 2, 3)]


def test_a_clean_open_that_is_handled_again_forgets_nothing_that_came_after_it() -> None:
    bench = EngineBench()
    device = subscribed(bench, "old")
    device.leave()
    bench.settle()
    committed = bench.committed
    device.connect(clean=True)
    device.gateway.run()
    device.subscribe("new")
    device.gateway.run()
    bench.committed = committed
    bench.load()
    device.gateway.run()
    bench.version("new", 1)
    bench.version("old", 1)
    device.gateway.run()
    assert device.names() == ["new"]
    device.leave()
    device.connect()
    device.gateway.run()
    assert list(device.filters) == ["new"]


def test_a_clean_open_that_is_handled_again_leaves_the_cursor() -> None:
    bench = EngineBench()
    device = subscribed(bench, "old")
    device.leave()
    bench.settle()
    committed = bench.committed
    device.connect(clean=True)
    device.gateway.run()
    device.subscribe("new", options=IF_NEW)
    device.gateway.run()
    device.reads = False
    bench.version("new", 1)
    device.gateway.run()
    bench.committed = committed
    bench.load()
    device.gateway.run()
    device.leave()
    device.reads = True
    device.connect()
    device.gateway.run()
    assert device.names() == ["new"]


@pytest.mark.parametrize("comes_back", ["at once", "after a check"])
def test_a_session_record_that_is_ahead_of_its_filters_is_no_loss(comes_back: str) -> None:
    """A matcher dies in between: its successor handles the Open and the Register again."""
    bench = EngineBench()
    device = subscribed(bench, "a", options=IF_NEW)
    device.leave()
    bench.settle()
    committed = bench.committed
    device.connect()
    device.gateway.run()
    assert device.is_present()
    device.reads = False
    bench.version("a", 1)
    device.subscribe("b", options=IF_NEW)
    step = bench.step()
    assert {one.topic for one in step.state} == {TOPICS.registrations, TOPICS.sessions}
    bench.make_durable(replace(step, state=[one for one in step.state if one.topic == TOPICS.sessions], inboxes=[]))
    bench.handle_again(committed)
    if comes_back == "at once":
        device.leave()
    bench.load()
    if comes_back != "at once":
        device.gateway.run()
        device.leave()
    device.reads = True
    bench.version("b", 1)
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert set(device.filters) == {"a", "b"}
    assert set(device.names()) == {"a", "b"}


@pytest.mark.parametrize("lost", ["bucket", "session"])
def test_a_set_that_is_not_whole_is_not_present_and_goes_as_a_whole(lost: str) -> None:
    bench = EngineBench(rules=Rules(bucket_objects_max=1))
    device = subscribed(bench, "a", "b", "c")
    device.leave()
    bench.settle()
    topic, key = (
        (TOPICS.registrations, f"{PREFIX}{device.name}/1")
        if lost == "bucket"
        else (TOPICS.sessions, PREFIX + device.name)
    )
    bench.log.records[topic] = [one for one in bench.log.records[topic] if one.key != key.encode()]
    bench.load()
    device.connect()
    device.gateway.run()
    assert not device.is_present()
    assert device.filters == {}
    device.subscribe("b")
    device.gateway.run()
    bench.version("a", 1)
    bench.version("b", 1)
    device.gateway.run()
    assert device.take() == [Said("b", 1, 1)]
    device.leave()
    bench.load()
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert list(device.filters) == ["b"]


@pytest.mark.parametrize("dies", [False, True])
def test_a_lost_set_is_not_present_until_its_device_has_heard_so(dies: bool) -> None:
    bench = EngineBench(rules=Rules(bucket_objects_max=1))
    device = subscribed(bench, "a", "b")
    device.leave()
    bench.settle()
    gone = f"{PREFIX}{device.name}/1".encode()
    bench.log.records[TOPICS.registrations] = [
        one for one in bench.log.records[TOPICS.registrations] if one.key != gone
    ]
    bench.load()
    for _ in range(2):
        device.connect()
        device.leave()  # before the answer
        bench.settle()
        if dies:
            bench.load()
    device.connect()
    device.gateway.run()
    assert not device.is_present()
    device.subscribe("c")
    device.gateway.run()
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert list(device.filters) == ["c"]


def test_a_set_that_was_lost_while_its_session_lasts_is_sent_by_its_gateway_and_goes_on_at_its_place() -> None:
    bench = EngineBench()
    device = subscribed(bench, "a", "b/#")
    bench.version("a", 1)
    device.gateway.run()
    bench.settle()
    bench.log.records[TOPICS.registrations] = []
    bench.version("b/1", 1)
    bench.publish("a", b'{"version":2,"deleted":true}')
    bench.load()
    device.gateway.run()
    assert [(said.name, said.version) for said in device.told if not said.answers] == [
        ("a", 1),
        ("a", None),
    ]
    assert [said for said in device.told if said.answers] == [Said("b/1", 1, 1, ("b/#",))]
    assert device.live
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert set(device.filters) == {"a", "b/#"}


@pytest.mark.parametrize("handled_again", range(7))
@pytest.mark.parametrize("opened", [True, False])
@pytest.mark.parametrize("options", [ALWAYS, IF_NEW, NEVER])
def test_a_lost_session_record_costs_nothing_that_was_published_while_its_device_was_away(
    handled_again: int, opened: bool, options: int
) -> None:
    bench = EngineBench()
    device = subscribed(bench, "a", options=options)
    bench.version("a", 1)
    device.gateway.run()
    device.leave()
    bench.settle()
    bench.version("a", 2)
    device.connect()
    bench.settle()
    # The answer reaches the gateway, or does not; the page does not.
    device.gateway.hand_over([one for one in bench.items(GATEWAY) if opened and one.WhichOneof("item") == "opened"])
    bench.log.records[TOPICS.sessions] = []
    bench.handle_again((max(0, len(bench.log.requests) - handled_again), bench.committed[1]))
    bench.load()
    device.gateway.run()
    device.announce()  # where no request is handled again, the matcher does not know the session
    device.gateway.run()
    assert device.live
    assert Said("a", 2, 1) in [replace(one, answers=()) for one in device.told] or not device.is_present()


def test_a_cursor_that_moved_is_written_within_seconds_and_holds_its_requests_until_then() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#")
    bench.tick(STORE_EVERY_MS)
    bench.version("a", 1)
    device.gateway.run()
    bench.settle()
    assert device.acked == 0
    assert (stored(bench, device) or {})["cursor"] == -1
    assert bench.committed[0] < len(bench.log.requests), "who takes over hears of the acknowledgement"
    bench.load()
    device.gateway.run()
    assert next(iter(bench.engine.state.clients.values())).cursor == 0
    bench.tick(STORE_EVERY_MS)
    bench.settle()
    assert (stored(bench, device) or {})["cursor"] == 0
    assert bench.committed[0] == len(bench.log.requests)


def test_a_gateways_death_repeats_what_was_not_acknowledged_and_nothing_else() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#")
    bench.version("a", 1)
    device.gateway.run()
    device.reads = False
    bench.version("b", 1)
    device.gateway.run()
    device.take()
    other = KeptGateway(bench, OTHER_GATEWAY)
    device.gateway.forget(device)
    bench.load()
    device.gateway, device.reads = other, True
    device.connect()
    other.run()
    assert device.take() == [Said("b", 1, 1)]


def test_a_clean_session_that_never_registers_leaves_no_record() -> None:
    bench = EngineBench()
    writes = {topic: bench.log.end(topic) for topic in (TOPICS.sessions, TOPICS.registrations)}
    device = KeptGateway(bench).device().connect(clean=True, expiry_s=0)
    device.gateway.run()
    assert not device.is_present()
    device.leave()
    bench.settle()
    bench.tick(60_000)
    assert {topic: bench.log.end(topic) for topic in writes} == writes
    assert not bench.engine.state.clients


def test_a_set_that_ends_with_its_session_is_forgotten_at_its_leave() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#", expiry_s=0)
    assert stored(bench, device) is not None
    device.leave()
    bench.settle()
    assert stored(bench, device) is None
    assert not bench.engine.state.clients
    assert not any(key.startswith(PREFIX) for key in bench.latest(TOPICS.registrations))


@pytest.mark.parametrize("successor", [False, True])
def test_a_set_that_ends_with_its_session_is_forgotten_when_its_gateway_dies(successor: bool) -> None:
    bench = EngineBench()
    device = subscribed(bench, "#", expiry_s=0)
    bench.settle()
    if successor:
        bench.load()
    bench.tick(GATEWAY_SILENCE_MS_MAX + 1)
    bench.tick(1_000)
    assert stored(bench, device) is None
    assert not bench.engine.state.clients


def test_an_offline_set_that_had_ended_is_forgotten_by_a_successor() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#", expiry_s=0)
    device.leave()
    step = bench.step()
    bench.make_durable(step, writes_lost=len([*step.state, *step.seals, *step.tombstones]))
    bench.load()
    bench.tick(GATEWAY_SILENCE_MS_MAX + 1)
    bench.tick(1_000)
    assert stored(bench, device) is None


def test_a_set_expires_after_its_session_and_is_not_present_then() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#", expiry_s=10)
    device.leave()
    bench.settle()
    bench.now_ms += 9_000
    device.connect(expiry_s=10)
    device.gateway.run()
    assert device.is_present()
    device.leave()
    bench.settle()
    bench.now_ms += 10_001
    device.connect(expiry_s=10)
    device.gateway.run()
    assert not device.is_present()
    device.subscribe("#")
    device.gateway.run()
    device.leave(expiry_s=EXPIRY_NEVER)
    bench.settle()
    bench.now_ms += 100_000_000
    device.connect(expiry_s=1)
    device.gateway.run()
    assert device.is_present()
    device.leave()
    bench.settle()
    for _ in range(4):
        bench.tick(60_000)
    assert stored(bench, device) is None
    assert not bench.engine.state.clients


def test_a_session_takes_over_from_one_that_ends_with_it_and_has_nothing() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#", expiry_s=0)
    device.connect(expiry_s=0)
    device.gateway.run()
    assert not device.is_present()
    assert device.filters == {}


def test_a_set_is_of_one_kind() -> None:
    bench = EngineBench()
    bench.opened("a", client="unit-1", session=50)
    gateway = KeptGateway(bench)
    device = gateway.device().connect()
    gateway.run()
    assert device.closed == (CloseCode.NOT_ALLOWED, NATIVE)
    assert next(iter(bench.engine.state.clients.values())).session is not None, "the other one goes on"
    bench.operator("unit-1", forget=internal_pb2.Forget(reason="is MQTT from now on"))
    device.connect()
    gateway.run()
    device.subscribe("#")
    gateway.run()
    assert list(device.filters) == ["#"]
    bench.open(["a"], register=["a"], client="unit-1", session=51)
    (item,) = bench.items()
    assert (item.closed.code, item.closed.reason) == (CloseCode.NOT_ALLOWED, KEPT)
    device.leave()
    bench.load()
    bench.open(["a"], register=["a"], client="unit-1", session=52)
    assert closed(bench.items()) == [(52, CloseCode.NOT_ALLOWED)]


def test_a_client_of_which_nothing_is_kept_may_come_back_as_another_kind() -> None:
    bench = EngineBench()
    device = KeptGateway(bench).device().connect(clean=True, expiry_s=0)
    device.gateway.run()
    bench.open(["a"], register=["a"], client=device.name, session=51)
    assert opened(bench.items())[-1].in_sync
    bench.unregister("a", client=device.name, session=51)
    bench.leave(client=device.name, session=51)
    bench.settle()
    device.connect()
    device.gateway.run()
    assert not device.is_present()
    device.subscribe("a")
    device.gateway.run()
    bench.version("a", 1)
    device.gateway.run()
    assert device.names() == ["a"]


def test_an_open_whose_answer_was_lost_is_answered_as_the_first_one() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#")
    device.leave()
    bench.version("a", 1)
    bench.settle()
    for present in (True, False):
        device.connect(clean=not present)
        bench.settle()
        bench.told[GATEWAY].take()
        device.announce()
        device.gateway.run()
        assert device.is_present() is present
        assert device.names() == (["a"] if present else [])
        assert device.live
        device.leave()
    device.connect(clean=True)
    bench.settle()
    bench.told[GATEWAY].take()
    bench.load()
    bench.told[GATEWAY].take()
    device.announce()
    device.gateway.run()
    assert not device.is_present()


def test_opens_in_a_row_are_all_handled_since_one_may_forget() -> None:
    bench = EngineBench()
    device = subscribed(bench, "#")
    device.leave()
    device.connect(clean=True)
    device.connect()
    device.gateway.run()
    assert device.filters == {}
