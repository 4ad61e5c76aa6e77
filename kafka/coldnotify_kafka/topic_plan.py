"""Compares a Kafka with the topics as they should be, and applies the difference: without losing data, or not at all.

`plan` only reads. `apply` plans, refuses as a whole if one change is refused, and else makes the remaining changes:
applied again, it finds nothing to change. `create_missing` changes no topic that is there.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import Any

from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from coldnotify_kafka.errors import TopicsNotAppliedError, TopicsRefusedError
from coldnotify_kafka.topics import TopicSpec

APPLY_SECONDS_MAX = 60.0
"""Default limit: an embedded broker takes under a second for all topics, a busy cluster some seconds."""
_POLL_SECONDS = 0.05
_LOOK_AGAIN_S = 0.5
"""Topics are made and deleted on one broker first: another that is asked may not have heard of it for a moment."""

_RETENTIONS = ("retention.ms", "retention.bytes")
_UNLIMITED = -1
SHUT_BYTES, TAKES_BYTES = "1", "1048588"
"""max.message.bytes of topics that were copied under another prefix and take nothing any more, and of all others."""
BEING_COPIED = "CreateTime"
"""message.timestamp.type of a log of channels while it is copied: its messages keep their time."""
_CHANNELS = tuple(name.removeprefix(DEFAULT_PREFIX) for name in TopicNames().channels)
_PARTITIONS = "partitions"
"""The key of a refusal that is about their number."""


@dataclass(frozen=True)
class CreateTopic:
    """The topic does not exist."""

    spec: TopicSpec

    def __str__(self) -> str:
        settings = "".join(f"\n      {key} = {value}" for key, value in self.spec.settings.items())
        copies = f"replication factor {self.spec.replication_factor}"
        return f"+ {self.spec.name}: create with {self.spec.partitions} partitions, {copies}{settings}"


@dataclass(frozen=True)
class AlterSetting:
    """A setting has another value; `old` is None if the broker does not know the setting yet."""

    topic: str
    key: str
    old: str | None
    new: str

    def __str__(self) -> str:
        return f"~ {self.topic}: {self.key}: {self.old} -> {self.new}"


@dataclass(frozen=True)
class AddPartitions:
    """The topic has fewer partitions than it should, and may have more."""

    topic: str
    old: int
    new: int

    def __str__(self) -> str:
        return f"~ {self.topic}: partitions: {self.old} -> {self.new}"


@dataclass(frozen=True)
class PlanRefusal:
    """A difference that is not brought away, and why."""

    topic: str
    key: str
    old: str
    new: str
    why: str

    def __str__(self) -> str:
        return f"! {self.topic}: {self.key}: {self.old} -> {self.new} is refused: {self.why}"


Change = CreateTopic | AlterSetting | AddPartitions


@dataclass(frozen=True)
class TopicPlan:
    """The differences: `changes` that `apply` would make, and `refusals` that keep it from making any."""

    changes: tuple[Change, ...]
    refusals: tuple[PlanRefusal, ...]

    def __str__(self) -> str:
        lines = [str(item) for item in (*self.changes, *self.refusals)]
        return "\n".join(lines) if lines else "nothing to change"


@dataclass(frozen=True)
class ExistingTopic:
    """One topic as Kafka has it: all its settings, defaults included."""

    partitions: int
    replication_factor: int
    settings: Mapping[str, str | None] = field(default_factory=dict)


def plan(
    admin: AdminClient, specs: Iterable[TopicSpec], timeout: float = APPLY_SECONDS_MAX, *, keep: bool = False
) -> TopicPlan:
    """Returns how the Kafka behind `admin` differs from `specs`; changes nothing.

    `timeout` in seconds; `keep`: co-partitioned topics keep their number, see `kept`. Raises TopicsNotAppliedError if
    Kafka does not answer, or has too few brokers.
    """
    specs = list(specs)
    deadline = time.monotonic() + timeout
    _, todo = _compared(admin, specs, deadline, keep=keep)
    _check_brokers(admin, todo, deadline)
    return todo


def apply(
    admin: AdminClient, specs: Iterable[TopicSpec], timeout: float = APPLY_SECONDS_MAX, *, keep: bool = False
) -> TopicPlan:
    """Makes the planned changes, waits until they are in force and each partition serves, and returns what was done.

    May be repeated, even after it failed half-way. `timeout` and `keep` as in plan. Raises TopicsRefusedError before
    anything is changed, TopicsNotAppliedError if Kafka does not make a change or not in time.
    """
    specs = list(specs)
    deadline = time.monotonic() + timeout
    specs, todo = _compared(admin, specs, deadline, keep=keep)
    if todo.refusals:
        raise TopicsRefusedError("nothing was changed:\n" + "\n".join(map(str, todo.refusals)))
    _check_brokers(admin, todo, deadline)
    _create(admin, [change.spec for change in todo.changes if isinstance(change, CreateTopic)], deadline)
    _add_partitions(admin, [change for change in todo.changes if isinstance(change, AddPartitions)], deadline)
    _alter(admin, [change for change in todo.changes if isinstance(change, AlterSetting)], deadline)
    _wait_until_served(admin, specs, deadline)
    return todo


def create_missing(
    admin: AdminClient, specs: Iterable[TopicSpec], timeout: float = APPLY_SECONDS_MAX, *, keep: bool = False
) -> TopicPlan:
    """Creates the topics that do not exist, waits until they serve, and returns what differed. Changes nothing else.

    May be repeated. `timeout` and `keep` as in plan. Raises TopicsRefusedError before anything is created where
    co-partitioned topics have another number of partitions, TopicsNotAppliedError as `apply`.
    """
    specs = list(specs)
    deadline = time.monotonic() + timeout
    specs, todo = _compared(admin, specs, deadline, keep=keep)
    co_partitioned = {spec.name for spec in specs if spec.co_partitioned}
    apart = [one for one in todo.refusals if one.key == _PARTITIONS and one.topic in co_partitioned]
    if apart:
        raise TopicsRefusedError("nothing was changed:\n" + "\n".join(map(str, apart)))
    _check_brokers(admin, todo, deadline)
    missing = [change.spec for change in todo.changes if isinstance(change, CreateTopic)]
    _create(admin, missing, deadline)
    if missing:
        _wait_until_served(admin, missing, deadline)
    return todo


def kept(specs: Sequence[TopicSpec], existing: Mapping[str, ExistingTopic]) -> list[TopicSpec]:
    """Returns the specs with as many co-partitions as there are: nobody said another number, and it cannot change."""
    there = next((existing[one.name].partitions for one in specs if one.co_partitioned and one.name in existing), None)
    return [one if there is None or not one.co_partitioned else replace(one, partitions=there) for one in specs]


def _compared(
    admin: AdminClient, specs: Sequence[TopicSpec], deadline: float, *, keep: bool
) -> tuple[list[TopicSpec], TopicPlan]:
    existing = _existing(admin, [spec.name for spec in specs], deadline)
    wanted = kept(specs, existing) if keep else list(specs)
    return wanted, compare(wanted, existing)


def compare(specs: Sequence[TopicSpec], existing: Mapping[str, ExistingTopic]) -> TopicPlan:
    """The plan for a Kafka that has these topics: a pure function."""
    changes: list[Change] = []
    refusals: list[PlanRefusal] = []
    for spec in specs:
        found = existing.get(spec.name)
        if found is None:
            changes.append(CreateTopic(spec))
            continue
        for item in _differences(spec, found):
            if isinstance(item, PlanRefusal):
                refusals.append(item)
            else:
                changes.append(item)
    # Creating what is missing beside topics with another count would break co-partitioning as well; but then those
    # others are refused by themselves, and with them the whole plan.
    return TopicPlan(tuple(changes), tuple(refusals))


def _differences(spec: TopicSpec, found: ExistingTopic) -> Iterable[Change | PlanRefusal]:
    if spec.partitions != found.partitions:
        why = _why_not_partitions(spec, found.partitions)
        if why:
            yield PlanRefusal(spec.name, _PARTITIONS, str(found.partitions), str(spec.partitions), why)
        else:
            yield AddPartitions(spec.name, found.partitions, spec.partitions)
    if spec.replication_factor != found.replication_factor:
        yield PlanRefusal(
            spec.name,
            "replication factor",
            str(found.replication_factor),
            str(spec.replication_factor),
            "replicas are moved with Kafka's own tool (reassign-partitions), not here",
        )
    for key, new in spec.settings.items():
        old = found.settings.get(key)
        if _same(old, new):
            continue
        why = _why_not_setting(spec, key, old, new) if old is not None else None
        if old is not None and why:
            yield PlanRefusal(spec.name, key, old, new, why)
        else:
            yield AlterSetting(spec.name, key, old, new)


def _why_not_partitions(spec: TopicSpec, old: int) -> str | None:
    if spec.co_partitioned:
        return (
            "the partition is part of every client's cursor and the same in all co-partitioned topics; another number "
            f"would separate the clients from their objects. Keep {old} (setting partitions), or start with new topics"
        )
    if spec.partitions < old:
        return "Kafka cannot take partitions away"
    return None


def _why_not_setting(spec: TopicSpec, key: str, old: str, new: str) -> str | None:
    """Why this change would lose data; None where it would not."""
    if key == "max.message.bytes" and old == SHUT_BYTES:
        return "it was copied under another prefix, and takes nothing any more: use --topics-prefix of the copy"
    if key == "message.timestamp.type" and old == BEING_COPIED and spec.name.endswith(_CHANNELS):
        return "it is being copied: `coldnotify topics copy --switch` ends that"
    by_hand = "If it is meant, do it with Kafka's own tool (configs)"
    if key == "cleanup.policy":
        if "delete" in new:
            return f"what is kept for ever now would be deleted when it gets old. {by_hand}"
        return f"of the records with one key all but the last would be deleted. {by_hand}"
    if key in _RETENTIONS and _limit(new) < _limit(old):
        return f"records that are to be kept by now would be deleted. {by_hand}"
    if key == "min.insync.replicas" and int(new) < int(old):
        return f"writes would be acknowledged that fewer replicas have. {by_hand}"
    if key == "unclean.leader.election.enable" and new == "true":
        return f"a replica that missed acknowledged records could become leader. {by_hand}"
    return None


def _limit(value: str) -> float:
    number = int(value)
    return float("inf") if number == _UNLIMITED else number


def _same(old: str | None, new: str) -> bool:
    if old is None:
        return False
    try:
        # 0.10 and 0.1, as a person and as the broker writes it.
        return float(old) == float(new)
    except ValueError:
        return old == new


def _existing(admin: AdminClient, wanted: Sequence[str], deadline: float) -> dict[str, ExistingTopic]:
    """Returns those of the wanted topics that exist."""
    while True:
        try:
            return _described(admin, wanted, deadline)
        except TopicsNotAppliedError as error:
            cause = error.__cause__
            unknown = isinstance(cause, KafkaException) and cause.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART
            if not unknown or time.monotonic() + _LOOK_AGAIN_S >= deadline:
                raise
        time.sleep(_LOOK_AGAIN_S)


def _described(admin: AdminClient, wanted: Sequence[str], deadline: float) -> dict[str, ExistingTopic]:
    found = {name: topic for name, topic in _metadata(admin, deadline).items() if name in wanted}
    if not found:
        return {}
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in found]
    answers = admin.describe_configs(resources, request_timeout=_left(deadline, "reading settings"))
    settings: dict[str, dict[str, str | None]] = {}
    for resource, answer in answers.items():
        entries = _result(answer, deadline, f"{resource.name}: reading settings")
        settings[resource.name] = {key: entry.value for key, entry in entries.items()}
    return {
        name: ExistingTopic(
            len(topic.partitions), max(len(p.replicas) for p in topic.partitions.values()), settings[name]
        )
        for name, topic in found.items()
    }


def _create(admin: AdminClient, specs: Sequence[TopicSpec], deadline: float) -> None:
    if not specs:
        return
    new = [
        NewTopic(
            spec.name,
            num_partitions=spec.partitions,
            replication_factor=spec.replication_factor,
            config=dict(spec.settings),
        )
        for spec in specs
    ]
    for name, answer in admin.create_topics(new, request_timeout=_left(deadline, "creating topics")).items():
        _result(answer, deadline, f"{name}: creating it")


def _add_partitions(admin: AdminClient, changes: Sequence[AddPartitions], deadline: float) -> None:
    if not changes:
        return
    new = [NewPartitions(change.topic, change.new) for change in changes]
    for name, answer in admin.create_partitions(new, request_timeout=_left(deadline, "adding partitions")).items():
        _result(answer, deadline, f"{name}: adding partitions")


def _alter(admin: AdminClient, changes: Sequence[AlterSetting], deadline: float) -> None:
    entries: dict[str, list[ConfigEntry]] = {}
    for change in changes:
        entry = ConfigEntry(change.key, change.new, incremental_operation=AlterConfigOpType.SET)
        entries.setdefault(change.topic, []).append(entry)
    if not entries:
        return
    resources = [
        ConfigResource(ResourceType.TOPIC, topic, incremental_configs=items) for topic, items in entries.items()
    ]
    answers = admin.incremental_alter_configs(resources, request_timeout=_left(deadline, "changing settings"))
    for resource, answer in answers.items():
        _result(answer, deadline, f"{resource.name}: changing settings")


def _wait_until_served(admin: AdminClient, specs: Sequence[TopicSpec], deadline: float) -> None:
    """A change that the controller promised reaches the brokers a moment later: topics, partitions, settings."""
    while waiting := _not_served(admin, specs, deadline):
        if time.monotonic() > deadline:
            raise TopicsNotAppliedError(f"not in force in time:\n{waiting}")
        time.sleep(_POLL_SECONDS)


def _not_served(admin: AdminClient, specs: Sequence[TopicSpec], deadline: float) -> str:
    """Returns in words what is not yet as it should be; empty when everything is."""
    if (rest := compare(specs, _existing(admin, [spec.name for spec in specs], deadline))).changes:
        return str(rest)
    # Metadata names a leader slightly before that broker knows that it is it. So the leaders themselves are asked.
    partitions = [TopicPartition(spec.name, number) for spec in specs for number in range(spec.partitions)]
    earliest: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
    asked = dict.fromkeys(partitions, earliest)
    answers = admin.list_offsets(asked, request_timeout=_left(deadline, "asking the partitions' leaders"))
    silent = {
        f"{partition.topic}: no leader yet" for partition, answer in answers.items() if not _answers(answer, deadline)
    }
    return "\n".join(f"{topic}: not every partition has a leader" for topic in sorted(silent))


def _answers(answer: "Future[Any]", deadline: float) -> bool:
    try:
        answer.result(_left(deadline, "asking the partitions' leaders"))
    except (KafkaException, FutureTimeoutError):
        return False
    return True


def _check_brokers(admin: AdminClient, todo: TopicPlan, deadline: float) -> None:
    """Kafka's own words for it name no setting."""
    copies = max((item.spec.replication_factor for item in todo.changes if isinstance(item, CreateTopic)), default=0)
    if copies > 1 and copies > (brokers := _brokers(admin, deadline)):
        raise TopicsNotAppliedError(
            f"--replication (COLDNOTIFY_REPLICATION): {copies} copies of each partition need as many brokers, and "
            f"{brokers} answer{'s' if brokers == 1 else ''}. Nothing was changed"
        )


def _brokers(admin: AdminClient, deadline: float) -> int:
    try:
        return len(admin.list_topics(timeout=_left(deadline, "reading metadata")).brokers)
    except KafkaException as error:
        raise TopicsNotAppliedError(f"reading metadata: {_words(error)}") from error


def _metadata(admin: AdminClient, deadline: float) -> dict[str, Any]:
    try:
        topics = admin.list_topics(timeout=_left(deadline, "reading metadata")).topics
    except KafkaException as error:
        raise TopicsNotAppliedError(f"reading metadata: {_words(error)}") from error
    return {name: topic for name, topic in topics.items() if topic.error is None}


def _result(answer: "Future[Any]", deadline: float, what: str) -> Any:
    try:
        return answer.result(_left(deadline, what))
    except KafkaException as error:
        raise TopicsNotAppliedError(f"{what}: {_words(error)}") from error
    except FutureTimeoutError:
        raise TopicsNotAppliedError(f"{what}: no answer in time") from None


def _left(deadline: float, what: str) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TopicsNotAppliedError(f"{what}: no time left")
    return left


def _words(error: KafkaException) -> str:
    return str(error.args[0].str()) if error.args else str(error)
