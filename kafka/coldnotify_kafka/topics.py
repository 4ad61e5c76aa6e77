"""The topics as they should be: topics.yaml, read and checked.

The file names them as under the default prefix; an installation's own prefix takes its place.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files

import yaml
from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames

from coldnotify_kafka.errors import TopicsFileError
from coldnotify_kafka.yaml_text import read_yaml

EMBEDDED_PARTITIONS = 8
"""Co-partitions for an embedded Kafka: one small process on the machine of all matchers."""
REPLICATION_FACTOR_FOR_TWO_COPIES = 3
"""With so many replicas, an acknowledged write is on two of them (min.insync.replicas) and one may still be down."""
_MIN_INSYNC_REPLICAS = "min.insync.replicas"

_IN_FILE = TopicNames()
"""The names that the file has."""
_POLICIES = ("compact", "delete", "compact,delete")
_POLICY_WORDS = "compact or delete or compact,delete"

_TOPIC_SETTINGS = frozenset(
    {
        "cleanup.policy",
        "compression.type",
        "delete.retention.ms",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "index.interval.bytes",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "max.message.bytes",
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
        "unclean.leader.election.enable",
    }
)
"""Kafka's topic settings: a misspelt one is to be found in the file, not at the first broker."""


@dataclass(frozen=True)
class TopicSpec:
    """One topic as it should be. `settings` holds only the settings that are managed, as Kafka writes them."""

    name: str
    partitions: int
    replication_factor: int
    co_partitioned: bool
    settings: Mapping[str, str]


def load(
    partitions: int | None = None,
    replication_factor: int = 1,
    text: str | None = None,
    *,
    more: Iterable[str] = (),
    names: TopicNames = _IN_FILE,
) -> list[TopicSpec]:
    """Returns the topics of topics.yaml (or of `text`, the content of another such file).

    `partitions` replaces the file's number for the co-partitioned topics; with a `replication_factor` of 3 or more,
    min.insync.replicas is 2. `more`: topics of parts, each in the file's format below `topics`. `names`: those of the
    installation. Raises TopicsFileError, naming topic and key.
    """
    if text is None:
        text = files("coldnotify_kafka").joinpath("topics.yaml").read_text(encoding="utf-8")
    try:
        document = read_yaml(text)
    except yaml.YAMLError as error:
        raise TopicsFileError(f"topics.yaml is not YAML: {error}") from None
    top = _mapping("topics.yaml", document)
    _only_keys("topics.yaml", top, {"co_partitions", "topics"})
    co_partitions = _count("topics.yaml: co_partitions", top.get("co_partitions"))
    if partitions is not None:
        co_partitions = _count("partitions", partitions)
    _count("replication_factor", replication_factor)
    entries = _mapping("topics.yaml: topics", top.get("topics"))
    for name in entries:
        if name not in _IN_FILE.all:
            raise TopicsFileError(f"{name}: is no topic of ColdNotify's ({', '.join(_IN_FILE.all)})")
    missing = [name for name in _IN_FILE.all if name not in entries]
    if missing:
        raise TopicsFileError(f"topics.yaml: topics: {', '.join(missing)} is missing")
    specs = [_topic(name, entries[name], co_partitions, replication_factor) for name in _IN_FILE.all]
    specs += [spec for text in more for spec in _added(text, entries, co_partitions, replication_factor)]
    return [replace(spec, name=names.renamed(spec.name)) for spec in specs]


def _added(
    text: str, in_file: Mapping[str, object], co_partitions: int, replication_factor: int
) -> Iterator[TopicSpec]:
    """Yields the topics of a part that topics.yaml does not have. The others must be the same there."""
    try:
        entries = _mapping("topics of a part", read_yaml(text))
    except yaml.YAMLError as error:
        raise TopicsFileError(f"topics of a part: not YAML: {error}") from None
    for name, entry in entries.items():
        if name in in_file and entry == in_file[name]:
            continue
        if name in in_file or not name.startswith(DEFAULT_PREFIX):
            words = f"the name of a part's topic must begin with {DEFAULT_PREFIX}, and be its own"
            raise TopicsFileError(f"{name}: {words}")
        yield _topic(name, entry, co_partitions, replication_factor)


def _topic(name: str, entry: object, co_partitions: int, replication_factor: int) -> TopicSpec:
    fields = _mapping(name, entry)
    _only_keys(name, fields, {"co_partitioned", "partitions", "settings"})
    co_partitioned = fields.get("co_partitioned", False)
    if name in _IN_FILE.all and co_partitioned is not (name in _IN_FILE.co_partitioned):
        raise TopicsFileError(f"{name}: co_partitioned: must be {str(name in _IN_FILE.co_partitioned).lower()}")
    if co_partitioned and "partitions" in fields:
        raise TopicsFileError(f"{name}: partitions: a co-partitioned topic has the number that co_partitions says")
    partitions = co_partitions if co_partitioned else _count(f"{name}: partitions", fields.get("partitions"))
    settings = {}
    for key, value in _mapping(f"{name}: settings", fields.get("settings", {})).items():
        if key not in _TOPIC_SETTINGS:
            raise TopicsFileError(f"{name}: {key}: is not a setting of a Kafka topic")
        settings[key] = _setting(f"{name}: {key}", value)
    if settings.get("cleanup.policy") not in _POLICIES:
        raise TopicsFileError(f"{name}: cleanup.policy: must be {_POLICY_WORDS}, it decides what is kept")
    if replication_factor >= REPLICATION_FACTOR_FOR_TWO_COPIES:
        settings.setdefault(_MIN_INSYNC_REPLICAS, "2")
    return TopicSpec(name, partitions, replication_factor, bool(co_partitioned), settings)


def _mapping(where: str, value: object) -> dict[str, object]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise TopicsFileError(f"{where}: must be a mapping of names")
    return value


def _only_keys(where: str, fields: Mapping[str, object], known: set[str]) -> None:
    for key in fields:
        if key not in known:
            raise TopicsFileError(f"{where}: {key}: is not known here ({', '.join(sorted(known))})")


def _count(where: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise TopicsFileError(f"{where}: must be a whole number of at least 1, not {value!r}")
    return value


def _setting(where: str, value: object) -> str:
    """Returns the value in Kafka's own form, because a plan compares it with the broker's answer."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float | str):
        return str(value)
    raise TopicsFileError(f"{where}: must be a number, a word or true/false, not {value!r}")
