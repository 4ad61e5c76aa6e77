"""Tells if a data directory is in use, and for how many nodes it was made."""

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from coldnotify_kafka.broker import private
from coldnotify_kafka.errors import DataDirectoryError, DataDirectoryInUseError

_CLUSTER_FILE = "cluster.json"
_LOCK_FILE = "lock"
_MARKS = (Path("records", "meta.properties"), Path("records", "__cluster_metadata-0"))
"""Kafka's own marks on a directory of records, here that of a single node. A power cut may take one of them."""


@dataclass(frozen=True)
class ClusterFile:
    """The common data of a cluster's nodes, kept beside their directories."""

    cluster_id: str
    controller_ports: tuple[int, ...]
    """By node, from node 1 on."""


def check_unused(data_dir: Path, by: str) -> None:
    """Raises DataDirectoryInUseError, which names `by` as the user, if a broker runs on it. The directory need not
    exist.
    """
    try:
        descriptor = os.open(data_dir / _LOCK_FILE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return  # whether it can be used is seen when it is
    try:
        _lock(descriptor, data_dir, by)
    finally:
        os.close(descriptor)


def lock(data_dir: Path) -> int:
    """A descriptor of the data directory's lock file, locked; the directory is made. Raises DataDirectoryError."""
    try:
        private.make_directory(data_dir)
        descriptor = private.open_lock(data_dir / _LOCK_FILE)
    except OSError as error:
        raise DataDirectoryError(f"data directory {data_dir} cannot be used: {error}") from error
    try:
        _lock(descriptor, data_dir, "another broker")
    except DataDirectoryError:
        os.close(descriptor)
        raise
    return descriptor


def _lock(descriptor: int, data_dir: Path, by: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise DataDirectoryInUseError(
            f"data directory {data_dir} is in use: {by} runs there. Stop that one or choose another directory with "
            "--data"
        ) from None
    except OSError as error:
        raise DataDirectoryError(f"data directory {data_dir} cannot be locked: {error}") from error


def check_nodes(data_dir: Path, nodes: int) -> None:
    """Raises DataDirectoryError if the directory was made for another number of nodes."""
    made_for = _made_for(data_dir)
    if made_for not in (0, nodes):
        raise DataDirectoryError(
            f"data directory {data_dir} was made for {made_for} node{'s' if made_for > 1 else ''} and cannot be used "
            f"with {nodes}: choose another directory with --data, or as many nodes as before (--nodes of broker, "
            "--kafka-nodes of up)"
        )


def read_cluster_file(data_dir: Path) -> ClusterFile | None:
    """Returns None if the directory does not belong to a cluster (yet). Raises DataDirectoryError if the file is
    damaged.
    """
    path = data_dir / _CLUSTER_FILE
    try:
        fields = json.loads(path.read_text())
        cluster_id, ports = fields["cluster_id"], tuple(fields["controller_ports"])
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DataDirectoryError(f"{path} cannot be read ({type(error).__name__}: {error})") from error
    if not isinstance(cluster_id, str) or not all(isinstance(port, int) for port in ports):
        raise DataDirectoryError(f"{path}: cluster_id must be text, controller_ports numbers")
    return ClusterFile(cluster_id, ports)


def write_cluster_file(data_dir: Path, content: ClusterFile) -> None:
    """The whole file or none of it: without its id, the cluster's data would be lost. Raises OSError."""
    fields = {"cluster_id": content.cluster_id, "controller_ports": content.controller_ports}
    private.write(data_dir / _CLUSTER_FILE, json.dumps(fields).encode())


def _made_for(data_dir: Path) -> int:
    """For how many nodes; 0 if it is new."""
    cluster = read_cluster_file(data_dir)
    if cluster is not None:
        return len(cluster.controller_ports)
    return 1 if any((data_dir / mark).exists() for mark in _MARKS) else 0
