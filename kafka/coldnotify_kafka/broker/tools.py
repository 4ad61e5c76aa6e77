"""Kafka's own console tools, run from the jars."""

import os
from collections.abc import Mapping, Sequence

from coldnotify_kafka.broker import jars
from coldnotify_kafka.broker.config import resource
from coldnotify_kafka.broker.java import find_java
from coldnotify_kafka.errors import BrokerSettingError

_TOOLS = "org.apache.kafka.tools"

CONSOLE_TOOLS: Mapping[str, str] = {
    "acls": f"{_TOOLS}.AclCommand",
    "broker-api-versions": f"{_TOOLS}.BrokerApiVersionsCommand",
    "cluster": f"{_TOOLS}.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": f"{_TOOLS}.consumer.ConsoleConsumer",
    "console-producer": f"{_TOOLS}.ConsoleProducer",
    "consumer-groups": f"{_TOOLS}.consumer.group.ConsumerGroupCommand",
    "consumer-perf-test": f"{_TOOLS}.ConsumerPerformance",
    "delete-records": f"{_TOOLS}.DeleteRecordsCommand",
    "dump-log": f"{_TOOLS}.DumpLogSegments",
    "features": f"{_TOOLS}.FeatureCommand",
    "get-offsets": f"{_TOOLS}.GetOffsetShell",
    "groups": f"{_TOOLS}.GroupsCommand",
    "leader-election": f"{_TOOLS}.LeaderElectionCommand",
    "log-dirs": f"{_TOOLS}.LogDirsCommand",
    "metadata-quorum": f"{_TOOLS}.MetadataQuorumCommand",
    "producer-perf-test": f"{_TOOLS}.ProducerPerformance",
    "reassign-partitions": f"{_TOOLS}.reassign.ReassignPartitionsCommand",
    "storage": "kafka.tools.StorageTool",
    "topics": f"{_TOOLS}.TopicCommand",
    "transactions": f"{_TOOLS}.TransactionsCommand",
}
"""The tools by the name of Kafka's own scripts: `kafka-topics.sh` is "topics"."""


def console_tool(
    name: str, arguments: Sequence[str], progress: jars.Progress | None = None, environ: Mapping[str, str] = os.environ
) -> list[str]:
    """Returns the command line (for subprocess or os.execv) that runs Kafka's console tool `name` with `arguments`.

    Fetches the jars first if they are missing. Raises BrokerSettingError for an unknown tool, JarsUnavailableError,
    JavaUnavailableError.
    """
    if name not in CONSOLE_TOOLS:
        raise BrokerSettingError(f"kafka-tool: there is no {name!r}; there are {', '.join(CONSOLE_TOOLS)}")
    return [
        str(find_java(environ).path),
        "-Xmx256m",
        "-XX:+UseSerialGC",
        # These run for seconds: the second compiler's work would never pay.
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={resource('tools-log4j2.xml').as_uri()}",
        "-cp",
        os.pathsep.join(str(jar) for jar in jars.jars(progress, environ)),
        CONSOLE_TOOLS[name],
        *arguments,
    ]
