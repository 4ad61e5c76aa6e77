"""The protocols of the peers' devices, byte by byte, and of all in pieces.

Stands for: nats, redis, bare
"""

from dataclasses import replace
from itertools import pairwise

import pytest
from coldnotify_load.load_device import LoadDevice
from coldnotify_load.mqtt_device import publish
from coldnotify_load.population import Population
from coldnotify_loadtest.described import DescribedLoad
from coldnotify_loadtest.devices import KINDS, make
from coldnotify_loadtest.devices.queries import QueryDevice
from coldnotify_loadtest.devices.redis import Incomplete, command, value_at
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.light_frames import caught_up, message, notification, said, welcome

FEW = Population(fan_out=2, registrations=3, groups=2)
MANY = Population(fan_out=2, registrations=130)


def is_ready(device: LoadDevice) -> bool:
    """In a function: a checker of types does not believe that it changes."""
    return device.ready


@pytest.mark.parametrize("by", ["queries", "objects"])
def test_a_change_replaces_the_oldest_registrations(by: str) -> None:
    registered = DescribedLoad(fan_out=1, by_level=True, queries_each=0, registrations=3)
    if by == "queries":
        registered = replace(registered, queries_each=3, registrations=0, distinct=3)
    device = QueryDevice(registered, 0)
    device.hello()

    def changed() -> tuple[set[object], set[object]]:
        """What it had longest, and what is new."""
        gone, new = said(device.change(2))
        if by == "objects":
            return set(gone.unregister.objects), set(new.register.objects)
        return set(gone.unregister.interests), {query_hash(query.text) for query in new.register.interests}

    (first, once_new), (second, twice_new) = changed(), changed()
    assert len(first) == len(once_new) == len(twice_new) == 2
    assert len(second & once_new) == 1
    assert not first & once_new
    assert not (first | once_new) & twice_new
    assert device.change(2) == b"", "four requests are unanswered"


@pytest.mark.parametrize("cut_at", [1, 5, 20])
def test_bytes_may_come_in_any_pieces(cut_at: int) -> None:
    subscribed = b"\x20\x02\x00\x00\x90\x05\x00\x01\x01\x01\x01"
    by_mqtt = subscribed + publish("a", b"31", 1, retain=False) + publish("a", b"32", 2, retain=False)
    streams = {
        **dict.fromkeys(("mqtt", "mqtt-0", "coldnotify-mqtt", "coldnotify-mqtt-0"), by_mqtt),
        "coldnotify": welcome(in_sync=True) + caught_up(1) + notification(31, 2) + notification(32, 3),
        "coldnotify-queries": welcome(in_sync=True) + caught_up(1) + notification(31, 2) + notification(32, 3),
        "coldnotify-web": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
        + message(welcome(in_sync=True) + caught_up(1) + notification(31, 2))
        + b"\x8a\x00"
        + message(notification(32, 3)),
        "nats": b"INFO {}\r\nPONG\r\nMSG a.b 1 2\r\n31\r\nPING\r\nMSG a.b 1 2\r\n32\r\n",
        "nats-kv": b'INFO {}\r\nMSG _R.x 2 17\r\n{"num_pending":0}\r\nHMSG _D.x 1 b 12 12\r\nNATS/1.0\r\n\r\n\r\n'
        b"MSG $KV.b.k 1 $JS.ACK.s.c.1.1.1.1.0 2\r\n31\r\nMSG $KV.b.k 1 $JS.ACK.s.c.1.2.2.1.0 2\r\n32\r\n",
        "redis": b"%1\r\n$1\r\na\r\n:1\r\n>3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*1\r\n_\r\n"
        b">3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n31\r\n>3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\n32\r\n",
        "bare": b"!31\n32\n",
    }
    assert set(streams) == set(KINDS)
    for kind, stream in streams.items():
        device = make(kind, FEW, 0)
        device.hello()
        got: list[object] = []
        for begin, end in pairwise([*range(0, len(stream), cut_at), len(stream)]):
            got += device.receive(stream[begin:end])[1]
        assert got == [31, 32], kind
        assert is_ready(device), kind
        assert not device.closed, kind


def test_nats_answers_pings_and_flow_control_and_reports_errors() -> None:
    device = make("nats-kv", FEW, 0)
    hello = device.hello()
    assert hello.count(b"SUB ") == 2
    assert b'"filter_subjects": [' in hello
    assert device.receive(b"PING\r\n") == (b"PONG\r\n", ())
    control = b"NATS/1.0 100 FlowControl Request\r\n\r\n"
    asked = b"HMSG _D.x 1 back %d %d\r\n%s\r\n" % (len(control), len(control), control)
    assert device.receive(asked) == (b"PUB back 0\r\n\r\n", ())
    device.receive(b'MSG _R.x 2 27\r\n{"error":{"code":503,"a":1}}\r\n'.replace(b"27", b"28"))
    assert "503" in device.closed


def test_redis_values() -> None:
    assert command("GET", b"a") == b"*2\r\n$3\r\nGET\r\n$1\r\na\r\n"
    assert value_at(b":5\r\n", 0) == (5, 4)
    assert value_at(b"$-1\r\n", 0) == (None, 5)
    with pytest.raises(Incomplete):
        value_at(b"$5\r\nab", 0)
    device = make("redis", FEW, 0)
    device.hello()
    device.receive(b"-ERR no\r\n")
    assert device.closed == "-ERR no"
