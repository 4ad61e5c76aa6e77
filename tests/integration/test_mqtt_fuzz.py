"""Any packets and any bytes from devices: no gateway ends, and no other connection does."""

import random
from contextlib import suppress

import pytest
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import Connect
from coldnotify_testkit.mqtt_packets import connects, packets
from coldnotify_testkit.raw_packets import RawPackets
from coldnotify_testkit.stack import Up
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.kafka

CONNECTIONS = 60
V5 = ProtocolVersion.MQTT_5


def port_of(up: Up) -> int:
    return int(str(up.report["mqtt"]).rpartition(":")[2])


@st.composite
def streams(draw: st.DrawFn) -> bytes:
    """What one connection says: packets behind a CONNECT, some with a wrong byte, in any order."""
    protocol = draw(st.sampled_from(ProtocolVersion))
    name = draw(st.sampled_from(["fuzz-1", "fuzz-2", "fuzz-3"]))
    polite = Connect(protocol, f"animal.observer/region-1/{name}", draw(st.booleans()), 30)
    first = draw(st.one_of(st.just(polite), st.just(polite), connects(protocol)))
    said = [encode(one, protocol) for one in (first, *draw(st.lists(packets(protocol, Side.CLIENT), max_size=12)))]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(said) - 1))
        spoilt = bytearray(said[place])
        spoilt[draw(st.integers(0, len(spoilt) - 1))] = draw(st.integers(0, 255))
        said[place] = bytes(spoilt)
    return b"".join(said)


def test_nothing_that_a_device_says_ends_the_gateway_or_another_connection(up: Up) -> None:
    pids = up.report["pids"]

    with RawPackets(port_of(up)) as other:
        other.connect("animal.observer/region-1/beside")
        other.subscribe("beside/#")

        @settings(max_examples=CONNECTIONS, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(said=streams(), cut=st.integers(1, 200))
        def connection(said: bytes, cut: int) -> None:
            with RawPackets(port_of(up)) as raw, suppress(OSError):
                for start in range(0, len(said), cut):
                    raw.send(said[start : start + cut])

        connection()
        with RawPackets(port_of(up)) as noise, suppress(OSError):
            noise.send(random.Random(7).randbytes(100_000))
        other.ping()
        other.publish("beside/a", b"still there")
        assert other.told_up_to(b"still there")
    assert up.dead(pids) == []
