"""Gives an empty directory of records its identity, as Kafka's StorageTool does, but without a Java process of 1.5 s.

Two files make a directory one of Kafka's. `meta.properties` contains the ids of the cluster, the directory and the
node; each data directory has its own. `bootstrap.checkpoint` contains the features with which Kafka begins; it depends
on Kafka's version alone, so it comes with the package: `make pins` has StorageTool write it for another version.
"""

import base64
import re
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from coldnotify_kafka.broker import private
from coldnotify_kafka.broker.config import BrokerConfig, resource
from coldnotify_kafka.broker.java import environment

CHECKPOINT = resource("bootstrap.checkpoint")
META = "meta.properties"
ID = re.compile(r"[\w-]{22}", re.ASCII)
"""The format of ids of clusters, directories and topics."""
_TOOL_SECONDS_MAX = 60.0


def format_if_new(config: BrokerConfig) -> None:
    """Formats `config.log_dir`, unless it was formatted before: then it stays as it is. Raises OSError.

    One that holds records is not to be formatted: see repair.py, which is to look first.
    """
    meta = config.log_dir / META
    if meta.exists() and is_meta(meta.read_text(errors="replace")):
        return
    config.log_dir.mkdir(mode=0o700, exist_ok=True)
    private.write(config.log_dir / CHECKPOINT.name, CHECKPOINT.read_bytes())
    # The last one: a format that was cut short is simply done again.
    private.write(meta, meta_properties(config.cluster_id or new_id(), config.node_id, new_id()).encode())


def is_meta(text: str) -> bool:
    """Returns true if Kafka recognises a directory by this meta.properties."""
    said = properties(text)
    return all(said.get(name) for name in ("version", "cluster.id", "node.id")) and bool(
        ID.fullmatch(said.get("directory.id", ""))
    )


def properties(text: str) -> dict[str, str]:
    """Parses such a file."""
    return {name: value for name, _, value in (line.partition("=") for line in text.splitlines())}


def meta_properties(cluster_id: str, node_id: int, directory_id: str) -> str:
    """The text by which Kafka knows a directory of records."""
    said = {"version": "1", "cluster.id": cluster_id, "node.id": str(node_id), "directory.id": directory_id}
    return "".join(f"{name}={value}\n" for name, value in said.items())


def checkpoint_by_tool(java: Sequence[str], directory: Path) -> bytes:
    """Returns what Kafka's own StorageTool writes into a new directory. `java`: the command line up to the class's
    name.

    Raises RuntimeError with the tool's output if it fails.
    """
    config = BrokerConfig(data_dir=directory, port=9092, controller_port=9093)
    config.properties_file.write_text(config.server_properties())
    tool = [*java, "kafka.tools.StorageTool", "format", "--cluster-id", new_id()]
    said = subprocess.run(
        [*tool, "--config", str(config.properties_file)],
        capture_output=True,
        text=True,
        timeout=_TOOL_SECONDS_MAX,
        env=environment(),
    )
    if said.returncode != 0:
        raise RuntimeError(f"StorageTool ended with status {said.returncode}: {said.stdout}{said.stderr}")
    return (config.log_dir / CHECKPOINT.name).read_bytes()


def new_id() -> str:
    """A random id in Kafka's own form, for a cluster or a directory: 22 characters of URL-safe base64."""
    while True:
        # Being random it is none of the small numbers that Kafka keeps for itself.
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        # One that begins with a dash would be taken for an option.
        if not text.startswith("-"):
            return text
