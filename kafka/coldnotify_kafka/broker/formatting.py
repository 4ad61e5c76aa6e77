"""Gives an empty directory of records its identity, as Kafka's StorageTool does, but without a Java process of 1.5 s.

Two files make a directory one of Kafka's. `meta.properties` says the ids of the cluster, the directory and the node; it
is the data directory's own. `bootstrap.checkpoint` says with which features Kafka begins; it depends on Kafka's version
alone, so it comes with the package: `make pins` has StorageTool write it anew for another version.
"""

import base64
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

from coldnotify_kafka.broker import private
from coldnotify_kafka.broker.config import BrokerConfig, resource
from coldnotify_kafka.broker.java import environment

CHECKPOINT = resource("bootstrap.checkpoint")
_META = "meta.properties"
_TOOL_SECONDS_MAX = 60.0


def format_if_new(config: BrokerConfig) -> None:
    """Formats `config.log_dir`, unless it was formatted before: then it stays as it is. Raises OSError."""
    meta = config.log_dir / _META
    if meta.exists():
        return
    config.log_dir.mkdir(mode=0o700, exist_ok=True)
    lines = {
        "version": "1",
        "cluster.id": config.cluster_id or new_id(),
        "node.id": str(config.node_id),
        "directory.id": new_id(),
    }
    private.write(config.log_dir / CHECKPOINT.name, CHECKPOINT.read_bytes())
    # The last one: a format that was cut short is simply done again.
    private.write(meta, "".join(f"{name}={value}\n" for name, value in lines.items()).encode())


def checkpoint_by_tool(java: Sequence[str], directory: Path) -> bytes:
    """What Kafka's own StorageTool writes into a new directory. `java`: the command line up to the class's name.

    Raises RuntimeError with the tool's words if it fails.
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
