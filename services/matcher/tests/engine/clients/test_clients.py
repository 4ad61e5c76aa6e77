"""Registrations in buckets, and that a replay of requests ends in the state that the requests alone lead to.

Stands for: by_name
"""

import msgspec
import pytest
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_schemas.digest import digest
from coldnotify_schemas.interests import by_name, digest_of
from coldnotify_schemas.matcher_state import BUCKET_OBJECTS_MAX, FORMAT, RegistrationsRecord, SessionRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import EngineBench, answered, opened
from hypothesis import given, settings
from hypothesis import strategies as st

TOPICS = TopicNames()

NAMES = [f"o{i}" for i in range(6)]
MANY = [f"many-{i:03}" for i in range(BUCKET_OBJECTS_MAX)]


def objects(names: list[str]) -> list[Obj]:
    return [Obj(f"d/g/{name}") for name in names]


def registered(bench: EngineBench, client: str = "client-1") -> set[str]:
    return {obj.name for obj in bench.engine.state.clients[f"animal.observer/region-1/{client}"].objects()}


def stored(bench: EngineBench, client: str = "client-1") -> set[str]:
    """What the registrations topic says of a client."""
    records = bench.latest(TOPICS.registrations)
    ours = [value for key, value in records.items() if key.startswith(f"animal.observer/region-1/{client}/")]
    return {name for value in ours for name in msgspec.json.decode(value, type=RegistrationsRecord).objects}


# --- Client alone


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(NAMES))))
def test_the_digest_is_kept_up_to_date_object_by_object(operations: list[tuple[bool, str]]) -> None:
    client, wanted = RegisteredClient("d/g/c"), set()
    by_name = {name: Obj(f"d/g/{name}") for name in NAMES}
    for add, name in operations:
        if add:
            assert client.register(by_name[name]) is (name not in wanted)
            wanted.add(name)
        else:
            assert client.unregister(by_name[name]) is (name in wanted)
            wanted.discard(name)

    assert client.digest == digest(wanted)
    assert {obj.name for obj in client.objects()} == wanted
    assert {name for name, obj in by_name.items() if obj.registered} == wanted


def test_a_bucket_holds_so_many_and_room_is_used_again() -> None:
    client = RegisteredClient("d/g/c")
    many = objects([f"o{i}" for i in range(BUCKET_OBJECTS_MAX + 1)])
    for obj in many:
        client.register(obj)
    assert [len(bucket) for bucket in client.buckets] == [BUCKET_OBJECTS_MAX, 1]

    client.unregister(many[0])
    client.changed.clear()
    client.register(Obj("d/g/new"))

    assert [len(bucket) for bucket in client.buckets] == [BUCKET_OBJECTS_MAX, 1]
    assert client.changed == {0}


def test_an_object_that_two_buckets_claim_stands_in_one_and_the_other_is_written_again() -> None:
    client = RegisteredClient("d/g/c")
    (obj,) = objects(["o"])

    record = RegistrationsRecord(FORMAT, 1, 0, [obj.name])
    client.load_bucket(0, [obj], record)
    client.load_bucket(1, [obj], record)

    assert list(client.objects()) == [obj]
    assert client.changed == {1}
    assert obj.registered == 1


def test_what_a_client_lacks_is_above_its_cursor_and_not_its_own() -> None:
    client = RegisteredClient("d/g/c")
    below, above, own, unknown, strange = objects(["below", "above", "own", "unknown", "strange"])
    for obj in (below, above, own, unknown):
        client.register(obj)
    client.cursor = 5
    below.offset, above.offset, own.offset, strange.offset = 5, 6, 7, 8
    own.source, above.source = "c", "another"

    assert client.unapplied() == [above]
    assert client.lacking(3) == [below, above]
    assert [obj for obj in client.objects() if client.lacks(obj)] == [above]
    assert client.lacks(above, offset=6)
    assert not client.lacks(above, offset=5), "an older version of it"
    assert not client.lacks(own, offset=6), "who published a version has all before it"
    assert not client.interested(strange)


def test_its_interests_are_values() -> None:
    client = RegisteredClient("d/g/c")
    for obj in objects(["a", "b"]):
        client.register(obj)

    assert list(client.interests()) == [by_name("a"), by_name("b")]
    assert client.digest == digest_of(client.interests())
    assert client.registered == 2


def test_a_client_that_is_forgotten_is_registered_for_nothing() -> None:
    client = RegisteredClient("d/g/c")
    many = objects(["a", "b"])
    for obj in many:
        client.register(obj)
    client.changed.clear()

    assert client.forget() == many

    assert (client.registered, [obj.registered for obj in many], client.changed) == (0, [0, 0], set())


def test_names_and_group() -> None:
    client = RegisteredClient("d/g/c")

    assert (client.group_key, client.name, client.worth_keeping) == ("d/g", "c", False)


# --- durable, and replayed


def test_registrations_and_sessions_survive_the_matcher() -> None:
    bench = EngineBench()
    bench.opened("a", "b")
    bench.register("c")
    bench.unregister("a")
    bench.settle()

    bench.load()

    assert registered(bench) == stored(bench) == {"b", "c"}
    client = bench.engine.state.clients["animal.observer/region-1/client-1"]
    assert client.session is not None
    assert client.session.number == 1
    assert client.digest == digest(["b", "c"])


def test_nothing_is_kept_of_a_client_before_its_first_registration() -> None:
    bench = EngineBench()
    bench.open()
    bench.settle()
    bench.leave()
    bench.settle()

    assert bench.engine.state.clients == {}
    assert list(bench.latest(TOPICS.sessions)) == ["@generation"]


def test_a_change_rewrites_one_bucket_not_the_whole_set() -> None:
    bench = EngineBench()
    bench.opened(*MANY, "x", "y")
    bench.unregister("y")

    step = bench.settle()

    written = [write.key for write in step.state if write.topic == TOPICS.registrations]
    assert written == [b"animal.observer/region-1/client-1/1"]


def test_state_comes_before_answers() -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"])

    step = bench.step()

    assert {write.topic for write in step.state} == {TOPICS.registrations, TOPICS.sessions}
    assert step.tombstones == []
    assert len(step.inboxes) == 1


def test_a_request_that_was_applied_before_is_answered_again_and_changes_nothing() -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.register("b", "c", request=7)
    bench.unregister("b", request=8)
    bench.settle()
    bench.told.clear()
    bench.committed = (0, 0)

    bench.load()

    items = bench.told[0xA1].take()
    assert registered(bench) == stored(bench) == {"a", "c"}
    assert [answer.request for answer in answered(items)] == [7, 8]
    assert [one.in_sync for one in opened(items)] == [True], "the Open of before would look not in sync by its digest"


def test_the_refused_are_told_why() -> None:
    bench = EngineBench(registrations_max=2)
    bench.opened("a")
    bench.register("b", "c", "d")

    (answer,) = answered(bench.items())

    assert [refusal.object for refusal in answer.refused] == ["c", "d"]
    assert "2" in answer.refused[0].reason
    assert registered(bench) == {"a", "b"}


def test_a_client_at_its_limit_may_register_again_for_what_it_has() -> None:
    bench = EngineBench(registrations_max=1)
    bench.opened("a")
    bench.register("a")

    (answer,) = answered(bench.items())

    assert not answer.refused
    assert [newest.name for newest in answer.newest] == ["a"]


def test_a_hello_with_refused_objects_is_in_sync_all_the_same() -> None:
    bench = EngineBench(registrations_max=1)
    bench.open(["a", "b"], register=["a", "b"])

    (told,) = opened(bench.items())

    assert told.in_sync, "the client takes the refused ones off its wanted set: its digest is then the same"
    assert [refusal.object for refusal in told.refused] == ["b"]
    assert told.digest == digest(["a"])


operation: st.SearchStrategy[tuple[str, list[str]]] = st.one_of(
    st.tuples(st.just("register"), st.lists(st.sampled_from([*NAMES, *MANY[:3]]), min_size=1, max_size=3)),
    st.tuples(st.just("unregister"), st.lists(st.sampled_from([*NAMES, *MANY]), min_size=1, max_size=3)),
    st.tuples(st.just("step"), st.just([])),
    st.tuples(st.just("commit"), st.just([])),
)


@settings(deadline=None)
@given(st.lists(operation, max_size=12), st.lists(operation, max_size=8), st.integers(0, 6), st.data())
def test_whatever_of_a_step_a_crash_leaves_the_requests_again_lead_to_the_same_set(
    before: list[tuple[str, list[str]]], last: list[tuple[str, list[str]]], lost: int, data: st.DataObject
) -> None:
    bench = EngineBench()
    wanted = set(MANY)
    bench.opened(*MANY)  # the first bucket is full: what comes is in the second, what goes in the first
    for what, names in before:
        match what:
            case "register":
                bench.register(*names)
                wanted |= set(names)
            case "unregister":
                bench.unregister(*names)
                wanted -= set(names)
            case "step":
                bench.make_durable(bench.step())
            case "commit":
                bench.settle()
    for what, names in last:
        if what == "register":
            bench.register(*names)
            wanted |= set(names)
        elif what == "unregister":
            bench.unregister(*names)
            wanted -= set(names)
    step = bench.step()
    writes = len(step.state) + len(step.seals)
    lost = min(lost, writes)
    bench.make_durable(step, writes_lost=lost, inboxes_lost=len(step.inboxes) if lost else 0)

    bench.load()

    assert registered(bench) == stored(bench) == wanted
    assert bench.engine.state.clients["animal.observer/region-1/client-1"].digest == digest(wanted)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_of_a_step_with_two_buckets_a_crash_between_them_loses_nothing(lost: int) -> None:
    bench = EngineBench()
    bench.opened(*MANY)
    bench.register("x")  # into the second bucket
    bench.unregister(MANY[0])  # out of the first, which is written before the second
    step = bench.step()
    assert [write.topic for write in step.state] == [TOPICS.registrations]
    assert [write.topic for write in step.seals] == [TOPICS.registrations, TOPICS.sessions]
    bench.make_durable(step, writes_lost=lost, inboxes_lost=len(step.inboxes))

    bench.load()

    assert registered(bench) == stored(bench) == {*MANY, "x"} - {MANY[0]}


def test_applied_offsets_of_another_requests_topic_do_not_count() -> None:
    bench = EngineBench()
    for _ in range(5):
        bench.opened("a")
    bench.log.requests.clear()
    bench.committed = (0, bench.committed[1])
    bench.cluster = type(bench.cluster)(
        bench.cluster.partitions, bench.cluster.inboxes, "objects-id", "another-requests-id", bench.cluster.epoch
    )
    bench.load()

    bench.open(["a", "b"], register=["b"], session=9)
    bench.settle()

    assert registered(bench) == {"a", "b"}


def test_a_session_is_stored_with_what_looking_in_and_recovery_need() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.opened("a", session=7, cursor=0)

    record = msgspec.json.decode(bench.latest(TOPICS.sessions)["animal.observer/region-1/client-1"], type=SessionRecord)

    assert (record.online, record.gateway, record.inbox, record.session) == (True, f"{0xA1:016x}", 0, 7)
    assert (record.epoch, record.cursor, record.generation) == (77, 0, 1)
    assert record.last_seen == bench.now_ms
