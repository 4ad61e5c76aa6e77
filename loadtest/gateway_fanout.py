"""What a fan-out costs the gateway: CPU per delivery and latency, with a real Kafka and the matcher's part played here.

A quick look while working on the gateway, not a benchmark of the product: publishes go into the inbox directly.

    python loadtest/gateway_fanout.py --clients 1000 --rates 25,100,200 --seconds 10
    python loadtest/gateway_fanout.py --clients 1000 --fan-out 1 --acks --rates 0,100,1000
"""

import argparse
import multiprocessing
import selectors
import socket
import struct
import sys
import time
from multiprocessing.connection import Connection

from coldnotify_loadtest.processes import usage
from coldnotify_schemas.frames import GATEWAY_FRAME_BYTES_MAX, FrameBuffer, parse_gateway_frame
from coldnotify_schemas.internal_pb2 import Inbox
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.gateway_process import GatewayProcess, MatcherOnKafka
from coldnotify_testkit.kafka import broker, reset_topics
from coldnotify_testkit.matcher_double import ack, fan_out, hello
from coldnotify_testkit.waiting import wait_for

PARTITIONS = 8
PARTITION = partition_of("animal.observer", "region-1", PARTITIONS)
OBJECT = "camera-config"
_SPREAD = 7
"""Latency is taken at every seventh client: parsing all frames would load the machine more than the gateway does."""
_ACKS_S = 1.0


def devices(port: int, clients: int, acks: bool, report: Connection) -> None:
    """A process with all clients: connects them, then counts bytes and times what the sampled ones get.

    `acks`: who has got something acknowledges it, once a second.
    """
    selector = selectors.DefaultSelector()
    for i in range(clients):
        client = socket.create_connection(("127.0.0.1", port))
        client.sendall(hello(f"client-{i}", wanted=(OBJECT,), register=(OBJECT,), keepalive_s=3600))
        client.setblocking(False)
        sampled = i % _SPREAD == 0
        selector.register(client, selectors.EVENT_READ, FrameBuffer(GATEWAY_FRAME_BYTES_MAX) if sampled else None)
    report.send("connected")
    latencies_ms: list[float] = []
    selector.register(report, selectors.EVENT_READ, report)
    told: set[socket.socket] = set()
    acknowledged = 0
    next_ack_s = time.monotonic() + _ACKS_S
    while True:
        if acks and time.monotonic() >= next_ack_s:
            next_ack_s += _ACKS_S
            acknowledged += 1
            for client in told:
                client.sendall(ack(acknowledged))
            told.clear()
        for key, _ in selector.select(0.05):
            if key.data is report:
                if report.recv() == "stop":
                    return
                report.send(latencies_ms)
                latencies_ms = []
                continue
            data = key.fileobj.recv(65536)  # type: ignore[union-attr]
            told.add(key.fileobj)  # type: ignore[arg-type]
            now_ns = time.time_ns()
            for body in key.data.feed(data) if key.data is not None else ():
                said = parse_gateway_frame(body).notification
                if said.version > 1_000_000:
                    latencies_ms.append((now_ns - said.version) / 1e6)


def percentile(values: list[float], share: float) -> float:
    """Of sorted values."""
    return values[min(len(values) - 1, int(share * len(values)))] if values else float("nan")


def main() -> int:
    """Prints one line a rate."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--rates", default="25,100,200", help="publishes a second, one after the other")
    parser.add_argument("--fan-out", type=int, default=0, help="clients that a publish is for, in turn; 0: all")
    parser.add_argument("--acks", action="store_true", help="clients acknowledge, once a second")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    with broker() as kafka:
        reset_topics(kafka.bootstrap)
        with (
            GatewayProcess(kafka.bootstrap) as gateway,
            MatcherOnKafka(kafka.bootstrap, PARTITIONS) as matcher,
        ):
            port = gateway.wait_ready().port
            here, there = multiprocessing.Pipe()
            process = multiprocessing.get_context("spawn").Process(
                target=devices, args=(port, arguments.clients, arguments.acks, there), daemon=True
            )
            process.start()
            assert here.recv() == "connected"
            live = 'coldnotify_gateway_sessions{state="live"}'
            wait_for(lambda: gateway.metric(live) == arguments.clients, "all live")
            say = sys.stdout.write
            say(f"gateway: process {gateway.process.pid}\n")
            say(f"{'a second':>9} {'deliveries':>11} {'us CPU each':>12} {'ms CPU/s':>9} {'p50 ms':>7} {'p99 ms':>7}\n")
            for rate in map(float, arguments.rates.split(",")):
                measure(gateway, matcher, here, rate, arguments.seconds, arguments.fan_out or arguments.clients)
            here.send("stop")
            process.join(10)
            gateway.stop()
    return 0


def measure(
    gateway: GatewayProcess, matcher: MatcherOnKafka, devices_: Connection, rate: float, seconds: float, fan_out_to: int
) -> None:
    """One rate: paced publishes into the inbox, their time as the version. Rate 0: what waiting costs."""
    inbox, double = gateway.json("/v1/gateway")["inbox"], matcher.matchers[PARTITION]
    sessions = [session.number for session in double.sessions.values()]
    packed = [
        struct.pack(f"<{fan_out_to}I", *sessions[at : at + fan_out_to])
        for at in range(0, len(sessions) - fan_out_to + 1, fan_out_to)
    ]
    gateway_id = int(gateway.json("/v1/gateway")["gateway"], 16)
    devices_.send("report")
    devices_.recv()
    before_s, before = usage([gateway.process.pid]).cpu_s, gateway.metric("coldnotify_gateway_deliveries_total")
    start_s = time.monotonic()
    count = int(rate * seconds)
    for i in range(count):
        time.sleep(max(0.0, start_s + i / rate - time.monotonic()))
        item = fan_out(OBJECT, time.time_ns(), i + 1)
        item.fan_out.sessions = packed[i % len(packed)]
        with matcher.lock:
            number = double._numbers[gateway_id] = double._numbers[gateway_id] + 1
            record: Inbox = double.record(gateway_id, number, item)
            matcher.produce(inbox, record)
    time.sleep(max(0.0, start_s + seconds - time.monotonic()))
    expected = before + count * fan_out_to
    wait_for(lambda: gateway.metric("coldnotify_gateway_deliveries_total") >= expected, "all delivered")
    spent_s, passed_s = usage([gateway.process.pid]).cpu_s - before_s, time.monotonic() - start_s
    time.sleep(0.5)
    devices_.send("report")
    latencies_ms = sorted(devices_.recv())
    deliveries = count * fan_out_to
    sys.stdout.write(
        f"{rate:9.0f} {deliveries:11d} {spent_s / max(deliveries, 1) * 1e6:12.2f} {spent_s / passed_s * 1e3:9.1f} "
        f"{percentile(latencies_ms, 0.5):7.1f} {percentile(latencies_ms, 0.99):7.1f}\n"
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
