"""What one partition knows of a gateway: sessions, numbered inbox records of bounded size."""

from coldnotify_matcher.engine.gateways.gateways import RECORD_BYTES_MAX, RETIRED_KEPT_MS, GatewayView
from coldnotify_matcher.engine.inputs.stream_requests import DISAGREES_MS_MAX
from coldnotify_schemas import internal_pb2
from coldnotify_testkit.engine_bench import GATEWAY, INBOX, OTHER_GATEWAY, EngineBench, fan_outs
from hypothesis import given
from hypothesis import strategies as st


def item(size: int) -> internal_pb2.Item:
    return internal_pb2.Item(fan_out=internal_pb2.FanOut(sessions=b"x" * size))


def test_sessions_and_their_checksum() -> None:
    gateway = GatewayView(1, 0, 0)
    gateway.add(5, "d/g/c")
    gateway.add(7, "d/g/c")
    gateway.add(7, "d/g/c")
    gateway.remove(5, indexed=False)
    gateway.remove(99, indexed=False)

    assert (list(gateway.sessions), gateway.checksum) == ([7], 7)


@given(st.lists(st.integers(0, 200_000), max_size=12))
def test_records_are_split_above_the_limit_keep_the_order_and_are_numbered_without_gaps(sizes: list[int]) -> None:
    gateway = GatewayView(GATEWAY, 2, 0)
    seen: list[internal_pb2.Inbox] = []
    for chunk in (sizes[:5], sizes[5:]):
        for size in chunk:
            gateway.tell(item(size))
        for inbox, record in gateway.take_records(3, 9):
            assert inbox == 2
            assert (record.format, record.partition, record.generation, record.gateway) == (1, 3, 9, GATEWAY)
            assert len(record.items) == 1 or record.ByteSize() < RECORD_BYTES_MAX + 1000
            seen.append(record)

    assert [record.number for record in seen] == list(range(1, len(seen) + 1))
    assert [len(one.fan_out.sessions) for record in seen for one in record.items] == sizes
    assert gateway.take_records(3, 9) == []


def test_no_items_are_no_record() -> None:
    assert GatewayView(1, 0, 0).take_records(0, 1) == []


def test_a_retired_number_is_remembered_for_a_while_only() -> None:
    gateway = GatewayView(1, 0, 0)
    gateway.remove(5, indexed=True)
    gateway.remove(6, indexed=False)
    assert gateway.has_retired(5)
    assert not gateway.has_retired(6)

    gateway.turn_retired()
    assert gateway.has_retired(5)
    gateway.turn_retired()
    assert not gateway.has_retired(5)


def test_its_successor_has_its_numbers_and_what_it_was_to_be_told() -> None:
    gateway = GatewayView(1, 2, 77)
    gateway.tell(item(1))
    gateway.take_records(0, 1)
    gateway.tell(item(2))
    gateway.add(5, "d/g/c")

    new = gateway.successor()

    assert (new.id, new.inbox, new.heard_ms, new.number) == (1, 2, 77, 1)
    assert (new.sessions, new.checksum) == ({}, 0)
    assert gateway.take_records(0, 1) == []
    new.tell(item(3))
    ((_, record),) = new.take_records(0, 1)
    assert (record.number, [len(one.fan_out.sessions) for one in record.items]) == (2, [2, 3])


# --- through the engine


def test_records_go_to_the_gateways_own_inbox_with_numbers_from_1_in_each_generation() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.opened("a", session=2, client="client-2", gateway=OTHER_GATEWAY)
    bench.version("a", 1)
    bench.settle()
    bench.load()
    bench.version("a", 2)
    step = bench.settle()

    assert [inbox for inbox, _ in step.inboxes] == [INBOX[GATEWAY], INBOX[OTHER_GATEWAY]]
    for gateway in (GATEWAY, OTHER_GATEWAY):
        numbers = [(record.generation, record.number) for record in bench.told[gateway].records]
        assert [n for g, n in numbers if g == 1] == list(range(1, 1 + len([g for g, _ in numbers if g == 1])))
        assert [n for g, n in numbers if g == 2] == [1]
        assert {record.generation for record in bench.told[gateway].records} == {1, 2}


def test_an_inbox_that_somebody_else_said_is_used_until_the_gateway_says_its_own() -> None:
    bench = EngineBench()
    strange = bench.request(beat=internal_pb2.Beat(serial=1))
    strange.inbox = INBOX[GATEWAY] + 2
    bench.step()
    bench.beat()
    bench.version("a", 1)
    step = bench.step()

    assert [inbox for inbox, record in step.inboxes if record.gateway == GATEWAY] == [INBOX[GATEWAY]]


def test_a_retired_session_is_never_addressed() -> None:
    bench = EngineBench()
    for session in range(1, 6):
        bench.opened("a", session=session, client=f"client-{session}")
    bench.leave(session=3, client="client-3")
    bench.settle()
    bench.told.clear()
    bench.version("a", 1)

    assert fan_outs(bench.items()) == [("a", 1, 0, [1, 2, 4, 5])]


def test_retired_numbers_do_not_pile_up() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.leave()
    bench.settle()
    for _ in range(3):
        bench.beat()
        bench.tick(RETIRED_KEPT_MS + 1)

    assert not bench.engine.state.gateways[GATEWAY].has_retired(1)


def test_a_session_that_its_gateway_does_not_have_ends_once_its_beats_have_disagreed_for_long() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.open(["a"], register=["a"], session=99, client="made-up")
    bench.settle()
    bench.told[GATEWAY].take()

    def beat(serial: int) -> bool:
        bench.beat(1, serial=serial)
        (answer,) = (item.beat for item in bench.items() if item.WhichOneof("item") == "beat")
        return answer.agreed

    agreed = []
    for serial in range(1, 15):
        bench.now_ms += 5_000
        if serial == 3:
            bench.open(["a"], session=1, again=True)  # the gateway announces what it has
        agreed.append(beat(serial))

    assert not any(agreed[: DISAGREES_MS_MAX // 5_000])
    assert all(agreed[-3:])
    assert set(bench.engine.state.gateways[GATEWAY].sessions) == {1}


def test_beats_that_disagree_for_a_moment_end_nothing() -> None:
    bench = EngineBench()
    bench.opened("a")
    for serial in range(1, 40):
        bench.now_ms += 5_000
        bench.beat(*((1, 2) if serial % 3 else (1,)), serial=serial)
        bench.settle()

    assert set(bench.engine.state.gateways[GATEWAY].sessions) == {1}
