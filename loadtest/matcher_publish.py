"""What a publish costs the matcher when it has plenty to do: one online subscriber each, a real Kafka, no gateway.

A quick look while working on the matcher, not a benchmark of the product: the publisher is as fast as it can, so the
matcher takes large batches; nobody reads what it says.

    python loadtest/matcher_publish.py
    python loadtest/matcher_publish.py --publishes 400000 --clients 1000 --repeats 5
"""

import argparse
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_loadtest.processes import usage
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.partitioner import partition_of
from coldnotify_testkit.kafka import broker, reset_topics
from coldnotify_testkit.matcher_process import DOMAIN, PARTITIONS, MatcherProcess, Player
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer

_GROUPS = 64
_HANDLED = re.compile(r"^coldnotify_matcher_deliveries_total (\S+)", re.MULTILINE)


def deliveries(process: MatcherProcess) -> int:
    """How many it has made durable so far."""
    found = _HANDLED.search(process.get("/metrics")[1])
    return int(float(found[1])) if found else 0


def has_told(process: MatcherProcess, count: int) -> bool:
    """Whether it has told so many sessions of publishes."""
    return deliveries(process) >= count


def run(publishes: int, clients: int, repeats: int) -> None:
    """With a broker and a matcher of its own."""
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        kafka = stack.enter_context(broker())
        reset_topics(kafka.bootstrap)
        process = stack.enter_context(MatcherProcess(kafka.bootstrap, Path(directory, "matcher.log")))
        process.wait_serving()
        measure(kafka, process, publishes, clients, repeats)


def measure(kafka: EmbeddedBroker, process: MatcherProcess, publishes: int, clients: int, repeats: int) -> None:
    """One line each time."""
    player = Player(kafka.bootstrap)
    keys = opened(player, clients)
    producer = Producer(
        {"bootstrap.servers": kafka.bootstrap, "linger.ms": 20, "queue.buffering.max.messages": publishes + 1}
    )
    for _ in range(repeats):
        before, began_s = deliveries(process), time.monotonic()
        used_s = [-usage([pid]).cpu_s for pid in (process.process.pid, kafka.pid)]
        for number in range(publishes):
            stamp = time.time_ns()
            value = b'{"version":%d,"payload":%d}' % (stamp, stamp)
            producer.produce(topics.OBJECTS, value, *keys[number % clients])
            if not number % 1000:
                producer.poll(0)
        producer.flush()
        beat(player)  # without one for 15 s its sessions would count as offline
        wait_for(partial(has_told, process, before + publishes), "all publishes handled")
        took_s = time.monotonic() - began_s
        matcher_us, broker_us = (
            (used + usage([pid]).cpu_s) / publishes * 1e6
            for used, pid in zip(used_s, (process.process.pid, kafka.pid), strict=True)
        )
        words = f"matcher {matcher_us:.1f} us of CPU a publish, broker {broker_us:.1f} us"
        sys.stdout.write(f"{words}, {publishes / took_s:.0f} publishes a second\n")
        sys.stdout.flush()
    player.close()


def opened(player: Player, clients: int) -> list[tuple[bytes, int]]:
    """Each client has a session and one object: (key, partition) of these."""
    keys = []
    for number in range(clients):
        group = f"group-{number % _GROUPS}"
        player.open(f"object-{number}", session=number + 1, client=f"client-{number}", group=group)
        keys.append((f"{DOMAIN}/{group}/object-{number}".encode(), partition_of(DOMAIN, group, PARTITIONS)))
    beat(player)
    player.wait(lambda items: sum(item.page.last for item in items) == clients, "all sessions, live")
    beat(player)
    return keys


def beat(player: Player) -> None:
    """A Beat to each partition."""
    groups = {partition_of(DOMAIN, f"group-{n}", PARTITIONS): f"group-{n}" for n in range(_GROUPS)}
    for group in groups.values():
        player.request(group=group, beat=internal_pb2.Beat(serial=1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--publishes", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    run(arguments.publishes, arguments.clients, arguments.repeats)


if __name__ == "__main__":
    main()
