"""The checks of `coldnotify doctor` of topics."""

import shlex
from collections.abc import Iterable

from coldnotify_common.plurals import number_of
from coldnotify_kafka import topic_plan
from coldnotify_kafka.errors import ColdNotifyKafkaError
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from coldnotify_cli import parts_in_kafka
from coldnotify_cli.findings import BAD, OK, WARNING, CheckFinding
from coldnotify_cli.settings import DoctorSettings

_REQUESTS = "requests"
"""The last part of a topic's name that every installation has."""
_OTHERS_SHOWN_MAX = 5
PARTITIONS_A_MATCHER = 2
_COPIES = 3
"""Copies of a partition in a cluster that has enough nodes."""
_POLICY, _DELETE = "cleanup.policy", "delete"


def topic_findings(settings: DoctorSettings, admin: AdminClient) -> Iterable[CheckFinding]:
    """Compares the topics with topics.yaml. More copies than --replication are as good."""
    try:
        copies = max(settings.replication, _copies(settings, admin))
        specs = parts_in_kafka.topics(settings.partitions or None, copies, settings.topics)
        plan = topic_plan.plan(admin, specs, settings.doctor_timeout_s, keep=not settings.partitions)
    except (ColdNotifyKafkaError, KafkaException) as error:
        words = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        yield CheckFinding(BAD, "topics", words, "try again, with a longer --doctor-timeout-s if Kafka is busy")
        return
    todo = f"coldnotify topics apply --replication {copies}"
    missing = [change for change in plan.changes if isinstance(change, topic_plan.CreateTopic)]
    if len(missing) == len(specs) and (others := _other_prefixes(settings, admin)):
        todo += f"; or is COLDNOTIFY_TOPICS_PREFIX / --topics-prefix wrong: this cluster has topics under {others}"
    losing = [one for one in plan.refusals if one.key == _POLICY and _DELETE in one.old and _DELETE not in one.new]
    for one in losing:
        words = (
            f"EMERGENCY: {one.topic} has {_POLICY}={one.old}: Kafka deletes the newest versions, too, once they are old"
        )
        yield CheckFinding(BAD, "topics", words, f"do now: {_mended(settings, one.topic, one.new)}")
    for change in plan.changes:
        yield CheckFinding(BAD, "topics", str(change), todo)
    for refusal in plan.refusals:
        if refusal not in losing:
            words = "`apply` does not do that; are --partitions and --replication right?"
            yield CheckFinding(BAD, "topics", str(refusal), words)
    yield from uneven_shares(settings, admin)
    if not plan.changes and not plan.refusals:
        each = number_of(copies, "copy", "copies")
        words = f"{len(specs)} under {settings.topics_prefix}, as topics.yaml wants them, {each} each"
        yield CheckFinding(OK, "topics", words)


def uneven_shares(settings: DoctorSettings, admin: AdminClient) -> Iterable[CheckFinding]:
    """Warns of fewer than two partitions for each matcher: shares are uneven then, and one more may have none."""
    group = settings.topics.group("matcher")
    asked = admin.describe_consumer_groups([group], request_timeout=settings.doctor_timeout_s)
    try:
        matchers = len(asked[group].result(settings.doctor_timeout_s + 1).members)
        objects = admin.list_topics(settings.topics.objects, settings.doctor_timeout_s).topics[settings.topics.objects]
    except (KafkaException, TimeoutError):
        return  # its other checks say that Kafka does not answer, and services are asked by themselves
    if objects.partitions and len(objects.partitions) < PARTITIONS_A_MATCHER * matchers:
        words = (
            f"{number_of(len(objects.partitions), 'partition')} for {number_of(matchers, 'matcher')}: shares are uneven"
        )
        todo = "coldnotify rebalance --plan shows them; coldnotify topics copy makes more partitions"
        yield CheckFinding(WARNING, "topics", words, todo)


def _copies(settings: DoctorSettings, admin: AdminClient) -> int:
    """Returns the replication factor of the objects' topic, or the one for a cluster of so many nodes."""
    found = admin.list_topics(timeout=settings.doctor_timeout_s)
    objects = found.topics.get(settings.topics.objects)
    if objects is not None and objects.partitions:
        return min(len(one.replicas) for one in objects.partitions.values())
    return _COPIES if len(found.brokers) >= _COPIES else 1


def _mended(settings: DoctorSettings, topic: str, policy: str) -> str:
    """Returns the command that sets the policy. `apply` refuses this change, because it may lose data elsewhere."""
    at = ["--bootstrap-server", settings.kafka, "--alter", "--entity-type", "topics", "--entity-name", topic]
    return shlex.join(["coldnotify", "kafka-tool", "configs", *at, "--add-config", f"{_POLICY}={policy}"])


def _other_prefixes(settings: DoctorSettings, admin: AdminClient) -> str:
    """Returns the prefixes of installations that have topics of requests and registrations here; "": none has."""
    try:
        there = set(admin.list_topics(timeout=settings.doctor_timeout_s).topics)
    except KafkaException:
        return ""
    prefixes = {topic.removesuffix(_REQUESTS) for topic in there if topic.endswith(_REQUESTS)}
    found = sorted(one for one in prefixes if one and f"{one}registrations" in there)
    return ", ".join(found[:_OTHERS_SHOWN_MAX]) + (" ..." if len(found) > _OTHERS_SHOWN_MAX else "")
