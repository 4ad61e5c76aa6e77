"""Connections, limits, time, the end.

Stands for: connections, unidentified, violation
"""

from ipaddress import ip_network
from itertools import pairwise

import pytest
from coldnotify_common.security.publish_rights import NO_NAME, PublishRight
from coldnotify_gateway.core import Gateway, Limits, Produce, SessionState, Violation
from coldnotify_gateway.core.limits import TICK_S
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.internal_pb2 import PAGE_WORKING, BeatAnswer, Closed, Item, Noted, Opened, Page
from coldnotify_schemas.internal_protocol import BEAT_S
from coldnotify_schemas.wire_pb2 import Hello
from coldnotify_testkit.device_frames import ack, hello, ping, register
from coldnotify_testkit.gateway_bench import GatewayBench, WireDouble, beat_answer, fan_out


def code_of(wire: WireDouble) -> int:
    (frame,) = wire.take()
    assert wire.finished
    return frame.close.code


def test_session_numbers_are_never_used_twice(bench):
    for expected in (1, 2, 3):
        wire = bench.live()
        assert [session.number for session in bench.gateway.sessions()] == [expected]
        bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
        bench.take_requests("leave")


@pytest.mark.parametrize(
    ("said", "code", "words"),
    [
        (hello(protocol=0), CloseCode.UNSUPPORTED_PROTOCOL, "protocol: 0"),
        (hello(protocol=2), CloseCode.UNSUPPORTED_PROTOCOL, "protocol: 2"),
        (hello("a/b"), CloseCode.BAD_NAME, "client: 'a/b'"),
        (hello(domain=""), CloseCode.BAD_NAME, "domain: ''"),
        (hello(group="x" * 65), CloseCode.BAD_NAME, "group: 'xxx"),
        (hello(register=("",)), CloseCode.BAD_NAME, "register: object"),
        (hello(unregister=("x" * 256,)), CloseCode.BAD_NAME, "unregister: object"),
        (
            hello(register=tuple(map(str, range(33))), unregister=tuple(map(str, range(40, 72)))),
            CloseCode.PROTOCOL_ERROR,
            "register and unregister: 65 objects",
        ),
        (register(1, "a"), CloseCode.PROTOCOL_ERROR, "register: came before hello"),
        (b"\0" * 5000, CloseCode.PROTOCOL_ERROR, "hello: did not come"),
        (b"\x02\xff\xff", CloseCode.PROTOCOL_ERROR, "not a client's frame"),
    ],
)
def test_a_bad_beginning_is_told_by_code_and_field(bench, said, code, words):
    wire = bench.connect()
    bench.say(wire, said)
    (frame,) = wire.take()
    assert frame.close.code == code
    assert words in frame.close.reason
    assert wire.finished
    assert bench.requests == []
    assert bench.gateway.connection_count == 0
    assert bench.gateway.counters.closes == {code: 1}


def test_who_is_not_admitted_is_told_and_nobody_else_sees_the_token():
    asked = []

    def admit(_peer: object, said: Hello) -> PublishRight:
        asked.append(said.token)
        if said.client == "thief":
            raise Violation(CloseCode.NOT_ALLOWED, "client: you are not thief")
        return NO_NAME

    bench = GatewayBench(admit=admit)
    wire = bench.connect()
    bench.say(wire, hello("thief", token="secret"))
    assert code_of(wire) == CloseCode.NOT_ALLOWED
    assert bench.requests == []
    wire = bench.opening(hello("owner", token="secret"))
    assert b"secret" not in bench.take_requests("open")[0].SerializeToString()
    assert asked == ["secret", "secret"]
    bench.do(bench.gateway.on_expired(wire, bench.now_s))
    assert code_of(wire) == CloseCode.EXPIRED


def test_names_at_their_limits_are_taken(bench):
    bench.opening(hello("x" * 64, domain="A-z0.9_", register=("é/" * 85,), unregister=tuple(map(str, range(63)))))
    bench.take_requests("open")


def test_a_hello_may_come_after_frames_that_mean_nothing(bench):
    bench.opening(b"\0\0\0", hello())
    bench.take_requests("open")


def test_handshake_and_silence_are_timed(bench):
    mute = bench.connect()
    silent, pinging = bench.live(hello("a", keepalive_s=20)), bench.live(hello("b", keepalive_s=20))
    bench.later(9)
    assert mute.kinds() == []
    bench.later(4)
    assert code_of(mute) == CloseCode.HANDSHAKE_TIMEOUT
    bench.later(20)
    bench.say(pinging, ping())
    bench.later(12)
    assert code_of(silent) == CloseCode.SILENT  # 20 * 1.5 + 10
    assert pinging.kinds() == ["pong"]
    bench.later(40)
    assert code_of(pinging) == CloseCode.SILENT
    assert bench.gateway.connection_count == 0


def test_keepalive_has_a_default_and_a_maximum():
    bench = GatewayBench(Limits(keepalive_default_s=4, keepalive_max_s=8))
    default, longest = bench.live(hello("a")), bench.live(hello("b", keepalive_s=10**9))
    bench.later(19)
    assert code_of(default) == CloseCode.SILENT
    bench.later(6)
    assert code_of(longest) == CloseCode.SILENT


def test_connections_are_limited_in_all_and_per_address():
    bench = GatewayBench(Limits(connections_max=3, connections_per_address_max=2))
    first, _ = bench.connect("10.0.0.1"), bench.connect("10.0.0.1")
    assert code_of(bench.connect("10.0.0.1")) == CloseCode.OVERLOADED
    bench.connect("10.0.0.2")
    assert code_of(bench.connect("10.0.0.3")) == CloseCode.OVERLOADED
    bench.do(bench.gateway.on_disconnected(first, bench.now_s))
    assert bench.connect("10.0.0.1").kinds() == []
    assert bench.gateway.counters.refused_connections == 2


def test_connections_that_sessions_come_and_go_in_count_once_from_their_beginning():
    bench = GatewayBench(Limits(connections_max=3, connections_per_address_max=2))
    gateway, within = bench.gateway, WireDouble()
    assert gateway.hold("10.0.0.1")
    for _ in range(2):  # one session after the other
        assert gateway.on_connect(within, "10.0.0.1", bench.now_s, held=True) == []
        bench.do(gateway.on_disconnected(within, bench.now_s))
    assert gateway.on_connect(within, "10.0.0.1", bench.now_s, held=True) == []
    assert bench.connect("10.0.0.1").kinds() == []
    assert not gateway.hold("10.0.0.1")
    assert gateway.hold("10.0.0.2")
    assert not gateway.hold("10.0.0.3")
    assert code_of(bench.connect("10.0.0.3")) == CloseCode.OVERLOADED
    assert gateway.counters.refused_connections == 3
    gateway.release("10.0.0.1")
    gateway.on_disconnected(within, bench.now_s)
    assert bench.connect("10.0.0.1").kinds() == []


def test_an_ipv6_subscriber_is_one_address_and_some_are_not_counted():
    networks = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48"))
    bench = GatewayBench(Limits(connections_per_address_max=1, addresses_exempt=networks))
    for address, taken in (
        ("10.1.2.3", True),
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("192.0.2.1", True),
        ("::ffff:192.0.2.1", False),
        ("2001:db8:1::1", True),
        ("2001:db8:1::1", True),
        ("2001:db8:2::1", True),
        ("2001:db8:2::2", False),
        ("2001:db8:2:1::1", True),
        ("", True),
    ):
        wire = bench.connect(address)
        assert wire.finished is not taken, address
    first = bench.connect("192.0.2.9")
    bench.do(bench.gateway.on_disconnected(first, bench.now_s))
    assert not bench.connect("192.0.2.9").finished


def test_of_too_many_without_a_hello_the_oldest_is_closed():
    bench = GatewayBench(Limits(unidentified_max=2))
    served = bench.opening()
    first, second = bench.connect(), bench.connect()
    assert (first.kinds(), bench.gateway.unidentified_count) == ([], 2)
    third = bench.connect()
    assert code_of(first) == CloseCode.OVERLOADED
    assert bench.gateway.counters.dropped_unidentified == 1
    bench.say(second, hello("second"))
    bench.connect()
    assert third.kinds() == served.kinds() == second.kinds() == []
    assert (bench.gateway.unidentified_count, len(bench.gateway.sessions())) == (2, 2)
    for wire in (third, second):
        bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    assert bench.gateway.unidentified_count == 1


def test_of_too_many_without_a_hello_it_is_one_of_the_address_that_has_most():
    bench = GatewayBench(Limits(unidentified_max=3))
    slow, first = bench.connect("2001:db8:1::1"), bench.connect("2001:db8:2::1")
    flood = [bench.connect(f"2001:db8:2::{n}") for n in range(2, 100)]
    assert [code_of(wire) for wire in (first, *flood[:-2])] == [CloseCode.OVERLOADED] * 97
    assert bench.gateway.unidentified_count == 3
    bench.say(slow, hello("slow"))
    assert [session.client for session in bench.gateway.sessions()] == ["slow"]


def test_an_address_has_a_share_of_all_connections_and_of_those_without_a_hello_but_loopback_has_none():
    limits = Limits(
        connections_share_max=4, unidentified_share_max=2, addresses_exempt=(ip_network("10.0.0.0/8"),), handshake_s=1e9
    )
    bench = GatewayBench(limits)
    silent = [bench.connect("192.0.2.1") for _ in range(3)]
    assert (code_of(silent[0]), bench.gateway.unidentified_count) == (CloseCode.OVERLOADED, 2)
    for wire in silent[1:]:
        bench.say(wire, hello("a"))
    silent = [bench.connect("192.0.2.1") for _ in range(2)]
    assert code_of(bench.connect("192.0.2.1")) == CloseCode.OVERLOADED
    assert bench.gateway.counters.refused_connections == 1
    for address in ("127.0.0.1", "::1", "10.0.0.1", "192.0.2.2"):
        assert not [wire for wire in [bench.connect(address) for _ in range(2)] if wire.finished]
    assert not [wire for wire in [bench.connect("127.0.0.1") for _ in range(9)] if wire.finished]


def test_a_balancer_says_whose_connection_it_is_and_that_one_has_its_share():
    balancer = "10.0.0.1"
    limits = Limits(connections_per_address_max=2, unidentified_max=3, addresses_exempt=(ip_network(balancer),))
    bench = GatewayBench(limits)
    gateway = bench.gateway

    def connect() -> WireDouble:
        wire = WireDouble()
        assert gateway.on_connect(wire, balancer, bench.now_s, nobodys=True) == []
        return wire

    wires = [connect() for _ in range(20)]
    assert (gateway.connection_count, gateway.unidentified_count) == (20, 0), "nobody has to leave for them"
    bench.do(gateway.on_address(wires[3], balancer, bench.now_s))
    assert gateway.unidentified_count == 1
    for wire in wires[3:]:
        bench.do(gateway.on_disconnected(wire, bench.now_s))
    assert gateway.connection_count == 3
    for wire in wires[:2]:
        bench.do(gateway.on_address(wire, "192.0.2.1", bench.now_s))
    assert gateway.unidentified_count == 2
    bench.do(gateway.on_address(wires[2], "192.0.2.1", bench.now_s))
    assert code_of(wires[2]) == CloseCode.OVERLOADED
    assert (gateway.counters.refused_connections, gateway.connection_count) == (1, 2)
    bench.say(wires[0], hello("a"))
    assert [session.address for session in gateway.sessions()] == ["192.0.2.1"]
    assert gateway.on_address(wires[0], "192.0.2.9", bench.now_s) == [], "it has said Hello"
    bench.do(gateway.on_disconnected(wires[0], bench.now_s))
    bench.do(gateway.on_address(connect(), "192.0.2.1", bench.now_s))
    slow = bench.connect("192.0.2.8")
    last = connect()
    bench.do(gateway.on_address(last, "192.0.2.7", bench.now_s))
    assert not slow.finished
    assert code_of(wires[1]) == CloseCode.OVERLOADED, "two were of 192.0.2.1"
    assert gateway.on_address(wires[1], "192.0.2.9", bench.now_s) == [], "it is gone"


# --- slow connections


def test_a_full_connection_gets_nothing_live_and_is_caught_up_once_drained(bench):
    wire = bench.live(complete=4)
    bench.gateway.on_blocked(wire, bench.now_s)
    assert bench.session(1).state is SessionState.SLOW
    bench.inbox(fan_out("a", 1, 5, 1), fan_out("b", 1, 6, 1))
    bench.later(15)
    assert wire.kinds() == []
    assert all(request.HasField("beat") for request in bench.take_requests())
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (request,) = bench.take_requests("catch_up")
    assert (request.catch_up.cursor, request.catch_up.ask, request.catch_up.page) == (4, 2, 0)
    bench.inbox(fan_out("a", 2, 7, 1))
    assert wire.kinds() == []


def test_answers_and_pongs_are_written_to_a_full_connection_up_to_the_hard_limit(bench):
    wire = bench.live()
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.say(wire, ping())
    assert wire.kinds() == ["pong"]
    bench.do(bench.gateway.on_overfull(wire, bench.now_s))
    assert code_of(wire) == CloseCode.TOO_SLOW
    bench.take_requests("leave")


def test_a_last_page_that_fills_the_connection_does_not_make_it_live(bench):
    wire = bench.opening()
    bench.take_requests()
    bench.gateway.on_blocked(wire, bench.now_s)
    item = Item()
    item.page.session, item.page.ask, item.page.page, item.page.last, item.page.complete = 1, 1, 1, True, 8
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=True)), item)
    assert wire.kinds() == ["welcome", "caught_up"]
    assert bench.session(1).state is SessionState.SLOW
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    (request,) = bench.take_requests("catch_up")
    assert request.catch_up.cursor == 8


# --- asking again


def test_an_open_without_an_answer_is_asked_ever_more_rarely_and_the_client_told_to_wait(bench):
    bench.answers_beats = True
    wire = bench.opening(hello(keepalive_s=3600))
    bench.later(2)
    assert wire.kinds() == []
    bench.later(3)
    (frame,) = wire.take()
    assert frame.wait.seconds == 30
    bench.later(305)
    opens = [request.open for request in bench.take_requests() if request.HasField("open")]
    assert [one.ask for one in opens] == list(range(1, len(opens) + 1))
    assert [one.again for one in opens] == [False] + [True] * (len(opens) - 1)
    assert 5 <= len(opens) <= 7  # 0, 10, 30, 70, 150, 230, 310 s
    assert len(wire.kinds()) >= 10


def test_pages_that_do_not_come_are_asked_for_and_then_the_session_is_announced(bench):
    bench.answers_beats = True
    bench.live(hello(keepalive_s=3600), complete=2)
    bench.gateway.on_blocked(bench.session(1).peer, bench.now_s)
    bench.do(bench.gateway.on_drained(bench.session(1).peer, bench.now_s))
    bench.later(130)
    kinds = [request.WhichOneof("body") for request in bench.take_requests()]
    assert [kind for kind in kinds if kind != "beat"][:4] == ["catch_up", "catch_up", "catch_up", "open"]


def asked(bench: GatewayBench) -> list[str]:
    """What was asked of the matcher since the last call, but for Beats."""
    return [kind for request in bench.take_requests() if (kind := request.WhichOneof("body")) != "beat"]


def test_what_the_matcher_has_not_got_to_is_not_asked_again(bench):
    wire = bench.opening(hello(keepalive_s=3600, register=("a",)))
    bench.take_requests("open")
    bench.later(25)
    assert asked(bench) == []
    assert set(wire.kinds()) == {"wait"}
    bench.inbox(Item(opened=Opened(session=1, ask=1, in_sync=True)), beat_answer(serial=1))
    assert wire.kinds() == ["welcome"]
    assert bench.gateway.counters.stale_answers == 0


def test_what_the_matcher_has_passed_over_is_asked_again(bench):
    bench.opening(hello(keepalive_s=3600))
    bench.take_requests("open")
    bench.later(12)
    bench.inbox(beat_answer(serial=1))
    bench.later(11)
    assert asked(bench) == ["open"]


def test_a_beat_from_before_a_question_says_nothing_of_it(bench):
    bench.live(hello("other", keepalive_s=3600))
    bench.later(6)
    assert asked(bench) == []
    before = bench.gateway.views[0].beats
    bench.opening(hello(keepalive_s=3600))
    assert asked(bench) == ["open"]
    bench.inbox(beat_answer(serial=before))
    bench.later(25)
    assert asked(bench) == []


def test_what_kafka_did_not_take_is_asked_again(bench):
    bench.opening(hello(keepalive_s=3600))
    (request,) = bench.take_requests("open")
    bench.gateway.on_delivery_failed(Produce(0, b"", request), bench.now_s)
    bench.later(12)
    assert asked(bench) == ["open"]


def test_a_matcher_that_answers_no_beat_is_asked_again_after_a_while(bench):
    bench.opening(hello(keepalive_s=3600))
    bench.take_requests("open")
    bench.later(122)
    assert asked(bench) == ["open"]


def test_another_matcher_is_asked_what_the_one_before_had_not_got_to(bench):
    bench.opening(hello(keepalive_s=3600))
    bench.take_requests("open")
    bench.later(12)
    bench.new_matcher()
    assert asked(bench) == ["open"]


def test_a_session_that_waits_for_pages_is_announced_to_a_matcher_that_doubts_it(bench):
    """It would hear nothing of its channels, which are live all the same."""
    wire = bench.live(hello(keepalive_s=3600), complete=2)
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    assert asked(bench) == ["catch_up"]
    bench.new_matcher()
    assert asked(bench) == []
    bench.inbox(Item(opened=Opened(session=1, ask=0, in_sync=False)))
    assert asked(bench) == ["open"]


def test_pages_that_the_matcher_works_on_are_not_asked_for_again(bench):
    bench.answers_beats = True
    wire = bench.opening(hello(keepalive_s=3600))
    (request,) = bench.take_requests("open")
    ask = request.open.ask
    bench.inbox(
        Item(opened=Opened(session=1, ask=ask, in_sync=True)), Item(page=Page(session=1, ask=ask, kind=PAGE_WORKING))
    )
    assert wire.kinds() == ["welcome"]
    bench.later(60)
    assert asked(bench) == []
    assert wire.kinds()[0] == "wait", "what cannot be told yet is not nothing"
    bench.inbox(Item(page=Page(session=1, ask=ask, page=1, last=True, complete=1)))
    assert wire.kinds() == ["caught_up"]
    bench.later(60)
    assert wire.kinds() == []
    assert bench.gateway.counters.stale_answers == 0


def test_pages_that_never_come_are_asked_for_all_the_same(bench):
    bench.answers_beats = True
    bench.opening(hello(keepalive_s=3600))
    (request,) = bench.take_requests("open")
    ask = request.open.ask
    bench.inbox(
        Item(opened=Opened(session=1, ask=ask, in_sync=True)), Item(page=Page(session=1, ask=ask, kind=PAGE_WORKING))
    )
    bench.later(122)
    assert asked(bench) == ["catch_up"]


# --- beats


def test_beats_say_how_many_sessions_and_their_sum_and_once_more_at_the_end(bench):
    bench.later(20)
    assert bench.take_requests() == []
    wires = [bench.live(hello(f"client-{i}")) for i in range(3)]
    bench.do(bench.gateway.on_disconnected(wires[1], bench.now_s))
    bench.take_requests("leave")
    bench.later(5)
    (request,) = bench.take_requests("beat")
    assert (request.beat.sessions, request.beat.checksum) == (2, 4)
    assert (request.beat.generation, request.beat.number) == (1, bench.number)
    bench.later(5)
    bench.take_requests("beat")
    for wire in (wires[0], wires[2]):
        bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    bench.take_requests("leave", "leave")
    bench.later(1)
    (request,) = bench.take_requests("beat")
    assert (request.beat.sessions, request.beat.checksum) == (0, 0)
    bench.later(60)
    assert bench.take_requests() == []


def test_beats_of_all_partitions_leave_in_one_round(bench):
    bench.gateway = Gateway(bench.GATEWAY, bench.INBOX, 4, Limits())
    for group in range(12):
        bench.say(bench.connect(), hello(group=f"region-{group}"))
        bench.later(0.5)
    bench.later(2.5 * bench.gateway.limits.beat_s)
    bench.take_requests()
    in_ticks = []
    for _ in range(round(bench.gateway.limits.beat_s / 0.5)):
        bench.later(0.5)
        in_ticks.append(sum(request.HasField("beat") for request in bench.take_requests()))
    assert sorted(in_ticks)[-2:] == [0, 4]


def test_a_noted_of_a_session_that_is_not_mqtts_costs_no_item_beside_it(bench):
    wire = bench.live(hello("a"))
    bench.inbox(Item(noted=Noted(session=1, ask=1)), fan_out("a", 2, 7, 1))
    assert [frame.notification.version for frame in wire.take() if frame.HasField("notification")] == [2]


def test_beats_are_beat_s_apart_at_most(bench):
    bench.live(hello(keepalive_s=3600))
    sent_s = []
    for _ in range(100):
        bench.later(TICK_S + 0.01)
        sent_s += [bench.now_s for request in bench.take_requests() if request.HasField("beat")]
    assert 4.5 < max(later - before for before, later in pairwise(sent_s)) <= BEAT_S


def test_a_matcher_that_does_not_answer_beats_is_away(bench):
    bench.live(hello(keepalive_s=3600))
    bench.later(15)
    assert bench.gateway.matchers_away(bench.now_s) == 0
    bench.later(8)
    assert bench.gateway.matchers_away(bench.now_s) == 1
    bench.inbox(beat_answer())
    assert bench.gateway.matchers_away(bench.now_s) == 0


def test_live_sessions_are_stale_while_no_answer_proves_what_they_were_told(bench):
    bench.answers_beats = False
    bench.live(hello(keepalive_s=3600))
    bench.connect("slow").take()
    assert bench.gateway.stale_sessions(bench.now_s) == 0
    bench.later(21)
    assert bench.gateway.stale_sessions(bench.now_s) == 1
    (view,) = [view for view in bench.gateway.views if view.sessions]
    for _ in range(20):
        bench.later(0.5)
        bench.inbox(Item(beat=BeatAnswer(agreed=True, complete=5, serial=view.beats, age_ms=0)))
    assert bench.gateway.stale_sessions(bench.now_s) == 0


@pytest.mark.parametrize("stopped", [True, False])
def test_a_gateway_that_may_have_been_taken_for_dead_believes_nothing_before_it_is_known_again(bench, stopped):
    """Publishes that its sessions missed meanwhile must not be passed by what the matcher says to others."""
    wire = bench.live(hello("a", keepalive_s=3600), complete=1)
    bench.live(hello("b", keepalive_s=3600))
    bench.later(0.5)
    bench.inbox(beat_answer(4))
    if stopped:
        bench.now_s += 20
        bench.do(bench.gateway.on_tick(bench.now_s))
    else:
        bench.later(20)  # it was not: but what it asked did not arrive
    bench.inbox(fan_out("x", 1, 7, 2), fan_out("x", 2, 8, 2))
    bench.say(wire, ping())
    assert wire.take()[0].pong.complete == 4
    bench.take_requests()
    bench.inbox(beat_answer(agreed=False))
    first, _ = bench.take_requests("open", "open")
    assert first.open.cursor == 4


def test_a_leave_that_kafka_did_not_take_is_written_with_the_next_beat(bench):
    """Else the matcher would count a session that is gone, and no beat would agree ever again."""
    wire = bench.live()
    (leave,) = bench.gateway.on_disconnected(wire, bench.now_s)
    bench.later(1)
    bench.take_requests("beat")
    assert isinstance(leave, Produce)
    bench.gateway.on_delivery_failed(leave, bench.now_s)
    bench.later(6)
    again, beat = bench.take_requests("leave", "beat")
    assert again == leave.request
    assert beat.beat.sessions == 0
    assert bench.gateway.counters.failed_requests == {"leave": 1}
    bench.later(20)
    assert bench.take_requests() == []


def test_other_requests_that_kafka_did_not_take_are_not_repeated(bench):
    wire = bench.live()
    bench.say(wire, register(1, "a"))
    (request,) = bench.take_requests("register")
    bench.gateway.on_delivery_failed(Produce(0, b"", request), bench.now_s)
    bench.later(6)
    assert {request.WhichOneof("body") for request in bench.take_requests()} == {"beat"}


# --- a lost inbox, and the end


def test_a_lost_inbox_announces_everybody_and_takes_the_next_number_as_it_comes(bench):
    live, waiting = bench.live(hello("a")), bench.opening(hello("b"))
    bench.take_requests()
    bench.do(bench.gateway.on_inbox_lost(bench.now_s))
    bench.take_requests("open", "open")
    bench.inbox(Item(closed=Closed(session=1, code=6)), number=99)
    assert bench.take_requests() == []
    assert live.finished
    assert not waiting.finished


def test_going_away_is_told_to_all_at_a_pace_and_to_everyone_who_comes(bench):
    wires = [bench.live(hello(f"client-{i}"), complete=1) for i in range(5)]
    bench.say(wires[4], ack(1))
    bench.connect()
    bench.do(bench.gateway.go_away(2, bench.now_s))
    assert [wire.finished for wire in wires] == [True, True, False, False, False]
    assert code_of(bench.connect()) == CloseCode.GOING_AWAY
    bench.do(bench.gateway.go_away(10, bench.now_s))
    assert bench.gateway.connection_count == 0
    assert code_of(wires[4]) == CloseCode.GOING_AWAY
    leaves = bench.take_requests(*["leave"] * 5)
    assert leaves[4].leave.complete == 1
    bench.do(bench.gateway.last_beats())
    (request,) = bench.take_requests("beat")
    assert request.beat.sessions == 0


def test_bytes_and_ends_of_connections_that_are_closed_are_ignored(bench):
    wire = bench.connect()
    bench.say(wire, ping())
    wire.take()
    bench.say(wire, hello())
    bench.gateway.on_blocked(wire, bench.now_s)
    bench.do(bench.gateway.on_drained(wire, bench.now_s))
    bench.do(bench.gateway.on_overfull(wire, bench.now_s))
    bench.do(bench.gateway.on_disconnected(wire, bench.now_s))
    assert bench.take_requests() == []
    assert wire.kinds() == []


def test_a_fault_of_a_partition_ends_its_sessions_and_their_clients_come_back_at_once(bench):
    wire = bench.live(hello())
    wire.take()
    bench.take_requests()
    bench.do(bench.gateway.on_fault(1, bench.now_s))  # there is none but 0
    assert wire.kinds() == []

    bench.do(bench.gateway.on_fault(0, bench.now_s))

    assert code_of(wire) == CloseCode.UNKNOWN_SESSION
    assert bench.take_requests("leave")
    assert bench.gateway.connection_count == 0
