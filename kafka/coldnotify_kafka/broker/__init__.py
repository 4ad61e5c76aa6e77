"""The embedded Kafka: a real Apache Kafka broker out of Python wheels and Maven jars, and Kafka's console tools.

jars.py fetches, java.py finds a Java, config.py and server.properties configure a node, node.py starts, watches and
stops it, formatting.py gives its directory an identity, class_archive.py lets it start sooner, cluster.py runs three,
data_dir.py records for how many nodes a directory was made, readiness.py waits until they serve, tools.py runs Kafka's
own commands.
"""

from coldnotify_kafka.broker.cluster import EmbeddedCluster
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_kafka.broker.jars import KAFKA_VERSION
from coldnotify_kafka.broker.node import EmbeddedBroker, run
from coldnotify_kafka.broker.tools import CONSOLE_TOOLS, console_tool

__all__ = ["CONSOLE_TOOLS", "KAFKA_VERSION", "EmbeddedBroker", "EmbeddedCluster", "console_tool", "free_port", "run"]
