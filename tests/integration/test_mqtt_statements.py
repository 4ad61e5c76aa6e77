"""What MQTT asks of a server, statement by statement, by raw packets to a gateway with all of ColdNotify behind it.

services/gateway/tests/conformance/ says which statement is shown where.
"""

import itertools
from pathlib import Path

import pytest
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    PingReq,
    PingResp,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicSubscription,
    UnsubAck,
    Unsubscribe,
)
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode, ReturnCode
from coldnotify_testkit.raw_packets import RawPackets
from coldnotify_testkit.stack import Stacks, Up

pytestmark = pytest.mark.kafka

V4, V5 = ProtocolVersion.MQTT_3_1_1, ProtocolVersion.MQTT_5
BOTH = pytest.mark.parametrize("protocol", ProtocolVersion)
KEPT = Properties(session_expiry_s=3600)
NUMBERS = itertools.count(1)
"""Who comes back too soon waits: many connections are of another client each."""


def port_of(up: Up) -> int:
    return int(str(up.report["mqtt"]).rpartition(":")[2])


def name(client: str) -> str:
    return f"animal.observer/region-1/{client}"


def connected(
    up: Up, client: str, protocol: ProtocolVersion = V5, *, clean: bool = True, said: Properties = NO_PROPERTIES
) -> RawPackets:
    """A connection that was let in. 3.1.1 says nothing of `said`."""
    raw = RawPackets(port_of(up), protocol)
    answer = raw.connect(name(client), clean=clean, said=said)
    assert not answer.reason, answer
    return raw


def answered(raw: RawPackets, up: Up) -> list[Publish]:
    """What SUBSCRIBEs were answered with: they are answered in order, so one more is the end."""
    marker = f"marker-{next(NUMBERS)}"
    with connected(up, marker) as sender:
        sender.publish(marker, b"marker", retain=True)
    raw.subscribe(marker)
    return raw.told_up_to(b"marker")[:-1]


# --- connecting


@BOTH
def test_connack_comes_first_and_once(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"first-{protocol}"
    with connected(up, "first-sender") as sender:
        sender.publish(topic, b"1", retain=True)
    with RawPackets(port_of(up), protocol) as raw:
        connect = Connect(protocol, name(topic), properties=NO_PROPERTIES)
        raw.send(connect, Subscribe(1, (TopicSubscription(topic, 1),)), PingReq())
        found = [raw.packet() for _ in range(4)]
        assert isinstance(found[0], ConnAck)
        assert sum(isinstance(one, ConnAck) for one in found) == 1
        assert {type(one) for one in found[1:]} == {SubAck, Publish, PingResp}


@BOTH
def test_nothing_is_done_behind_a_refused_connect(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"behind-refused-{protocol}"
    with connected(up, f"watcher-{protocol}") as watcher:
        watcher.subscribe(topic)
        with RawPackets(port_of(up), protocol) as raw:
            raw.send(Connect(protocol, "no-home"), Publish(topic, b"never", 1, packet_id=1))
            (said,) = raw.rest()
        assert isinstance(said, ConnAck)
        refused = ReasonCode.CLIENT_IDENTIFIER_NOT_VALID if protocol is V5 else ReturnCode.IDENTIFIER_REJECTED
        assert (said.reason, said.session_present) == (refused, False)
        watcher.publish(topic, b"end")
        assert [one.payload for one in watcher.told_up_to(b"end")] == [b"end"]


def test_an_authentication_method_is_refused(up: Up) -> None:
    with RawPackets(port_of(up)) as raw:
        said = Properties(authentication_method="SCRAM-SHA-1", authentication_data=b"x")
        answer = raw.connect(name("scram"), said=said)
        assert answer.reason is ReasonCode.BAD_AUTHENTICATION_METHOD
        assert raw.rest() == []


@pytest.mark.parametrize("asked", [None, False, True])
def test_connack_says_nothing_that_was_not_asked_for(up: Up, asked: bool | None) -> None:
    with RawPackets(port_of(up)) as raw:
        said = raw.connect(name("asking"), said=Properties(request_response_information=asked)).properties
    assert (said.response_information, said.authentication_method, said.authentication_data) == (None, None, None)
    assert (said.server_keep_alive_s, said.assigned_client_id, said.reason_string) == (None, None, None)


@BOTH
def test_a_session_is_kept_by_its_client_identifier(up: Up, protocol: ProtocolVersion) -> None:
    client, topic = f"kept-{protocol}", f"kept-by-id-{protocol}"
    for clean, present in ((True, False), (False, protocol is V5), (False, True), (True, False)):
        with RawPackets(port_of(up), protocol) as raw:
            assert raw.connect(name(client), clean=clean, said=KEPT).session_present is present
            if not present:
                raw.subscribe(topic)
            raw.publish(topic, b"1")
            assert raw.next_told().payload == b"1", "the subscription is there"
            raw.send(Disconnect())
            raw.rest()


def test_a_session_of_expiry_0_ends_with_its_connection(up: Up) -> None:
    with connected(up, "short") as raw:
        raw.subscribe("short")
    with RawPackets(port_of(up)) as again:
        assert not again.connect(name("short"), clean=False).session_present


@BOTH
def test_a_second_connection_takes_over(up: Up, protocol: ProtocolVersion) -> None:
    with connected(up, f"two-{protocol}", protocol) as first, connected(up, f"two-{protocol}", protocol) as second:
        said = first.rest()
        if protocol is V5:
            (left,) = said
            assert isinstance(left, Disconnect)
            assert left.reason is ReasonCode.SESSION_TAKEN_OVER
        else:
            assert said == []
        second.ping()


@BOTH
def test_silence_of_one_and_a_half_keepalives_ends_the_connection(up: Up, protocol: ProtocolVersion) -> None:
    with RawPackets(port_of(up), protocol) as raw:
        assert not raw.connect(name(f"silent-{protocol}"), keep_alive_s=1).reason
        said = raw.rest()
    assert [one.reason for one in said if isinstance(one, Disconnect)] == (
        [ReasonCode.KEEP_ALIVE_TIMEOUT] if protocol is V5 else []
    )


def test_any_identifier_of_23_letters_and_digits_and_an_assigned_one(stacks: Stacks, tmp_path: Path) -> None:
    with stacks.running(tmp_path, gateway_mqtt_domain="farm", gateway_mqtt_group="barn") as up:
        for protocol in (V4, V5):
            for client in (
                "a",
                "Z9" * 11 + "x",
                "0123456789abcdefghijklm",
                "nopqrstuvwxyzABCDEFGHIJ",
                "KLMNOPQRSTUVWXYZ",
            ):
                with RawPackets(port_of(up), protocol) as raw:
                    assert not raw.connect(client).reason
        with RawPackets(port_of(up)) as one, RawPackets(port_of(up)) as other, RawPackets(port_of(up), V4) as old:
            first, second = (raw.connect("", said=KEPT).properties.assigned_client_id for raw in (one, other))
            assert first
            assert second
            assert first != second
            assert not old.connect("").reason
            one.subscribe("mine")
            one.send(Disconnect())
            one.rest()
            with RawPackets(port_of(up)) as again:
                assert again.connect(first, clean=False).session_present, "as if it had said that one itself"
        with RawPackets(port_of(up), V4) as kept:
            assert kept.connect("", clean=False).reason is ReturnCode.IDENTIFIER_REJECTED
            assert kept.rest() == []


# --- what a client allows


def test_problem_information_is_left_out_where_it_is_not_wanted(up: Up) -> None:
    wants = {
        True: connected(up, "wants"),
        False: connected(up, "wants-not", said=Properties(request_problem_information=False)),
    }
    for wanted, raw in wants.items():
        with raw:
            said = raw.publish("$SYS/x")
            assert said.reason is ReasonCode.TOPIC_NAME_INVALID
            assert (said.properties.reason_string is not None) is wanted
            assert raw.subscribe("$share/a/b").properties == NO_PROPERTIES
            assert raw.unsubscribe("a").properties == NO_PROPERTIES
            raw.send(b"\xff")
            (left,) = raw.rest()
            assert isinstance(left, Disconnect), "which may say it"


def test_no_packet_is_larger_than_the_client_takes(up: Up) -> None:
    most = 60
    with connected(up, "large-sender") as sender:
        sender.publish("large/a", bytes(100), retain=True)
        sender.publish("large/b", b"small", retain=True)
    with RawPackets(port_of(up)) as raw:
        raw.takes_at_most(most)
        assert not raw.connect(name("narrow"), said=Properties(packet_bytes_max=most)).reason
        raw.subscribe("large/#")
        assert [one.topic for one in raw.told_up_to(b"small")] == ["large/b"], "the other counts as sent"
        refusal = raw.publish("$" + "x" * 80)
        assert (refusal.reason, refusal.properties) == (ReasonCode.TOPIC_NAME_INVALID, NO_PROPERTIES)
        raw.send(Subscribe(99, tuple(TopicSubscription(f"many/{number}") for number in range(most))))
        (left,) = raw.rest()
        assert isinstance(left, Disconnect)
        assert (left.reason, left.properties) == (ReasonCode.PACKET_TOO_LARGE, NO_PROPERTIES)
    with RawPackets(port_of(up)) as least:
        least.send(Connect(V5, name("least"), properties=Properties(packet_bytes_max=10)))
        (answer,) = least.rest()
        assert answer == ConnAck(reason=ReasonCode.PACKET_TOO_LARGE), "one that lets it in would be larger"
    with RawPackets(port_of(up)) as refused:
        answer = refused.connect("no-home", said=Properties(packet_bytes_max=40))
        assert answer == ConnAck(reason=ReasonCode.CLIENT_IDENTIFIER_NOT_VALID)


@pytest.mark.parametrize("receive_max", [1, 3])
def test_receive_maximum_bounds_publishes_and_nothing_else(up: Up, receive_max: int) -> None:
    topic = f"quota-{receive_max}"
    with connected(up, topic, said=Properties(receive_max=receive_max)) as raw:
        raw.subscribe(topic)
        for number in range(8):
            assert not raw.publish(topic, b"%d" % number).reason, "answered, whatever it owes itself"
        raw.subscribe("another")
        raw.unsubscribe("another")
        raw.ping()
        assert len(raw.told) <= receive_max
        seen = []
        for _ in range(8):
            owed = raw.next_told(acknowledges=False)
            raw.ping()
            assert len(raw.told) < receive_max
            seen.append(owed.payload)
            assert owed.packet_id is not None
            raw.send(PubAck(owed.packet_id))
        assert seen == [b"%d" % number for number in range(8)]


# --- publishing


@BOTH
def test_a_publish_is_answered_by_its_qos_and_its_identifier(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"answers-{protocol}"
    with connected(up, topic, protocol) as raw:
        raw.subscribe(topic)
        raw.send(Publish(topic, b"0"), Publish(topic, b"1", 1, packet_id=7))
        assert raw.until(PubAck) == PubAck(7)
        raw.send(Publish(topic, b"2", 1, dup=True, packet_id=7))
        assert raw.until(PubAck) == PubAck(7)
        told = raw.told_up_to(b"2")
        assert [one.payload for one in told] == [b"0", b"1", b"2"], "an identifier that was answered is a new message's"
        assert not any(one.dup for one in told), "DUP is not passed on"


@BOTH
def test_pubacks_come_in_the_order_of_the_publishes(up: Up, protocol: ProtocolVersion) -> None:
    with connected(up, f"order-{protocol}", protocol) as raw:
        ids = [9, 3, 60000, 1, 2]
        raw.send(*(Publish(f"order/{n % 2}", b"", 1, retain=bool(n % 3), packet_id=n) for n in ids))
        assert [raw.until(PubAck).packet_id for _ in ids] == ids


@BOTH
def test_messages_of_a_topic_keep_their_order(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"in-order-{protocol}"
    with connected(up, f"{topic}-a", protocol) as one, connected(up, f"{topic}-b", protocol) as other:
        one.subscribe(topic)
        numbers = range(200)
        for start in range(0, 200, 50):
            part = numbers[start : start + 50]
            other.send(*(Publish(topic, b"%d" % n, 1, packet_id=n + 1) for n in part))
            for _ in part:
                other.until(PubAck)
        assert [int(told.payload) for told in one.told_up_to(b"199")] == list(numbers)


@BOTH
def test_a_retained_message_is_replaced_removed_and_left_alone(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"retained-{protocol}"

    def there() -> list[bytes]:
        with connected(up, f"late-{next(NUMBERS)}", protocol) as late:
            late.subscribe(topic)
            late.ping()
            late.publish(f"{topic}", b"end")
            return [told.payload for told in late.told_up_to(b"end") if told.retain]

    with connected(up, topic, protocol) as raw:
        raw.subscribe(topic)
        for payload in (b"1", b"2"):
            raw.publish(topic, payload, retain=True)
        assert there() == [b"2"]
        raw.publish(topic, b"not retained")
        raw.publish(topic, b"")
        assert there() == [b"2"]
        raw.send(Publish(topic, b"of QoS 0", retain=True))
        raw.publish(topic, b"after")
        assert there() == [b"of QoS 0"]
        raw.publish(topic, b"", retain=True)
        assert there() == []
        assert told_up_to_two(raw) == [b"", b""], "an empty message, and the removal"


def told_up_to_two(raw: RawPackets) -> list[bytes]:
    """The payloads of the first two messages without one."""
    found: list[bytes] = []
    while len(found) < 2:
        if not (payload := raw.next_told().payload):
            found.append(payload)
    return found


def test_retained_messages_outlive_the_session_that_sent_them(up: Up) -> None:
    with connected(up, "mortal", V4) as raw:
        raw.publish("outlives", b"1", retain=True)
    with connected(up, "heir", V4) as late:
        late.subscribe("outlives")
        assert late.next_told().payload == b"1"


# --- subscribing


@BOTH
def test_suback_has_the_identifier_and_a_code_for_each_filter_in_order(up: Up, protocol: ProtocolVersion) -> None:
    asked = ("ok/+", 1), ("a+", 1), ("zero", 0), ("a/#/b", 0), ("", 1), ("two", 2), ("$share/x", 1)
    with connected(up, f"suback-{protocol}", protocol) as raw:
        raw.send(Subscribe(777, tuple(TopicSubscription(text, qos) for text, qos in asked)))
        said = raw.until(SubAck)
        assert said.packet_id == 777
        bad = 0x8F if protocol is V5 else 0x80
        granted = said.reasons[5]
        assert granted in (1, 2)
        assert list(said.reasons) == [1, bad, 0, bad, bad, granted, bad], "the last one names a share of no topic"
        for text in ("ok/x", "zero", "two"):
            raw.publish(text, text.encode())
        raw.ping()
        raw.publish("two", b"end")
        told = {one.topic: one.qos for one in raw.told_up_to(b"end")}
        assert told == {"ok/x": 1, "zero": 0, "two": 1}, "each as if it had come alone"


@BOTH
def test_unsuback_has_the_identifier_and_takes_exact_filters_alone(up: Up, protocol: ProtocolVersion) -> None:
    with connected(up, f"unsuback-{protocol}", protocol) as raw:
        place = f"exact-{protocol}"
        raw.subscribe(f"{place}/+", f"{place}/B", f"{place}/c/#")
        raw.send(Unsubscribe(555, (f"{place}/b", f"{place}/#", f"{place}/c/#", f"{place}/c/#")))
        said = raw.until(UnsubAck)
        assert (said.packet_id, list(said.reasons[:3])) == (555, [0x11, 0x11, 0] if protocol is V5 else [])
        raw.publish(f"{place}/c/d", b"not told")
        raw.publish(f"{place}/b", b"told")
        assert [one.payload for one in raw.told_up_to(b"told")] == [b"told"]
        assert raw.unsubscribe("never-there").reasons == ((0x11,) if protocol is V5 else ())


@BOTH
def test_a_filter_again_replaces_its_subscription_and_loses_nothing(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"again-{protocol}"
    with connected(up, topic, protocol) as raw, connected(up, f"{topic}-sender") as sender:
        sender.publish(f"{topic}/r", b"retained", retain=True)
        raw.subscribe(f"{topic}/#", TopicSubscription(f"{topic}/none", 1))
        raw.told_up_to(b"retained")
        ids = range(1, 61)
        sender.send(*(Publish(f"{topic}/m", b"%d" % number, 1, packet_id=100 + number) for number in ids))
        for qos in (0, 1, 0):
            assert list(raw.subscribe(TopicSubscription(f"{topic}/#", qos)).reasons) == [qos]
        for _ in ids:
            sender.until(PubAck)
        sender.publish(f"{topic}/m", b"end")
        told = raw.told_up_to(b"end")
        assert [int(one.payload) for one in told if one.topic.endswith("m") and one.payload != b"end"] == list(ids)
        assert (told[-1].qos, told[-1].packet_id) == (0, None), "there is one subscription, with the last options"
        sent_again = [one for one in (*told, *answered(raw, up)) if one.payload == b"retained"]
        assert 1 <= len(sent_again) <= 3, "one may answer SUBSCRIBEs that follow each other at once"
        assert all(one.retain for one in sent_again)


@pytest.mark.parametrize(("handling", "first", "second"), [(0, 1, 1), (1, 1, 0), (2, 0, 0)])
def test_retain_handling(up: Up, handling: int, first: int, second: int) -> None:
    topic = f"handling-{handling}"
    asked = TopicSubscription(topic, 1, retain_handling=handling)
    with connected(up, topic) as raw:
        raw.publish(topic, b"1", retain=True)
        assert answered(raw, up) == []
        for expected in (first, second):
            raw.subscribe(asked)
            assert [one.retain for one in answered(raw, up) if one.topic == topic] == [True] * expected


def test_retain_as_published(up: Up) -> None:
    topic = "as-published"
    with (
        connected(up, "as-published-a") as plain,
        connected(up, "as-published-b") as kept,
        connected(up, "as-sender") as sender,
    ):
        plain.subscribe(TopicSubscription(topic, 1))
        kept.subscribe(TopicSubscription(topic, 1, retain_as_published=True))
        sender.publish(topic, b"version", retain=True)
        assert plain.told_up_to(b"version")[-1].retain is False
        assert kept.told_up_to(b"version")[-1].retain is True
        sender.publish(topic, b"message")
        assert plain.told_up_to(b"message")[-1].retain is False
        assert kept.told_up_to(b"message")[-1].retain is False
    with connected(up, "as-published-c", V4) as old, connected(up, "as-sender") as sender:
        old.subscribe(topic)
        assert old.next_told().retain is True, "a new subscription's"
        sender.publish(topic, b"live", retain=True)
        assert old.told_up_to(b"live")[-1].retain is False


def test_no_local(up: Up) -> None:
    with connected(up, "own") as own, connected(up, "other") as other:
        own.subscribe(TopicSubscription("local/#", 1, no_local=True))
        for raw in (own, other):
            raw.publish("local/message", b"own" if raw is own else b"other")
            raw.publish(f"local/version-{'own' if raw is own else 'other'}", b"v", retain=True)
        other.publish("local/message", b"end")
        told = own.told_up_to(b"end")
        own.ping()
        told += own.told
        assert {(one.topic, one.payload) for one in told} == {
            ("local/message", b"other"), ("local/version-other", b"v"), ("local/message", b"end"),
        }  # fmt: skip


def test_overlapping_subscriptions_are_one_publish_of_the_highest_qos(up: Up) -> None:
    with connected(up, "overlapping") as raw:
        raw.subscribe(TopicSubscription("over/+", 0), identifier=1)
        raw.subscribe(TopicSubscription("over/#", 1), identifier=2)
        raw.subscribe(TopicSubscription("over/lap", 0))
        for retain in (True, False):
            raw.publish("over/lap", b"1", retain=retain)
            said = raw.next_told()
            assert (said.qos, sorted(said.properties.subscription_ids)) == (1, [1, 2])
        raw.publish("over/end", b"end")
        assert len(raw.told_up_to(b"end")) == 1


def test_names_and_filters_are_compared_as_they_are(up: Up) -> None:
    pairs = {
        "é": "e\u0301", "A": "a", "/slash": "slash", "x//y": "x/y", "end/": "end", "\ufeffbom": "bom",
        " space": "space", "\uff21": "A",
    }  # fmt: skip
    with connected(up, "as-they-are") as raw:
        raw.subscribe(*(f"as/{asked}" for asked in pairs), "as/+/level", "as2/#")
        for other in pairs.values():
            if other != "A":
                raw.publish(f"as/{other}", b"other")
        for asked in pairs:
            raw.publish(f"as/{asked}", b"asked")
        raw.publish("as//level", b"an empty level is one")
        raw.publish("as2", b"the parent of #")
        told = raw.told_up_to(b"the parent of #")
        assert [one.topic for one in told if one.payload == b"asked"] == [f"as/{one}" for one in pairs]
        assert not [one for one in told if one.payload == b"other"]
        assert told[-2].topic == "as//level"


def test_wildcards_do_not_fit_a_topic_that_begins_with_a_dollar(up: Up) -> None:
    with connected(up, "dollar") as raw:
        raw.subscribe("#", "+/dollar")
        assert raw.publish("$own/dollar", b"1").reason is ReasonCode.TOPIC_NAME_INVALID
        raw.publish("plain/dollar", b"end")
        assert "$own/dollar" not in [one.topic for one in raw.told_up_to(b"end")]


# --- what was sent and not acknowledged


@pytest.mark.parametrize("reason", [ReasonCode.SUCCESS, ReasonCode.UNSPECIFIED_ERROR, ReasonCode.QUOTA_EXCEEDED])
def test_an_acknowledged_message_is_not_sent_again(up: Up, reason: ReasonCode) -> None:
    topic = f"acknowledged-{int(reason)}"
    with connected(up, topic, said=KEPT) as raw:
        raw.subscribe(f"{topic}/#")
        raw.publish(f"{topic}/a", b"1")
        raw.publish(f"{topic}/b", b"2", retain=True)
        for _ in range(2):
            said = raw.next_told(acknowledges=False)
            assert said.packet_id is not None
            raw.send(PubAck(said.packet_id, reason))
        raw.send(Disconnect())
        raw.rest()
    with connected(up, topic, clean=False, said=KEPT) as again:
        again.publish(f"{topic}/end", b"end")
        assert [one.payload for one in again.told_up_to(b"end")] == [b"end"]


@BOTH
def test_unacknowledged_messages_are_sent_again_in_order(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"owed-{protocol}"
    with connected(up, topic, protocol, clean=False, said=KEPT) as raw:
        raw.subscribe(f"{topic}/#")
        for number in range(5):
            raw.publish(f"{topic}/a", b"%d" % number)
        told = [raw.next_told(acknowledges=False) for _ in range(5)]
        ids = [one.packet_id for one in told]
        assert len(set(ids)) == 5
        assert None not in ids
        assert 0 not in ids
        assert ids[0] is not None
        raw.send(PubAck(ids[0]))
        raw.ping()
    with connected(up, topic, protocol, clean=False, said=KEPT) as again:
        assert [again.next_told().payload for _ in range(4)] == [b"1", b"2", b"3", b"4"]


@BOTH
def test_messages_while_a_client_is_away_wait_for_it(up: Up, protocol: ProtocolVersion) -> None:
    topic = f"away-{protocol}"
    with connected(up, topic, protocol, clean=False, said=KEPT) as raw:
        raw.subscribe(TopicSubscription(topic, 1))
        raw.send(Disconnect())
        raw.rest()
    with connected(up, f"{topic}-sender") as sender:
        for number in range(3):
            sender.publish(topic, b"%d" % number)
    with connected(up, topic, protocol, clean=False, said=KEPT) as again:
        assert [again.next_told().payload for _ in range(3)] == [b"0", b"1", b"2"]


def test_a_message_on_its_way_can_be_acknowledged_behind_an_unsubscribe(up: Up) -> None:
    with connected(up, "on-its-way", said=Properties(receive_max=1)) as raw:
        raw.subscribe("way/#")
        raw.publish("way/a", b"1")
        said = raw.next_told(acknowledges=False)
        raw.unsubscribe("way/#")
        raw.publish("way/a", b"2")
        raw.subscribe("other")
        raw.publish("other", b"end")
        assert said.packet_id is not None
        raw.send(PubAck(said.packet_id))
        assert [one.payload for one in raw.told_up_to(b"end")] == [b"end"]


# --- leaving


@BOTH
def test_disconnect_ends_the_connection_and_no_packet_follows(up: Up, protocol: ProtocolVersion) -> None:
    with connected(up, f"leaving-{protocol}", protocol) as raw:
        raw.send(Disconnect(), PingReq())
        assert raw.rest() == []


@BOTH
def test_a_ping_is_answered(up: Up, protocol: ProtocolVersion) -> None:
    with connected(up, f"pinging-{protocol}", protocol) as raw:
        for _ in range(3):
            raw.ping()
