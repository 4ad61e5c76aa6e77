"""Light devices and a publisher at a running system.

Stands for: swarm, swarm_process, loaders, senders
"""

from pathlib import Path

import pytest
from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.senders import KafkaSender, Target
from coldnotify_load.swarm import Swarm, SwarmError
from coldnotify_load.tcp_device import ColdNotifyDevice
from coldnotify_testkit.stack import PARTITIONS, Stacks

pytestmark = [pytest.mark.kafka]
WAIT_S = 120.0
DEVICES = 20
POPULATION = Population(fan_out=10, registrations=2, groups=2)


def test_every_device_is_reached_also_after_it_was_away(stacks: Stacks, tmp_path: Path) -> None:
    with stacks.running(tmp_path) as up:
        host, _, port = up.kafka.rpartition(":")
        target = Target("Kafka", host, int(port), POPULATION, KafkaSender, PARTITIONS, up.topics)
        with (
            Swarm(ColdNotifyDevice, POPULATION, DEVICES, [up.gateway]) as swarm,
            PublisherHandle(target) as publisher,
        ):
            swarm.add(DEVICES, per_s=1000)
            with pytest.raises(SwarmError, match="1 devices more"):
                swarm.add(1)
            swarm.wait_ready(WAIT_S)
            swarm.record()
            published = publisher.publish(PublishPlan(20, 0.5, blocks=2, poisson=False))
            assert (published.sent, published.acknowledged, published.failed) == (10, 10, 0)
            swarm.wait(lambda counts: counts.reached == DEVICES, WAIT_S, "all are reached")
            swarm.drop()
            assert swarm.counts().connected == 0
            publisher.once(blocks=2)
            swarm.record(since_ns=0)
            swarm.come_back()
            swarm.wait_ready(WAIT_S)
            swarm.wait(lambda counts: counts.reached == DEVICES, WAIT_S, "all are told what they lacked")
