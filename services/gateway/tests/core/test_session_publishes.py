"""What clients publish on their sessions: in order, answered in order, refused with the reason.

Stands for: waiting_publishes
"""

import base64
import json

import pytest
from coldnotify_common.security.publish_rights import EVERY_NAME, NO_NAME, Owned, PublishRight
from coldnotify_gateway.core import AboveAgreement, Gateway, Limits, PauseReading
from coldnotify_gateway.core.session_publishes import PAUSE_S, RETRY_MS
from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.channels import parse_message_headers
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import Became, Described, Item, There
from coldnotify_schemas.priority import priority_header
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import (
    OUTCOME_STALE,
    PRIORITY_HIGH,
    PRIORITY_NORMAL,
    AskOutcome,
    ClientFrame,
    NotPublished,
    Outcome,
    Priority,
    Publish,
)
from coldnotify_testkit.device_frames import hello
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble

TOPICS = TopicNames()


def publish(bench: GatewayBench, wire: WireDouble, *publishes: Publish) -> None:
    bench.say(wire, *(encode(ClientFrame(publish=one)) for one in publishes))


def message(request: int, channel: str = "tasks") -> Publish:
    return Publish(request=request, channel=channel, payload=b"%d" % request)


def answer(bench: GatewayBench, offset: int | None, reason: str = "") -> None:
    """Kafka's, to the first publication that it has not answered."""
    bench.do(bench.gateway.on_published(bench.unanswered.pop(0), offset, reason, bench.now_s))


def refusals(wire: WireDouble) -> list[NotPublished]:
    return [frame.not_published for frame in wire.take()]


def test_a_version_is_the_clients_own() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, Publish(request=1, object="reading", version=17, payload=b'{"t": 3}'))
    (said,) = bench.publications
    assert (said.topic, said.key, said.partition) == (TOPICS.objects, b"animal.observer/region-1/reading", 0)
    assert json.loads(said.value) == {"version": 17, "source": "client-1", "payload": {"t": 3}}
    answer(bench, 41)
    (frame,) = wire.take()
    assert (frame.published.request, frame.published.offset) == (1, 41)


@pytest.mark.parametrize("payload", [b"\xff\x00", b"{", b'1, "source": "x"', b" 1", bytes(4096)])
def test_a_payload_of_any_bytes_is_written_in_base64_with_its_header(payload: bytes) -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, Publish(request=1, object="lamp", payload=payload, priority=PRIORITY_HIGH))
    (said,) = bench.publications
    assert json.loads(said.value) == {"source": "client-1", "payload": base64.b64encode(payload).decode()}
    assert said.headers == (priority_header(), ("coldnotify-payload", b"base64"), arrival_header())


def test_a_payload_is_as_long_as_is_set_and_the_limit_is_named() -> None:
    bench = GatewayBench(Limits(payload_bytes_max=10_000))
    wire = bench.live()
    for payload in (b"1" * 10_001, b"\xff" * 10_001):
        publish(bench, wire, Publish(request=1, object="lamp", payload=payload))
        assert "payload: has 10001 bytes" in refusals(wire)[0].reason
    publish(bench, wire, Publish(request=1, object="lamp", version=1, payload=b"1" * 10_000))
    (said,) = bench.publications
    assert len(said.value) > 10_000


@pytest.mark.parametrize("priority", [PRIORITY_NORMAL, PRIORITY_HIGH])
def test_without_a_version_it_is_one_by_arrival(priority: Priority) -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, Publish(request=1, object="lamp", payload=b"1", priority=priority))
    (said,) = bench.publications
    assert json.loads(said.value) == {"source": "client-1", "payload": 1}
    assert said.headers == (*([priority_header()] if priority else ()), arrival_header())
    answer(bench, 41)
    publish(bench, wire, Publish(request=2, object="lamp", version=0), Publish(request=3, channel="c", version=0))
    assert json.loads(bench.publications[-1].value)["version"] == 0
    assert bench.publications[-1].headers == ()
    assert refusals(wire)[-1].reason == "version, incarnation and deleted: are for objects"


def test_a_message_is_in_its_domains_topic() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(
        bench,
        wire,
        Publish(request=1, channel="tasks", payload=b"\xff", id="m-1", to=["solar", "camera"], expires_at=9),
    )
    (said,) = bench.publications
    assert (said.topic, said.key, said.value) == (TOPICS.channels_1d, b"animal.observer/region-1/tasks", b"\xff")
    headers = parse_message_headers(said.headers)
    assert (headers.id, headers.source, headers.to, headers.expires_at) == ("m-1", "client-1", ("camera", "solar"), 9)


def test_a_message_has_its_key_and_goes_to_no_channel_of_dead_letters() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, Publish(request=1, channel="tasks", key="order-7"))
    publish(bench, wire, Publish(request=2, channel="tasks.workers.dead"), Publish(request=3, object="lamp", key="k"))

    (said,) = bench.publications
    assert parse_message_headers(said.headers).key == "order-7"
    dead, keyed = refusals(wire)
    assert dead.reason == "channel: 'tasks.workers.dead' takes dead letters, which matchers alone send"
    assert keyed.reason == "key: is for messages of channels"


NOW_MS = 1_800_000_000_000
AHEAD_MS = NOW_MS + 10 * 365 * 86_400_000


def at_noon() -> tuple[GatewayBench, WireDouble]:
    """One that knows what time it is."""
    bench = GatewayBench()
    bench.gateway.on_wall_clock(NOW_MS / 1000, bench.now_s)
    return bench, bench.live()


@pytest.mark.parametrize("clock_ms", [AHEAD_MS, NOW_MS + 3_600_001, 5_000])
def test_a_version_by_a_clock_that_was_wrong_is_refused_with_the_time_here(clock_ms: int) -> None:
    bench, wire = at_noon()
    publish(bench, wire, Publish(request=1, object="lamp", version=clock_ms, clock_ms=clock_ms), message(2))
    (refused,) = refusals(wire)
    assert refused.reason.startswith("version: the clock was at ")
    assert (refused.request, refused.retry_after_ms, refused.clock_ms) == (1, 0, NOW_MS)
    assert [said.value for said in bench.publications] == [b"2"]


def test_a_version_that_a_clock_may_have_made_or_that_none_made_is_taken() -> None:
    bench, wire = at_noon()
    for number, one in enumerate([(NOW_MS + 3_600_000,) * 2, (AHEAD_MS, 0), (AHEAD_MS, NOW_MS)], 1):
        publish(bench, wire, Publish(request=number, object="lamp", version=one[0], clock_ms=one[1]))
        assert json.loads(bench.publications[-1].value)["version"] == one[0]
        answer(bench, number)
    assert [frame.published.request for frame in wire.take()] == [1, 2, 3]


def test_what_is_never_sent_again_is_numbered_here_and_what_expires_lasts_as_long() -> None:
    bench, wire = at_noon()
    publish(
        bench,
        wire,
        Publish(object="lamp", version=AHEAD_MS, clock_ms=AHEAD_MS, expires_at=AHEAD_MS + 5_000),
        Publish(object="lamp", version=7, clock_ms=AHEAD_MS, expires_at=AHEAD_MS + 5_000),
        Publish(request=1, channel="tasks", id="m", clock_ms=AHEAD_MS, expires_at=AHEAD_MS + 5_000),
        Publish(request=2, channel="tasks", id="n", clock_ms=AHEAD_MS, expires_at=NOW_MS + 5_000),
    )
    for offset in range(4):
        answer(bench, offset)
    said = [json.loads(one.value) for one in bench.publications[:2]]
    assert [(one["version"], one["expires_at"]) for one in said] == [(NOW_MS, NOW_MS + 5_000), (7, NOW_MS + 5_000)]
    expiries = [parse_message_headers(one.headers).expires_at for one in bench.publications[2:]]
    assert expiries == [NOW_MS + 5_000] * 2


def values(bench: GatewayBench) -> list[bytes]:
    """Of the publications under way."""
    return [one.value for one in bench.unanswered]


def published(wire: WireDouble) -> list[tuple[int, int]]:
    return [(frame.published.request, frame.published.offset) for frame in wire.take()]


def test_a_batch_is_answered_in_order() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, message(1), message(0), message(2))
    assert values(bench) == [b"1"]
    answer(bench, 5)
    assert values(bench) == [b"0", b"2"], "what came meanwhile goes together"
    publish(bench, wire, message(3))
    answer(bench, 6)
    assert values(bench) == [b"2"], "not before the batch has been answered"
    answer(bench, 7)
    assert values(bench) == [b"3"]
    answer(bench, 8)
    assert published(wire) == [(1, 5), (2, 7), (3, 8)]


def test_results_in_another_order_are_answered_in_order() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, *(message(request) for request in range(1, 4)))
    answer(bench, 5)
    bench.unanswered.reverse()
    answer(bench, 7)
    assert published(wire) == [(1, 5)]
    answer(bench, 6)
    assert published(wire) == [(2, 6), (3, 7)]


def test_another_topic_waits_for_the_answers() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, message(1), message(2), Publish(request=3, object="lamp", version=1), message(4))
    answer(bench, 5)
    assert values(bench) == [b"2"]
    answer(bench, 6)
    assert [one.topic for one in bench.unanswered] == [TOPICS.objects], "the message was there before it"
    answer(bench, 9)
    assert values(bench) == [b"4"]


def test_a_batch_has_a_bound_in_bytes() -> None:
    bench = GatewayBench()
    wire = bench.live()
    large = b"x" * (CLIENT_FRAME_BYTES_MAX - 100)
    for request in range(1, 64):
        publish(bench, wire, Publish(request=request, channel="tasks", payload=large))
    answer(bench, 5)
    assert 2 < len(bench.unanswered) < 62
    assert sum(len(one.value) for one in bench.unanswered) <= 256 * 1024
    while bench.unanswered:
        answer(bench, 6)
    assert [request for request, _ in published(wire)] == list(range(1, 64))


def test_a_partly_refused_batch_is_refused_after_its_last_answer() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, *(message(request) for request in range(1, 6)))
    answer(bench, 5)
    answer(bench, 6)
    answer(bench, None, "Kafka is away")
    answer(bench, 8)
    assert published(wire) == [(1, 5), (2, 6)]
    answer(bench, None, "Kafka is away")
    assert [(said.request, said.retry_after_ms > 0) for said in refusals(wire)] == [(3, True), (4, True), (5, True)]
    assert bench.unanswered == []
    publish(bench, wire, message(3), message(4))
    answer(bench, 9)
    answer(bench, 10)
    assert published(wire) == [(3, 9), (4, 10)]


def test_behind_a_refused_one_nothing_is_published_until_it_comes_again() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, message(1), message(2))
    answer(bench, None, "Kafka is away")
    assert [(said.request, said.retry_after_ms > 0) for said in refusals(wire)] == [(1, True), (2, True)]
    publish(bench, wire, message(3), message(0), message(2))
    assert [said.request for said in refusals(wire)] == [3, 2]
    assert len(bench.publications) == 1
    publish(bench, wire, message(1), message(2))
    answer(bench, 5)
    answer(bench, 6)
    assert [frame.published.request for frame in wire.take()] == [1, 2]


def test_too_many_are_refused_and_the_others_go_on() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, *(message(request) for request in range(1, PUBLISHES_UNANSWERED_MAX + 3)))
    assert [said.request for said in refusals(wire)] == [PUBLISHES_UNANSWERED_MAX + 1, PUBLISHES_UNANSWERED_MAX + 2]
    for offset in range(PUBLISHES_UNANSWERED_MAX):
        answer(bench, offset)
    assert len(wire.take()) == PUBLISHES_UNANSWERED_MAX
    publish(bench, wire, message(PUBLISHES_UNANSWERED_MAX + 1))
    answer(bench, 99)
    assert len(wire.take()) == 1


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Publish(object="a", channel="b"), "either an object or a channel"),
        (Publish(), "either an object or a channel"),
        (Publish(object="a", payload=b'"%s"' % (b"x" * 4096)), "payload: has 4098 bytes"),
        (Publish(object="a", payload=b"\xff" * 4097), "payload: has 4097 bytes"),
        (Publish(object="a", version=2**63), "version: is"),
        (Publish(object="a", incarnation=1), "incarnation"),
        (Publish(object="a", id="x"), "id: is for messages"),
        (Publish(object="x" * 256), "object:"),
        (Publish(channel="a", version=1), "are for objects"),
        (Publish(channel="a", id="x" * 65), "id: has 65 bytes"),
        (Publish(channel="a", to=["a b"]), "to: 'a b'"),
        (Publish(channel="a", expires_at=2**63), "expires_at: is"),
        (Publish(channel="a\x00b"), "zero byte"),
    ],
)
def test_what_is_wrong_is_named_and_stops_nothing(wrong: Publish, words: str) -> None:
    bench = GatewayBench()
    wire = bench.live()
    wrong.request = 1
    publish(bench, wire, wrong, message(2))
    (said,) = refusals(wire)
    assert words in said.reason
    assert not said.retry_after_ms
    assert [one.value for one in bench.publications] == [b"2"]


def test_who_may_not_publish_is_told() -> None:
    bench = GatewayBench(admit=lambda _peer, _hello: NO_NAME)
    wire = bench.live()
    publish(bench, wire, message(1))
    (said,) = refusals(wire)
    assert "no right to publish to animal.observer" in said.reason
    assert not bench.publications


OWN = PublishRight(every=False, owned=(Owned("client-1", "units/{client}/"),))
BELOW = "is not below units/client-1/, where alone this client may publish"
DOORS = {
    "publish": lambda name: Publish(request=1, object=name, version=1, payload=b"1"),
    "delete": lambda name: Publish(request=1, object=name, version=1, deleted=True),
    "send": lambda name: message(1, name),
    "describe": lambda name: Publish(request=1, object=name, version=1, describe=b'{"a":1}'),
    "describe alone": lambda name: Publish(request=1, object=name, describe=b'{"a":1}', only_describe=True),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("right", "name", "words"),
    [
        (NO_NAME, "units/client-1/t", "no right to publish"),
        (NO_NAME, "lamp", "no right to publish"),
        (OWN, "units/client-1/t", ""),
        (OWN, "units/client-1", BELOW),
        (OWN, "units/client-1/", BELOW),
        (OWN, "units/client-10/t", BELOW),
        (OWN, "lamp", BELOW),
        (EVERY_NAME, "units/client-10/t", ""),
        (EVERY_NAME, "lamp", ""),
    ],
)
def test_a_session_publishes_to_the_names_of_its_right(door: str, right: PublishRight, name: str, words: str) -> None:
    bench = GatewayBench(admit=lambda _peer, _hello: right)
    wire = bench.live()
    publish(bench, wire, DOORS[door](name))
    answers = refusals(wire)
    written = [one.key.decode().removeprefix("animal.observer/region-1/") for one in bench.publications]
    described = [one.describe.object for one in bench.take_requests() if one.HasField("describe")]
    assert (described if "describe" in door else written) == ([] if words else [name])
    if words:
        assert words in answers[0].reason
        assert not answers[0].retry_after_ms, "it has to be corrected"
    ask(bench, wire, 7, name)
    assert bool(bench.take_requests()) == (not words)
    assert [words in frame.outcome.reason for frame in wire.take()] == ([True] if words else [])


def test_a_refused_name_stops_nothing_that_follows() -> None:
    bench = GatewayBench(admit=lambda _peer, _hello: OWN)
    wire = bench.live()
    publish(bench, wire, message(1, "lamp"), message(0, "lamp"), message(2, "units/client-1/t"))
    (said,) = refusals(wire)
    assert (said.request, said.reason) == (1, f"channel: 'lamp' {BELOW}")
    assert [one.value for one in bench.publications] == [b"2"]


def test_an_answer_to_a_session_that_has_gone_is_nobodys() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, message(1))
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    (gone,) = bench.publications
    bench.do(bench.gateway.on_published(gone, 5, "", bench.now_s))
    bench.do(bench.gateway.on_connect(wire, "127.0.0.1", bench.now_s))
    bench.say(wire, hello())
    bench.do(bench.gateway.on_published(gone, 5, "", bench.now_s))
    assert wire.take() == []


def test_outcomes_are_counted() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, Publish(request=1), message(2), message(3))
    answer(bench, 5)
    answer(bench, None, "away")
    assert bench.gateway.counters.publishes == {"rejected": 1, "published": 1, "refused": 1}


def test_above_the_agreement_it_is_refused_and_may_come_again() -> None:
    agreed = Agreed()
    agreed.answers = [AboveAgreement("tenant lamps is above its agreement: in_per_s is 1", 250), None]
    bench, wire = agreed.bench()
    publish(bench, wire, message(1), message(2))
    said = refusals(wire)
    assert [(one.request, one.retry_after_ms) for one in said] == [(1, 250), (2, 1000)]
    assert "above its agreement" in said[0].reason
    publish(bench, wire, message(1))
    answer(bench, 5)
    assert [frame.published.request for frame in wire.take()] == [1]
    assert agreed.asked == [("animal.observer", len("animal.observer/region-1/tasks") + 1)] * 2


class Agreed:
    """What the domain's tenant has agreed, as a test says it."""

    def __init__(self) -> None:
        self.answers: list[AboveAgreement | None] = []
        """To the next publishes; all others are let in."""
        self.asked: list[tuple[str, int]] = []
        self.is_full = False
        self.refused: list[str] = []

    def ask(self, domain: str, size_bytes: int) -> AboveAgreement | None:
        self.asked.append((domain, size_bytes))
        return self.answers.pop(0) if self.answers else None

    def full(self, domain: str, object_: str) -> AboveAgreement | None:
        return AboveAgreement(f"{domain} is full, and {object_} is not there", 10_000) if self.is_full else None

    def refuse_object(self, domain: str, object_: str) -> AboveAgreement | None:
        if self.is_full:
            self.refused.append(object_)
        return self.full(domain, object_)

    def bench(self) -> tuple[GatewayBench, WireDouble]:
        bench = GatewayBench()
        bench.gateway = Gateway(GatewayBench.GATEWAY, GatewayBench.INBOX, 1, Limits(), agreements=self)
        wire = bench.live()
        bench.take_requests()
        return bench, wire


def version(request: int, object_: str, *, deleted: bool = False) -> Publish:
    return Publish(request=request, object=object_, version=request, deleted=deleted)


def there(bench: GatewayBench, ask: int, *, there: bool, session: int = 1) -> None:
    bench.inbox(Item(there=There(session=session, ask=ask, there=there)))


def asked_for(bench: GatewayBench) -> list[tuple[str, int]]:
    """Objects that the matcher was asked for, each with the asking's number."""
    asked = [one.is_there for one in bench.take_requests() if one.HasField("is_there")]
    return [(one.object, one.ask) for one in asked]


def test_while_there_are_enough_objects_only_those_that_are_there_are_published() -> None:
    agreed = Agreed()
    agreed.is_full = True
    bench, wire = agreed.bench()
    publish(bench, wire, version(1, "old"), message(2), version(3, "new"), message(4))
    assert asked_for(bench) == [("old", 1)]
    assert not bench.publications
    there(bench, 1, there=True)
    assert [one.key for one in bench.publications] == [b"animal.observer/region-1/old"]
    answer(bench, 5)
    answer(bench, 6)
    assert [frame.published.request for frame in wire.take()] == [1, 2]
    assert asked_for(bench) == [("new", 2)]
    there(bench, 2, there=False)
    said = refusals(wire)
    assert [(one.request, one.retry_after_ms) for one in said] == [(3, 10_000), (4, 1000)]
    assert said[0].reason == "animal.observer is full, and new is not there"
    assert agreed.refused == ["new"]
    assert len(agreed.asked) == 3, "one that is refused takes nothing from the rates"

    # It comes again; by now there is room.
    agreed.is_full = False
    publish(bench, wire, version(3, "new"))
    assert asked_for(bench) == []
    answer(bench, 9)
    assert [frame.published.request for frame in wire.take()] == [3]


def test_a_deletion_is_never_one_too_many() -> None:
    agreed = Agreed()
    agreed.is_full = True
    bench, wire = agreed.bench()
    publish(bench, wire, version(1, "whatever", deleted=True))
    assert asked_for(bench) == []
    assert len(bench.publications) == 1


def test_room_that_came_while_it_was_asked_for_is_used() -> None:
    agreed = Agreed()
    agreed.is_full = True
    bench, wire = agreed.bench()
    publish(bench, wire, version(1, "new"))
    agreed.is_full = False
    there(bench, 1, there=False)
    assert len(bench.publications) == 1
    assert agreed.refused == []


def test_what_is_there_and_above_a_rate_is_refused_with_all_behind_it() -> None:
    agreed = Agreed()
    agreed.is_full = True
    agreed.answers = [AboveAgreement("in_per_s", 250)]
    bench, wire = agreed.bench()
    publish(bench, wire, version(1, "old"), version(2, "old"))
    there(bench, 1, there=True)
    assert [(one.request, one.retry_after_ms) for one in refusals(wire)] == [(1, 250), (2, 1000)]
    assert not bench.publications


def test_where_no_matcher_says_in_time_it_is_let_in() -> None:
    agreed = Agreed()
    agreed.is_full = True
    bench, wire = agreed.bench()
    publish(bench, wire, version(1, "old"), version(2, "new"))
    bench.later(Limits().is_there_s - 1)
    assert not bench.publications
    bench.later(3)
    assert len(bench.publications) == 1
    answer(bench, 5)
    assert asked_for(bench) == [("old", 1), ("new", 2)]
    there(bench, 1, there=False)
    assert len(bench.publications) == 1, "the answer to what is published already means nothing"
    there(bench, 2, there=True)
    there(bench, 2, there=False)
    assert len(bench.publications) == 2
    there(bench, 3, there=True, session=77)
    answer(bench, 6)
    assert [frame.published.request for frame in wire.take()] == [1, 2]


def test_a_session_that_ends_while_it_is_asked_for_leaves_nothing() -> None:
    agreed = Agreed()
    agreed.is_full = True
    bench, wire = agreed.bench()
    publish(bench, wire, version(1, "new"))
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    there(bench, 1, there=True)
    bench.later(10)
    assert not bench.publications


def test_what_is_of_high_priority_says_so_in_a_header() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, Publish(request=1, object="alarm", version=17, priority=PRIORITY_HIGH))
    (said,) = bench.publications
    assert json.loads(said.value) == {"version": 17, "source": "client-1"}
    assert said.headers == (("priority", b"high"),)
    answer(bench, 41)
    publish(bench, wire, Publish(request=2, channel="tasks", payload=b"1", priority=PRIORITY_HIGH))
    assert parse_message_headers(bench.publications[-1].headers).high_priority


def test_a_priority_of_a_later_release_is_refused_by_the_fields_name() -> None:
    bench = GatewayBench()
    wire = bench.live()
    said = Publish.FromString(Publish(request=1, object="alarm").SerializeToString() + b"\x58\x07")
    assert said.priority == 7
    publish(bench, wire, said)
    assert bench.publications == []
    (refused,) = refusals(wire)
    assert refused.reason.startswith("priority: ")
    assert not refused.retry_after_ms


def pauses(bench: GatewayBench, wire: WireDouble, *publishes: Publish) -> list[float]:
    """For how long what the client says is not read, each time that the core says so."""
    said = b"".join(encode(ClientFrame(publish=one)) for one in publishes)
    outputs = bench.gateway.on_client_bytes(wire, said, bench.now_s)
    bench.do(outputs)
    return [output.seconds for output in outputs if isinstance(output, PauseReading)]


@pytest.mark.parametrize("refused", [message(2), Publish(request=2)], ids=["for now", "for good"])
def test_who_is_refused_and_does_not_stop_is_not_read_for_a_while(refused: Publish) -> None:
    """60 sessions that published without a pause kept a gateway busy with refusals."""
    bench = GatewayBench()
    wire = bench.live()
    if refused.channel:
        publish(bench, wire, message(1))
        answer(bench, None, "Kafka is away")
    assert pauses(bench, wire, *[refused] * PUBLISHES_UNANSWERED_MAX) == [], "what may be under way may be refused"
    assert pauses(bench, wire, refused, refused) == [PAUSE_S] * 2
    bench.now_s += PAUSE_S
    allowed = round(PAUSE_S * PUBLISHES_UNANSWERED_MAX)
    assert len(pauses(bench, wire, *[refused] * (allowed + 1))) <= 3, "it is allowed some more by then"
    bench.now_s += RETRY_MS / 1000 + 1
    assert pauses(bench, wire, *[refused] * PUBLISHES_UNANSWERED_MAX) == [], "who waits as told is read"


def ask(bench: GatewayBench, wire: WireDouble, number: int, object_: str = "lamp") -> None:
    bench.say(wire, encode(ClientFrame(ask_outcome=AskOutcome(ask=number, object=object_, offset=41))))


def test_what_became_of_a_version_is_asked_of_the_matcher_and_passed_on() -> None:
    bench = GatewayBench()
    wire = bench.live()
    bench.take_requests()
    ask(bench, wire, 7)
    (request,) = bench.take_requests()
    assert (request.ask_outcome.object, request.ask_outcome.offset, request.ask_outcome.ask) == ("lamp", 41, 7)
    outcome = Outcome(ask=7, kind=OUTCOME_STALE, version=9)
    bench.inbox(Item(became=Became(session=request.session, outcome=outcome)))
    bench.inbox(Item(became=Became(session=999, outcome=outcome)))
    (frame,) = wire.take()
    assert frame.outcome == outcome


def test_questions_have_a_bound_and_are_for_who_may_publish() -> None:
    bench = GatewayBench()
    wire = bench.live()
    bench.take_requests()
    for number in range(1, Limits().requests_unanswered_max + 2):
        ask(bench, wire, number)
    assert len(bench.take_requests()) == Limits().requests_unanswered_max
    (frame,) = wire.take()
    assert (frame.outcome.ask, frame.outcome.reason) == (number, "too much is asked for at once")
    bench.gateway.sessions()[0].publish_right = NO_NAME
    ask(bench, wire, 1000)
    assert "no right" in wire.take()[0].outcome.reason


# --- patches of descriptions


def described(bench: GatewayBench, ask: int, reason: str = "") -> None:
    bench.inbox(Item(described=Described(session=1, ask=ask, reason=reason)))


def patches(bench: GatewayBench) -> list[tuple[str, bytes, int]]:
    asked = [one.describe for one in bench.take_requests() if one.HasField("describe")]
    return [(one.object, one.patch, one.ask) for one in asked]


def describing(request: int, patch: bytes = b'{"a":1}', **said: object) -> Publish:
    return Publish(**{"request": request, "object": "lamp", "version": request, "describe": patch} | said)  # type: ignore[arg-type]


def only_describing(request: int, patch: bytes = b'{"a":1}') -> Publish:
    return Publish(request=request, object="lamp", describe=patch, only_describe=True)


def test_a_value_is_written_once_its_patch_is_durable_and_in_the_order_of_the_publishes() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, message(1), describing(2), message(3), only_describing(4, b'{"b":null}'), message(5))
    assert patches(bench) == []
    answer(bench, 10)
    assert patches(bench) == [("lamp", b'{"a":1}', 1)]
    assert len(bench.publications) == 1
    described(bench, 1)
    assert len(bench.publications) == 2
    answer(bench, 11)
    answer(bench, 12)
    assert patches(bench) == [("lamp", b'{"b":null}', 2)]
    assert len(bench.publications) == 3
    described(bench, 2)
    answer(bench, 13)
    assert [frame.published.request for frame in wire.take()] == [1, 2, 3, 4, 5]


def test_a_refused_patch_refuses_its_publish_and_no_other() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, describing(1), message(2))
    described(bench, 1, "description: has 65 keys (at most 64 are allowed)")
    (said,) = refusals(wire)
    assert (said.request, said.retry_after_ms) == (1, 0)
    assert said.reason.startswith("description: ")
    assert [one.topic for one in bench.publications] == [TOPICS.channels[1]]
    answer(bench, 5)
    assert [frame.published.request for frame in wire.take()] == [2]


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (describing(1, b"[]"), "patch: "),
        (describing(1, b'{"a": {}}'), "description: "),
        (Publish(request=1, channel="tasks", id="x", describe=b"{}"), "describe: "),
        (Publish(request=1, object="lamp", only_describe=True), "describe: "),
        (describing(1, only_describe=True), "only_describe: "),
        (Publish(request=1, object="", describe=b"{}", only_describe=True), "publish: "),
    ],
)
def test_a_wrong_patch_is_refused_at_once(said: Publish, reason: str) -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, said)
    (refused,) = refusals(wire)
    assert refused.retry_after_ms == 0
    assert refused.reason.startswith(reason)
    assert patches(bench) == []


def test_a_matcher_that_knows_no_patches_loses_none() -> None:
    bench = GatewayBench()
    wire = bench.live()
    publish(bench, wire, describing(1), message(2))
    bench.later(Limits().describe_s + 1)
    assert [(one.request, one.retry_after_ms > 0) for one in refusals(wire)] == [(1, True), (2, True)]
    assert not bench.publications
    described(bench, 1)
    assert not bench.publications, "the answer is late"
    publish(bench, wire, describing(1), message(2))
    assert [ask for _, _, ask in patches(bench)] == [1, 2]
    described(bench, 2)
    answer(bench, 6)
    answer(bench, 7)
    assert [frame.published.request for frame in wire.take()] == [1, 2]
