"""Filters: what a device that keeps nothing is told in answer, what it lacks, and what reaches it live.

Stands for: by_filter, filtered_groups, filter_registering
"""

import json

import pytest
from coldnotify_matcher.engine.telling import filter_pages
from coldnotify_schemas import wire_pb2
from coldnotify_schemas.filters import FILTERS_MAX
from coldnotify_schemas.interests import filter_hash
from coldnotify_schemas.matcher_state import FORMAT_WITH_FILTERS
from coldnotify_testkit.engine_bench import PREFIX, TOPICS, EngineBench, answered, closed, fan_outs, query_interest
from coldnotify_testkit.kept_device import ALWAYS, IF_NEW, NEVER, NO_LOCAL, KeptDevice, KeptGateway, Said

DELETED = b'{"version":9,"deleted":true}'


def connected(bench: EngineBench, *filters: str, page_bytes: int = 0, options: int = ALWAYS) -> KeptDevice:
    """A device that has subscribed, and has been told all."""
    gateway = KeptGateway(bench)
    device = gateway.device(page_bytes=page_bytes).connect()
    gateway.run()
    if filters:
        device.subscribe(*filters, options=options)
        gateway.run()
    return device


def test_a_filter_is_answered_with_all_that_it_fits_in_the_order_of_offsets() -> None:
    bench = EngineBench()
    for name in ("a/1", "b/1", "a/2", "a/1", "gone"):
        bench.version(name, bench.log.end(TOPICS.objects) + 1)
    bench.publish("gone", DELETED)
    bench.version("$SYS/a", 1)
    device = connected(bench, "a/#", "#")

    assert device.take() == [
        Said("b/1", 2, 1, ("#",)),
        Said("a/2", 3, 2, ("a/#", "#")),
        Said("a/1", 4, 3, ("a/#", "#")),
    ]
    assert device.live
    assert [list(one.there) for one in device.answered] == [[]]


def test_a_publish_reaches_all_sessions_once_whatever_they_have_it_by() -> None:
    bench = EngineBench()
    gateway = KeptGateway(bench)
    both, other = gateway.device("both").connect(), gateway.device("other").connect()
    gateway.run()
    both.subscribe("a/#", "+/1", "#")
    other.subscribe("b")
    gateway.run()
    for session, name in ((11, "named"), (12, "also")):
        bench.opened("a/1", session=session, client=name)
    bench.version("a/1", 5)
    (told,) = fan_outs(items := bench.items())
    assert told[:3] == ("a/1", 5, 0)
    assert sorted(told[3]) == [both.session, 11, 12]
    gateway.hand_over(items)
    assert both.names() == ["a/1"]
    assert other.names() == []


def test_a_session_that_has_it_by_name_query_and_filter_is_in_one_fan_out_per_gateway() -> None:
    bench = EngineBench()
    device = connected(bench, "#")
    bench.describe("lamp", b'{"version":1,"description":{"Kind":"lamp"}}', timestamp_ms=5)
    bench.opened("lamp", session=21, client="named")
    bench.opened(session=22, client="asking")
    bench.request(22, "asking", register=wire_pb2.Register(request=1, interests=[query_interest('Kind = "lamp"')]))
    bench.settle()
    bench.told.clear()
    bench.version("lamp", 2)
    told = fan_outs(bench.items())
    sessions = [session for one in told for session in one[3]]
    assert sorted(set(sessions)) == sorted(sessions)
    assert {device.session, 21} <= set(sessions)


@pytest.mark.parametrize(("options", "first", "again"), [(ALWAYS, 1, 1), (IF_NEW, 1, 0), (NEVER, 0, 0)])
def test_a_filter_is_answered_as_its_options_say(options: int, first: int, again: int) -> None:
    bench = EngineBench()
    bench.version("a", 1)
    device = connected(bench, "a", options=options)
    assert len(device.take()) == first
    device.subscribe("a", options=options)
    device.gateway.run()
    assert len(device.take()) == again
    assert list(device.answered[-1].there) == [filter_hash("a")]
    bench.version("a", 2)
    device.gateway.run()
    assert device.take() == [Said("a", 2, 1)]


def test_another_option_of_a_filter_replaces_the_one_before_and_is_kept() -> None:
    bench = EngineBench()
    device = connected(bench, "a/#")
    device.subscribe("a/#", options=NEVER | NO_LOCAL, identifier=7)
    device.gateway.run()
    bench.load()
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert device.filters == {"a/#": (NEVER | NO_LOCAL, 7)}


def test_an_object_that_changes_during_an_answer_comes_once_with_its_newest_version_at_the_end() -> None:
    bench = EngineBench()
    names = [f"n/{i:03}" for i in range(120)]
    for name in names:
        bench.version(name, 1)
    device = connected(bench, page_bytes=1024)
    device.reads = False
    device.subscribe("n/+")
    device.gateway.run()
    assert 0 < len(device.told) < 120
    bench.version("n/119", 2)
    bench.publish("n/118", DELETED)
    bench.version("n/000", 2)
    bench.settle()
    device.read()
    device.gateway.run()

    assert device.live
    assert device.names() == [*names[:118], "n/119", "n/000", "n/118"]
    assert [(said.version, bool(said.answers)) for said in device.told if said.name == "n/000"] == [
        (1, True),
        (2, True),
    ]
    assert device.told[-3].answers, "it moved to the end of the answer"
    assert device.told[-1] == Said("n/118", None, 121), "the deletion is lacked: the cursor was below"


def test_all_above_the_cursor_is_lacked_deletions_too_and_answers_nothing() -> None:
    bench = EngineBench()
    for name in ("a", "b", "c", "d"):
        bench.version(name, 1)
    device = connected(bench, "#")
    device.leave()
    bench.publish("b", DELETED)
    bench.version("c", 2)
    bench.version("e", 1)
    bench.publish("e", DELETED)
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert device.take() == [Said("b", None, 4), Said("c", 2, 5), Said("e", None, 7)]
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.take() == []


def test_a_takeover_repeats_nothing_and_forgets_no_deletion() -> None:
    bench = EngineBench()
    for name in ("a", "b", "c"):
        bench.version(name, 1)
    device = connected(bench, "#")
    away = device.gateway.device("away").connect()
    device.gateway.run()
    away.subscribe("#")
    device.gateway.run()
    away.leave()
    device.gateway.run()
    device.take()
    bench.publish("a", DELETED)
    for version in range(2, 50):
        bench.version("c", version)
    bench.load()
    device.gateway.run()
    assert device.take() == [Said("a", None, 3), Said("c", 49, 51)]
    away.connect()
    device.gateway.run()
    assert away.is_present()
    assert away.take() == [Said("a", None, 3), Said("c", 49, 51)]


def test_an_answer_that_was_not_acknowledged_is_owed_in_the_next_session() -> None:
    bench = EngineBench()
    names = [f"n/{i}" for i in range(60)]
    for name in names:
        bench.version(name, 1)
    device = connected(bench, page_bytes=1024)
    device.reads = False
    device.subscribe("#")
    device.gateway.run()
    assert device.told
    bench.load()
    device.leave()
    device.reads = True
    device.connect()
    device.gateway.run()
    assert device.is_present()
    assert device.names() == names
    assert all(said.answers == ("#",) for said in device.told)
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.take() == [], "it has acknowledged it, although no cursor has moved"


def test_a_cursor_that_was_said_before_the_answer_settles_nothing() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    device = connected(bench)
    device.reads = False
    device.subscribe("#")
    device.gateway.run()
    assert device.names() == ["a"]
    bench.acks({device.session: 0})
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.names() == ["a"]


def test_a_filter_that_is_not_answered_tells_nothing_of_before() -> None:
    bench = EngineBench()
    device = connected(bench, "x")
    device.leave()
    for _ in range(3):
        bench.version("a", bench.log.end(TOPICS.objects) + 1)
    bench.settle()
    device.connect()
    device.subscribe("a", options=NEVER)
    device.gateway.run()
    assert device.take() == []
    bench.version("a", 9)
    device.gateway.run()
    assert device.take() == [Said("a", 9, 3)]


def test_twenty_thousand_objects_come_all_and_once() -> None:
    bench = EngineBench()
    names = [f"t/{i}" for i in range(20_000)]
    for name in names:
        bench.version(name, 1)
    device = connected(bench, page_bytes=32 * 1024)
    device.subscribe("#")
    device.gateway.run()
    assert device.names() == names
    assert device.live


def test_a_page_ends_when_it_has_looked_at_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filter_pages, "LOOKED_AT_A_PAGE_MAX", 10)
    bench = EngineBench()
    for i in range(95):
        bench.version("a/7" if i == 70 else f"b/{i}", 1)
    device = connected(bench)
    before = device.pages
    device.subscribe("a/#")
    device.gateway.run()
    assert device.take() == [Said("a/7", 1, 70, ("a/#",))]
    assert device.pages - before > 9
    device.leave()
    for i in range(95):
        bench.version("a/7" if i == 70 else f"b/{i}", 2)
    device.connect()
    device.gateway.run()
    assert device.take() == [Said("a/7", 2, 165)]
    assert device.pages > 9


def test_its_own_publish_comes_unless_all_filters_that_fit_say_no() -> None:
    bench = EngineBench()
    gateway = KeptGateway(bench)
    device = gateway.device("unit-1").connect()
    gateway.run()
    device.subscribe("a/#", options=NO_LOCAL)
    device.subscribe("a/both")
    gateway.run()
    bench.publish("a/both", b'{"version":1,"source":"unit-1"}')
    bench.publish("a/own", b'{"version":1,"source":"unit-1"}')
    bench.publish("a/other", b'{"version":1,"source":"unit-2"}')
    gateway.run()
    assert device.names() == ["a/both", "a/other"]
    bench.settle()
    device.leave()
    bench.publish("a/both", b'{"version":2,"source":"unit-1"}')
    bench.publish("a/own", b'{"version":2,"source":"unit-1"}')
    device.connect()
    gateway.run()
    assert device.names() == ["a/both"]


@pytest.mark.parametrize("name", ["a+b", "a#", "$SYS/x", "a\x00"])
def test_names_that_mqtt_cannot_say_are_told_by_no_filter_and_counted(name: str) -> None:
    bench = EngineBench()
    bench.version(name, 1)
    device = connected(bench, "#", "+", "$SYS/#")
    bench.version(name, 2)
    device.gateway.run()
    device.leave()
    device.connect()
    device.gateway.run()
    assert device.told == []
    assert bench.engine.state.counts["unsayable"] == 1
    assert bench.engine.state.filtered.all_unsayable() == [f"{PREFIX}{name}"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a#", "filter: 'a#' has a # that is not its last level alone"),
        ("", "filter: '' has 0 bytes of UTF-8 (1 to 255 are allowed)"),
        ("$share/g/a", "filter: '$share/g/a' is a shared subscription, which is not served"),
    ],
)
def test_an_invalid_filter_is_refused(text: str, words: str) -> None:
    bench = EngineBench()
    device = connected(bench)
    device.subscribe(text, "good")
    device.gateway.run()
    (refused,) = device.answered[-1].refused
    assert (refused.interest, refused.reason) == (filter_hash(text), words)
    assert next(iter(bench.engine.state.clients.values())).registered == 1


def test_filters_above_a_limit_are_refused() -> None:
    bench = EngineBench(registrations_max=FILTERS_MAX + 5)
    device = connected(bench)
    texts = [f"f/{i}" for i in range(FILTERS_MAX + 1)]
    for at in range(0, len(texts), 50):
        device.subscribe(*texts[at : at + 50])
        device.gateway.run()
    (refused,) = [one for answer in device.answered for one in answer.refused]
    assert refused.reason == f"filter: at most {FILTERS_MAX} filters a client"
    bench.version("f/999", 1)
    device.gateway.run()
    assert device.names() == ["f/999"]
    few = EngineBench(registrations_max=1)
    device = connected(few, "a", "b")
    (refused,) = device.answered[-1].refused
    assert refused.reason.startswith("filter: at most 1 ")


def test_a_client_that_keeps_its_set_itself_gets_no_filter_and_one_that_does_not_nothing_else() -> None:
    bench = EngineBench()
    one = wire_pb2.Interest(kind=wire_pb2.INTEREST_FILTER, text="#")
    bench.opened("a")
    bench.told.clear()
    bench.request(register=wire_pb2.Register(request=3, objects=["b"], interests=[one]))
    (answer,) = answered(bench.items())
    assert [refused.reason for refused in answer.refused] == ["filter: the client's set is not kept by the service"]
    assert [newest.name for newest in answer.newest] == ["b"]
    device = connected(EngineBench())
    kept = device.gateway.bench
    asked = [one, query_interest("A = 1"), wire_pb2.Interest(kind=wire_pb2.INTEREST_CHANNEL, text="c")]
    kept.request(device.session, device.name, register=wire_pb2.Register(request=3, objects=["b"], interests=asked))
    (answer,) = answered(kept.items())
    assert len(answer.refused) == 3
    assert "only filters" in answer.refused[0].reason
    assert next(iter(kept.engine.state.clients.values())).registered == 1


def test_an_unregistered_filter_tells_nothing_and_an_unknown_one_is_named() -> None:
    bench = EngineBench()
    device = connected(bench, "a", "b/#")
    device.unsubscribe("b/#", "never")
    device.gateway.run()
    assert list(device.answered[-1].there) == [filter_hash("never")]
    assert device.answered[-1].unregistered
    bench.version("b/1", 1)
    assert fan_outs(bench.items()) == []
    bench.load()
    device.gateway.run()
    device.leave()
    device.connect()
    device.gateway.run()
    assert list(device.filters) == ["a"]
    assert closed(bench.items()) == []


def test_records_of_filters_have_a_format_that_older_matchers_do_not_serve() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    device = connected(bench, "#", options=IF_NEW)
    (bucket,) = [json.loads(value) for value in bench.latest(TOPICS.registrations).values()]
    assert bucket["format"] == FORMAT_WITH_FILTERS
    (stored,) = bucket["interests"]
    assert stored == {"kind": "filter", "text": "#", "position": 0, "epoch": 77, "options": IF_NEW}
    sessions = bench.latest(TOPICS.sessions)
    record = json.loads(next(value for key, value in sessions.items() if key.endswith(device.name)))
    assert (record["format"], record["kept"], record["expiry_s"]) == (FORMAT_WITH_FILTERS, "mqtt 5.0", 3600)


def test_an_object_that_retention_removes_is_told_no_more() -> None:
    bench = EngineBench()
    device = connected(bench, "#")
    bench.version("a", 1)
    bench.settle()
    obj = bench.engine.state.objects["animal.observer/region-1/a"]
    order = bench.engine.state.filtered.order("animal.observer/region-1")
    assert len(order) == 1
    bench.engine.state.filtered.removed(obj)
    assert len(order) == 0
    assert device.names() == []
