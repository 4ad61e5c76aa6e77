"""Three nodes of Kafka in networks of their own. One that is cut off from the two others goes on answering who asks it:
nobody is wrong about their freshness by more than 15 s.
"""

import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher, PublishError
from coldnotify_kafka.broker import free_port
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.command import RunningCommand, coldnotify, http_status
from coldnotify_testkit.fresh_judge import FreshJudge, JudgedClient
from coldnotify_testkit.networked_kafka import NetworkedKafka
from coldnotify_testkit.networks import makes_networks
from coldnotify_testkit.stack import Recorder
from coldnotify_testkit.waiting import wait_for

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(600),
    pytest.mark.own_broker("stops nodes of three"),
    pytest.mark.skipif(not makes_networks(), reason="makes networks: as root, by iproute2"),
]

DOMAIN, GROUP, OBJECT = "animal.observer", "region-1", "camera-config"
PARTITIONS = 2
DEPOSED_S = 15.0
READY_S = 200.0
TOPICS = TopicNames()


def leader(by: str) -> int | None:
    """Returns the node that leads the group's objects, by the node at this address."""
    found = quiet_admin(by).list_topics(TOPICS.objects, timeout=10).topics[TOPICS.objects]
    number = found.partitions[partition_of(DOMAIN, GROUP, PARTITIONS)].leader
    return None if number < 0 else number


def test_a_node_that_was_deposed_makes_nobody_wrong(tmp_path: Path) -> None:
    with ExitStack() as stack:
        kafka = NetworkedKafka(stack, tmp_path / "kafka")

        def applied() -> bool:
            words = ("topics", "apply", "--replication", "3", "--partitions", str(PARTITIONS))
            return coldnotify(*words, kafka=kafka.bootstrap).returncode == 0

        wait_for(applied, "the topics are there", READY_S)
        port, http_port, matcher_port = free_port(), free_port(), free_port()
        ports = {"gateway_port": str(port), "gateway_http_port": str(http_port), "gateway_web_port": str(free_port())}
        services = {"matcher": {"matcher_port": str(matcher_port)}, "gateway": ports}
        for name, settings in services.items():
            log = tmp_path / f"{name}.log"
            stack.enter_context(RunningCommand(log, name, kafka=kafka.bootstrap, **settings))
        ready = [matcher_port, http_port]
        wait_for(lambda: all(http_status(one, "/readyz") == 200 for one in ready), "all are ready", READY_S)

        recorder, acknowledged = Recorder(), list[tuple[float, int]]()
        connection = Connection("127.0.0.1", port, keepalive_s=2, fresh_s=60)
        notify = Notify(DOMAIN, GROUP, "ou", State(None), connection)
        notify.register(OBJECT).subscribe(recorder)
        notify.connect()
        stack.callback(notify.disconnect)
        wait_for(lambda: notify.caught_up, "it is caught up", READY_S)
        one = JudgedClient(notify, 60.0, lambda: recorder.newest(OBJECT) or 0, acknowledged, grace_s=DEPOSED_S)
        stack.enter_context(FreshJudge(one))

        deposed = wait_for(lambda: leader(kafka.bootstrap), "there is a leader", READY_S)
        others = ",".join(address for node, address in kafka.nodes.items() if node != deposed)
        stopping = threading.Event()

        def publish() -> None:
            version = 0
            with Publisher(others, timeout_s=20) as publisher:
                while not stopping.wait(0.1):
                    version += 1
                    try:
                        publisher.publish(DOMAIN, GROUP, OBJECT, version=version)
                    except PublishError:
                        continue
                    acknowledged.append((time.time(), version))

        thread = threading.Thread(target=publish)
        thread.start()
        stack.callback(thread.join)
        stack.callback(stopping.set)
        wait_for(lambda: one.told() > 5, "it is told", READY_S)
        with kafka.networks.cut(deposed):
            cut_at = time.time()
            wait_for(lambda: leader(others) not in (None, deposed), "another one leads", READY_S)
            wait_for(lambda: acknowledged[-1][0] > cut_at + 5, "publishing goes on", READY_S)
            wait_for(lambda: one.as_of > cut_at + DEPOSED_S, f"fresh as of a later time; {one.faults[:3]}", READY_S)
            took_s = time.time() - cut_at
        wait_for(lambda: one.as_of > cut_at + took_s + 5, "and so it is with all nodes again", READY_S)
        late = [said.at - said.as_of for said in one.samples if said.as_of is not None]
        print(f"cut for {took_s:.0f} s; {len(acknowledged)} acknowledged, oldest fresh_as_of {max(late):.1f} s ago")
