"""The embedded Kafka: a real Apache Kafka broker out of Python wheels and Maven jars, and Kafka's console tools.

jars.py fetches, java.py finds a Java, config.py and server.properties say how the broker runs, node.py starts, watches
and stops it, readiness.py knows when it serves, tools.py runs Kafka's own commands.
"""

from coldnotify_kafka.broker.jars import KAFKA_VERSION
from coldnotify_kafka.broker.node import EmbeddedBroker, run
from coldnotify_kafka.broker.ports import free_port
from coldnotify_kafka.broker.tools import CONSOLE_TOOLS, console_tool

__all__ = ["CONSOLE_TOOLS", "KAFKA_VERSION", "EmbeddedBroker", "console_tool", "free_port", "run"]
