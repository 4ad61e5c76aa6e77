"""One MQTT connection that publishes with QoS 1 as fast as it is acknowledged, at a gateway and at mosquitto."""

import select
import socket
import time
from collections import deque

from coldnotify_load import mqtt_device
from coldnotify_load.latencies import Latencies
from coldnotify_load.processes import Meter

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, chosen, identity
from coldnotify_loadtest.servers import ColdNotifyMqtt, Mosquitto, Server, ServerError
from coldnotify_loadtest.tables import SERVER, Shape

_CONNACK, _PUBACK = 2, 4
_TOPICS = 100
_RECEIVE_BYTES = 65_536


def run(bench: BenchRun) -> None:
    """Per repeat, server and kind of message: a row of the rate, and of the time from PUBLISH to PUBACK."""
    for repeat in range(bench["repeats"]):
        for kind in bench.servers():
            with kind(bench.new_directory()) as server:
                server.warm_up(bench["warm_up_s"])
                for retain in (False, True):
                    said = "retained" if retain else "messages"
                    bench.progress.step(f"{kind.name}, {said}, repeat {repeat + 1}")
                    bench.rows.append(
                        {**identity(server), "repeat": repeat, "kind": said, **_publish(bench, server, retain)}
                    )


def _publish(bench: BenchRun, server: Server, retain: bool) -> dict[str, object]:
    """Keeps `window` publishes unacknowledged for `seconds`; PUBACKs come in order. Raises ServerError."""
    payload = b"x" * bench["payload_bytes"]
    latencies, waiting, sent, left = Latencies(), deque[tuple[int, int]](), 0, b""
    with socket.create_connection(server.addresses()[0], READY_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(mqtt_device.connect("animal.observer/region-1/publisher", clean=True))
        while not (packets := mqtt_device.cut(left)[0]):
            left += connection.recv(_RECEIVE_BYTES)
        if packets[0][0] >> 4 != _CONNACK or packets[0][1][1]:
            raise ServerError(f"it is not connected: {packets[0]}")
        left, meter, begun_s = b"", Meter(server.roles()), time.monotonic()
        until_s = begun_s + bench["seconds"]
        while waiting or time.monotonic() < until_s:
            more = b""
            while len(waiting) < bench["window"] and time.monotonic() < until_s:
                sent += 1
                packet_id = sent % 65535 + 1
                waiting.append((packet_id, time.monotonic_ns()))
                more += mqtt_device.publish(f"publishing/{sent % _TOPICS}", payload, packet_id, retain=retain)
            connection.sendall(more)
            if not select.select([connection], [], [], READY_S)[0]:
                raise ServerError("no PUBACK comes")
            data = connection.recv(_RECEIVE_BYTES)
            if not data:
                raise ServerError("it has closed the connection")
            packets, left = mqtt_device.cut(left + data)
            now_ns, taken = time.monotonic_ns(), []
            for first, body in packets:
                packet_id, sent_ns = waiting.popleft()
                if first >> 4 != _PUBACK or int.from_bytes(body[:2], "big") != packet_id:
                    raise ServerError(f"expected the PUBACK of {packet_id}, got {first:#x} {body!r}")
                taken.append(now_ns - sent_ns)
            latencies.add_ns(taken)
        passed_s, used = time.monotonic() - begun_s, meter.read()
    return {
        "published": sent,
        "per_s": round(sent / passed_s),
        **latencies.summary(),
        "cpu_us": round(sum(role["cpu_s"] for role in used.values()) / sent * 1e6, 1),
    }


def steps(parameters: Parameters) -> int:
    """Measurements."""
    return 2 * len(chosen(parameters)) * int(parameters["repeats"])


def seconds(parameters: Parameters) -> float:
    """About."""
    a_server = parameters["warm_up_s"] + 12 + 2 * parameters["seconds"]
    return float(len(chosen(parameters)) * parameters["repeats"] * a_server)


_TABLES = (
    Shape(
        "One MQTT connection publishes with QoS 1",
        {**SERVER, "": "kind"},
        {"acknowledged/s": "per_s", "median ms": "p50_ms", "p99": "p99_ms", "CPU us a publish": "cpu_us"},
    ),
)
MQTT_PUBLISHING = Experiment(
    "mqtt-publishing",
    "an MQTT connection that publishes with QoS 1",
    {
        "payload_bytes": 100,
        "window": 64,
        "seconds": 10,
        "warm_up_s": 20,
        "repeats": 3,
        "servers": f"{ColdNotifyMqtt.name},{Mosquitto.name}",
    },
    {"seconds": 1, "warm_up_s": 0, "repeats": 1},
    seconds,
    steps,
    run,
    _TABLES,
)
