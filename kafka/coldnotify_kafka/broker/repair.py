"""Finds and repairs what a power cut left of the small files by which Kafka recognises a directory of records.

With a damaged one Kafka does not start, and logs many lines. If `partition.metadata` is missing it does start, and
treats the partition's records as orphaned: it puts them aside, and removes them. So this check precedes each start.
Kafka's metadata log contains the same data; the files are rewritten from it, and the damaged ones are kept.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from coldnotify_kafka.broker import data_dir as directories
from coldnotify_kafka.broker import private
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.formatting import CHECKPOINT, ID, META, is_meta, meta_properties, new_id, properties
from coldnotify_kafka.broker.java import environment
from coldnotify_kafka.broker.tools import console_tool
from coldnotify_kafka.errors import BrokerError, DataDirectoryError

_PARTITION = re.compile(r"(?P<topic>.+)-(?P<number>\d+)")
"""The name of a partition's directory. One that Kafka is about to remove has another ending."""
_METADATA = "__cluster_metadata"
_METADATA_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""Kafka's own topic has this id everywhere."""
_PARTITION_FILE = "partition.metadata"
_PARTITION_TEXT = re.compile(r"version: \d+\s+topic_id: [\w-]{22}\s*", re.ASCII)
_QUORUM_FILE = "quorum-state"
_EPOCHS_FILE = "leader-epoch-checkpoint"
_OF_A_DIRECTORY = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
"""Kafka writes these files now and then, and recreates missing ones from the logs."""
_PAYLOAD = re.compile(r"payload: (\{.*\})\s*$")
_DUMP_SECONDS_MAX = 600.0
"""2 s are usual. Kafka writes a new snapshot of its metadata every 20 MB or hour, and keeps everything before it."""
_SHOWN_MAX = 5


class Damage(NamedTuple):
    """A file that Kafka cannot do with."""

    path: Path
    how: str
    """In words: is empty, is missing, cannot be read."""


@dataclass(slots=True)
class Repair:
    """The result of a repair."""

    mended: list[str] = field(default_factory=list)
    """Repaired files, each with what was done, in words."""
    refused: list[str] = field(default_factory=list)
    """Files that could not be repaired, each with its reason."""
    kept_in: Path | None = None
    """The directory that keeps the replaced files."""


def damage_of(config: BrokerConfig) -> list[Damage]:
    """Returns the damage on which a node with this directory would fail. Raises OSError."""
    records = config.log_dir
    if not records.is_dir():
        return []
    partitions = [path for path in sorted(records.iterdir()) if _PARTITION.fullmatch(path.name) and path.is_dir()]
    if not partitions:
        return []  # it is formatted anew, if need be
    found = [_damage(records / META, is_meta, wanted=True), _damage(records / CHECKPOINT.name, _is_not_empty)]
    found += [_damage(records / name, _is_checkpoint) for name in _OF_A_DIRECTORY]
    for path in partitions:
        found.append(_damage(path / _PARTITION_FILE, _PARTITION_TEXT.fullmatch, wanted=_has_records(path)))
        found.append(_damage(path / _QUORUM_FILE, _is_json))
        found.append(_damage(path / _EPOCHS_FILE, _is_checkpoint))
    return [one for one in found if one is not None]


def check_whole(config: BrokerConfig) -> None:
    """Raises DataDirectoryError, which names the damaged files and the command that repairs them; and OSError."""
    found = damage_of(config)
    if found:
        shown = [f"{one.path} {one.how}" for one in found[:_SHOWN_MAX]]
        if len(found) > _SHOWN_MAX:
            shown.append(f"and {len(found) - _SHOWN_MAX} more")
        # A node of a cluster lies in the directory that --data names.
        data_dir = config.data_dir.parent if config.voters else config.data_dir
        raise DataDirectoryError(
            f"data directory {data_dir} is damaged, as by a power cut: {', '.join(shown)}. Kafka is not started: it "
            "would end, or take records for nobody's and remove them. Copy the directory, then run "
            f"`coldnotify broker --repair --data {shlex.quote(str(data_dir))}`"
        )


def repair(data_dir: Path) -> Repair:
    """Mends what can be mended of a node's or cluster's directory, on which nobody runs.

    Raises BrokerError's subclasses, DataDirectoryInUseError among them.
    """
    done = Repair()
    data_dir = Path(data_dir).absolute()
    if not data_dir.is_dir():
        raise DataDirectoryError(f"data directory {data_dir} is not there")
    lock = directories.lock(data_dir)
    try:
        for config in _nodes(data_dir):
            _repair_node(config, done)
    except OSError as error:
        raise DataDirectoryError(f"data directory {data_dir} cannot be repaired: {error}") from error
    finally:
        os.close(lock)
    return done


def _nodes(data_dir: Path) -> list[BrokerConfig]:
    cluster = directories.read_cluster_file(data_dir)
    if cluster is None:
        return [BrokerConfig(data_dir=data_dir, port=1, controller_port=1)]
    voters = dict.fromkeys(range(1, len(cluster.controller_ports) + 1), 1)
    return [
        BrokerConfig(
            data_dir=data_dir / f"node-{number}", port=1, controller_port=1, node_id=number, voters=voters,
            cluster_id=cluster.cluster_id,
        )
        for number in voters
    ]  # fmt: skip


def _repair_node(config: BrokerConfig, done: Repair) -> None:
    metadata = _Metadata(config)
    kept = config.data_dir / time.strftime("before-repair-%Y%m%dT%H%M%SZ", time.gmtime())
    for damage in damage_of(config):
        name = damage.path.relative_to(config.log_dir)
        try:
            content, words = _as_it_was(config, damage.path, metadata)
        except BrokerError as error:
            done.refused.append(f"{damage.path} {damage.how}: {error}")
            continue
        if damage.path.exists():
            (kept / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            shutil.copy2(damage.path, kept / name)
            done.kept_in = kept
        if content is None:
            damage.path.unlink()
        else:
            private.write(damage.path, content)
        done.mended.append(f"{damage.path} {damage.how}: {words}")


def _as_it_was(config: BrokerConfig, path: Path, metadata: "_Metadata") -> tuple[bytes | None, str]:
    """Returns the file's repaired content (None: it must be removed), and that in words. Raises BrokerError."""
    if path.name == META:
        return _meta_as_it_was(config, metadata)
    if path.name == CHECKPOINT.name:
        return CHECKPOINT.read_bytes(), "is written again, as of a new directory; the metadata log says what counts"
    if path.name in _OF_A_DIRECTORY:
        return None, "is removed; Kafka makes it anew from the logs"
    if path.name in (_QUORUM_FILE, _EPOCHS_FILE):
        if config.voters:
            raise DataDirectoryError(
                "by this a node of three knows for whom it has voted, or what of its log the others have; a wrong one "
                "could lose what was acknowledged. The other two nodes serve without this one"
            )
        return None, "is removed; a single node needs nobody's word for it"
    found = _PARTITION.fullmatch(path.parent.name)
    topic = "" if found is None else found["topic"]
    id_ = _METADATA_ID if topic == _METADATA else metadata.topics.get(topic)
    if id_ is None:
        raise DataDirectoryError(
            f"Kafka's metadata knows no topic {topic}: its records are nobody's. Move {path.parent} away if they are "
            "not needed"
        )
    return f"version: 0\ntopic_id: {id_}".encode(), f"is written again, with the topic's id {id_}"


def _meta_as_it_was(config: BrokerConfig, metadata: "_Metadata") -> tuple[bytes, str]:
    directory_id = metadata.directory_id
    if directory_id is None:
        raise DataDirectoryError("the metadata does not say the directory's id: no node has served with it")
    path = config.log_dir / META
    said = properties(path.read_text(errors="replace")).get("cluster.id", "") if path.exists() else ""
    cluster_id = said if ID.fullmatch(said) else config.cluster_id
    words = f"is written again, with the directory's id {directory_id} and the cluster's "
    words += cluster_id or "a new one, as nothing says what it was, and a single node does not need it"
    return meta_properties(cluster_id or new_id(), config.node_id, directory_id).encode(), words


class _Metadata:
    """Kafka's metadata log, as its own tool reads it; read only if it is needed."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config

    @property
    def topics(self) -> dict[str, str]:
        """The ids of the existing topics, by name. Raises BrokerError."""
        return self._read[0]

    @property
    def directory_id(self) -> str | None:
        """The id of this node's directory of records. Raises BrokerError."""
        return self._read[1]

    @cached_property
    def _read(self) -> tuple[dict[str, str], str | None]:
        topics: dict[str, str] = {}
        directory_id: str | None = None
        for record in self._records():
            kind, data = record.get("type"), record.get("data")
            if not isinstance(data, dict):
                continue
            if kind == "TOPIC_RECORD":
                topics[str(data.get("name"))] = str(data.get("topicId"))
            elif kind == "REMOVE_TOPIC_RECORD":
                topics = {name: id_ for name, id_ in topics.items() if id_ != data.get("topicId")}
            elif data.get("brokerId") == self._config.node_id and data.get("logDirs"):
                # A node that registers, or changes its registration.
                directory_id = str(data["logDirs"][0])
        return topics, directory_id

    def _records(self) -> Iterator[dict[str, Any]]:
        directory = self._config.log_dir / f"{_METADATA}-0"
        files = [*sorted(directory.glob("*.checkpoint"))[-1:], *sorted(directory.glob("*.log"))]
        if not files:
            raise DataDirectoryError(f"{directory} has no metadata log")
        argv = console_tool("dump-log", ["--cluster-metadata-decoder", "--files", ",".join(map(str, files))])
        try:
            said = subprocess.run(argv, env=environment(), capture_output=True, timeout=_DUMP_SECONDS_MAX, check=False)
        except subprocess.TimeoutExpired:
            raise DataDirectoryError(f"{directory} could not be read within {_DUMP_SECONDS_MAX:g} s") from None
        found = False
        for line in said.stdout.decode(errors="replace").splitlines():
            payload = _PAYLOAD.search(line.rstrip("\0"))
            if payload is not None:
                found = True
                yield json.loads(payload[1])
        if not found:
            words = said.stderr.decode(errors="replace").strip().splitlines()
            raise DataDirectoryError(f"{directory} cannot be read: {words[0] if words else said.returncode}")


def _damage(path: Path, is_whole: Callable[[str], object], *, wanted: bool = False) -> Damage | None:
    """`wanted`: whether it is damage, too, if the file is missing."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return Damage(path, "is missing") if wanted else None
    if is_whole(text):
        return None
    return Damage(path, "is empty" if not text.strip("\0 \n") else "cannot be understood")


def _has_records(partition: Path) -> bool:
    return any(log.stat().st_size for log in partition.glob("*.log"))


def _is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False


def _is_checkpoint(text: str) -> bool:
    """Its version, how many lines follow, and these. An empty one is as good as none."""
    version, count, *lines = [*text.splitlines(), "", ""] if text.count("\n") < 2 else text.splitlines()
    return not text or (version.isdecimal() and count.isdecimal() and len(lines) == int(count[:9]))


def _is_not_empty(text: str) -> bool:
    return bool(text.strip("\0"))
