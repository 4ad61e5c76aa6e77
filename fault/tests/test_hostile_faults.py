"""Hostile records as a fault: the same for a seed, written to a real Kafka, and of nobody whom a campaign judges."""

import pytest
from coldnotify_fault import hostile_faults
from coldnotify_fault.hostile_faults import DOMAIN, Hostiles
from coldnotify_fault.schedule import DOMAINS, FaultKind, schedule
from coldnotify_kafka import topics
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.hostile_records.generator import Generator
from coldnotify_testkit.hostile_records.records import KnownToAttacker
from coldnotify_testkit.hostile_writer import by_kind
from coldnotify_testkit.waiting import wait_for

BATCHES = 150


def attacks(seed: int, *kinds: FaultKind) -> list[tuple[float, int]]:
    steps = schedule(seed, 60.0, kinds=kinds).steps
    return [(step.at_s, step.arguments["batches"]) for step in steps if step.target == hostile_faults.TARGET]


def test_a_seed_draws_the_same_attacks_and_only_on_request() -> None:
    assert attacks(1, FaultKind.HOSTILE_RECORDS) == attacks(1, *FaultKind) != attacks(2, *FaultKind)
    assert attacks(1, FaultKind.MATCHER_KILLED) == []
    assert all(attacks(seed, *FaultKind) for seed in range(10))


def test_an_attack_spares_the_campaigns_own_domains() -> None:
    known = KnownToAttacker(
        4, 16, hostile_faults.GROUPS, ("ou-1",), ("config",), 10**12, domain=DOMAIN, spared_domains=DOMAINS
    )
    generator = Generator(1, kinds=[])
    for _ in range(2_000):
        for record in generator.record(known).batch.records:
            said = (record.key or b"") + (record.value or b"")
            assert not any(domain.encode() in said for domain in DOMAINS)


@pytest.mark.kafka
def test_an_attack_reaches_the_topics_and_the_end_does_not_wait_for_it(fresh_kafka: EmbeddedBroker) -> None:
    hostiles = Hostiles(
        fresh_kafka.bootstrap,
        TopicNames(),
        1,
        partitions={spec.name: spec.partitions for spec in topics.load(topics.EMBEDDED_PARTITIONS)},
        requests_topic_id="",
        spared_domains=DOMAINS,
        spared_tenants=(),
    )
    try:
        hostiles.attack(BATCHES)
        wait_for(hostiles.idle, "the attack is over")
        assert len({topic for topic, _ in hostiles.writer.written}) > 10, hostiles.words
        assert len(by_kind(hostiles.writer.written)) > 10, hostiles.words
        hostiles.attack(10**9)
    finally:
        hostiles.close()
    assert not hostiles.idle()


def test_without_kafka_an_attack_ends_soon() -> None:
    partitions = {spec.name: spec.partitions for spec in topics.load(topics.EMBEDDED_PARTITIONS)}
    hostiles = Hostiles(
        "127.0.0.1:1",
        TopicNames(),
        1,
        partitions=partitions,
        requests_topic_id="",
        spared_domains=(),
        spared_tenants=(),
    )
    try:
        hostiles.attack(BATCHES)
        wait_for(hostiles.idle, "the attack is over")
    finally:
        hostiles.close()
    assert 0 < hostiles.writer.unanswered.total() < BATCHES
