"""Draws packets of MQTT by Hypothesis: every kind, in both protocols, as each side may send it."""

from collections.abc import Iterable
from typing import Any

from coldnotify_schemas.mqtt.packet_kinds import PacketType, ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    Auth,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    TopicSubscription,
    UnsubAck,
    Unsubscribe,
    Will,
)
from coldnotify_schemas.mqtt.primitives import VARINT_MAX
from coldnotify_schemas.mqtt.properties import NO_PROPERTIES, RULES, WILL, Properties, PropertyRule, ValueType
from coldnotify_schemas.mqtt.reasons import (
    AUTH_REASONS,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    PUBACK_REASONS,
    PUBREL_REASONS,
    SUBACK_REASONS,
    SUBACK_REASONS_3_1_1,
    UNSUBACK_REASONS,
    ReasonCode,
    Reasons,
    ReturnCode,
)
from hypothesis import strategies as st

_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=20)
_TOPICS = st.text(st.characters(codec="utf-8", exclude_characters="\x00+#"), min_size=1, max_size=20)
_FILTERS = st.one_of(st.sampled_from(["#", "a/+", "+/b/#", "$share/g/a", ""]), _TEXTS)
_BYTES = st.binary(max_size=300)
_IDS = st.integers(1, 0xFFFF)
_QOS = st.integers(0, 2)
_SHORT = 0xFFFF


def _values(rule: PropertyRule) -> st.SearchStrategy[Any]:
    largest = {
        ValueType.BYTE: 0xFF,
        ValueType.TWO_BYTES: 0xFFFF,
        ValueType.FOUR_BYTES: 0xFFFF_FFFF,
        ValueType.VARINT: VARINT_MAX,
    }
    texts: dict[ValueType, st.SearchStrategy[Any]] = {
        ValueType.FLAG: st.booleans(),
        ValueType.TEXT: _TOPICS if rule.field == "response_topic" else _TEXTS,
        ValueType.BINARY: _BYTES,
        ValueType.PAIR: st.tuples(_TEXTS, _TEXTS),
    }
    if rule.type in texts:
        return texts[rule.type]
    return st.integers(rule.smallest, largest[rule.type] if rule.largest is None else rule.largest)


def properties(carrier: int, *, without: Iterable[str] = ()) -> st.SearchStrategy[Properties]:
    """Draws what a packet of this type, or WILL, may carry."""
    optional = {}
    for rule in RULES:
        if carrier in rule.carriers and rule.field not in without:
            most = 1 if carrier == PacketType.SUBSCRIBE and rule.field == "subscription_ids" else 3
            values = _values(rule)
            optional[rule.field] = st.lists(values, max_size=most).map(tuple) if rule.many else values
    drawn = st.fixed_dictionaries({}, optional=optional).map(_with_method)
    return st.one_of(st.just(NO_PROPERTIES), drawn.map(lambda values: Properties(**values)))


def _with_method(values: dict[str, Any]) -> dict[str, Any]:
    if "authentication_data" in values:
        values.setdefault("authentication_method", "SCRAM-SHA-256")
    return values


def packets(protocol: ProtocolVersion, sender: Side) -> st.SearchStrategy[Packet]:
    """Draws packets that this side may send behind the CONNECT, as they are parsed: without what it cannot say."""
    is_5 = protocol is ProtocolVersion.MQTT_5

    def held(kind: PacketType, without: Iterable[str] = ()) -> st.SearchStrategy[Properties]:
        return properties(kind, without=without) if is_5 else st.just(NO_PROPERTIES)

    def reasons(allowed: Reasons) -> st.SearchStrategy[ReasonCode]:
        return st.sampled_from(sorted(allowed.values())) if is_5 else st.just(ReasonCode.SUCCESS)

    both: list[st.SearchStrategy[Packet]] = [
        _publishes(held(PacketType.PUBLISH, ["subscription_ids"] if sender is Side.CLIENT else [])),
        st.builds(PubAck, _IDS, reasons(PUBACK_REASONS), held(PacketType.PUBACK)),
        st.builds(PubRec, _IDS, reasons(PUBACK_REASONS), held(PacketType.PUBREC)),
        st.builds(PubRel, _IDS, reasons(PUBREL_REASONS), held(PacketType.PUBREL)),
        st.builds(PubComp, _IDS, reasons(PUBREL_REASONS), held(PacketType.PUBCOMP)),
    ]
    if is_5:
        both.append(st.builds(Auth, reasons(AUTH_REASONS[sender]), held(PacketType.AUTH)))
    if is_5 or sender is Side.CLIENT:
        without = ["server_reference"] if sender is Side.CLIENT else ["session_expiry_s"]
        leaves = st.builds(Disconnect, reasons(DISCONNECT_REASONS[sender]), held(PacketType.DISCONNECT, without))
        both.append(leaves)
    if sender is Side.CLIENT:
        asked = st.lists(_subscriptions(is_5=is_5), min_size=1, max_size=4).map(tuple)
        filters = st.lists(_FILTERS, min_size=1, max_size=4).map(tuple)
        return st.one_of(
            *both,
            st.builds(Subscribe, _IDS, asked, held(PacketType.SUBSCRIBE)),
            st.builds(Unsubscribe, _IDS, filters, held(PacketType.UNSUBSCRIBE)),
            st.just(PingReq()),
        )
    codes = SUBACK_REASONS if is_5 else SUBACK_REASONS_3_1_1
    granted = st.lists(st.sampled_from(sorted(codes.values())), min_size=1, max_size=4).map(tuple)
    taken_back = st.lists(reasons(UNSUBACK_REASONS), min_size=1, max_size=4).map(tuple) if is_5 else st.just(())
    return st.one_of(
        *both,
        _connacks(held(PacketType.CONNACK), is_5=is_5),
        st.builds(SubAck, _IDS, granted, held(PacketType.SUBACK)),
        st.builds(UnsubAck, _IDS, taken_back, held(PacketType.UNSUBACK)),
        st.just(PingResp()),
    )


def connects(protocol: ProtocolVersion) -> st.SearchStrategy[Connect]:
    """Draws a client's first packet."""
    is_5 = protocol is ProtocolVersion.MQTT_5
    nothing = st.just(NO_PROPERTIES)
    wills = st.builds(Will, _TOPICS, _BYTES, _QOS, st.booleans(), properties(WILL) if is_5 else nothing)
    names, passwords = st.none() | _TEXTS, st.none() | _BYTES
    logins = st.tuples(names, passwords)
    if not is_5:
        logins = logins.filter(lambda login: login[0] is not None or login[1] is None)
    return st.builds(
        lambda client, clean, alive, login, will, held: Connect(
            protocol, client, clean, alive, login[0], login[1], will, held
        ),
        _TEXTS,
        st.booleans(),
        st.integers(0, _SHORT),
        logins,
        st.none() | wills,
        properties(PacketType.CONNECT) if is_5 else nothing,
    )


@st.composite
def _publishes(draw: st.DrawFn, held: st.SearchStrategy[Properties]) -> Publish:
    carried, qos = draw(held), draw(_QOS)
    topic = draw(_TOPICS if carried.topic_alias is None else st.just("") | _TOPICS)
    dup = bool(qos) and draw(st.booleans())
    return Publish(topic, draw(_BYTES), qos, draw(st.booleans()), dup, draw(_IDS) if qos else None, carried)


@st.composite
def _subscriptions(draw: st.DrawFn, *, is_5: bool) -> TopicSubscription:
    asked, qos = draw(_FILTERS), draw(_QOS)
    if not is_5:
        return TopicSubscription(asked, qos)
    no_local = draw(st.booleans()) and not asked.startswith("$share/")
    return TopicSubscription(asked, qos, no_local, draw(st.booleans()), draw(_QOS))


@st.composite
def _connacks(draw: st.DrawFn, held: st.SearchStrategy[Properties], *, is_5: bool) -> ConnAck:
    codes: list[ReasonCode | ReturnCode] = [*(CONNACK_REASONS.values() if is_5 else ReturnCode)]
    reason = draw(st.sampled_from(codes))
    return ConnAck(not reason and draw(st.booleans()), reason, draw(held))
