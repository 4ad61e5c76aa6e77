"""`coldnotify broker`: the embedded Kafka in the foreground."""

import signal
from collections.abc import Callable
from typing import TypeVar

import click
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import stop_flag, surviving_hangups

from coldnotify_cli.printing import echo
from coldnotify_cli.settings import BrokerSettings

Kafka = TypeVar("Kafka")

_LOOK_INTERVAL_S = 0.5
"""Interval of checks for the end of the broker's process."""


@click.command("broker")
@click.option(
    "--repair",
    "mend",
    is_flag=True,
    help="Repair the small files that describe Kafka's data, as a power cut may damage them; "
    "print what was done, and exit. Replaced files are kept. Exit code 1 if something cannot be mended.",
)
@settings_options(BrokerSettings)
def command_broker(mend: bool, settings: BrokerSettings) -> int:
    """Run the embedded Kafka until SIGTERM or Ctrl-C: one real Apache Kafka node on a data directory, or three.

    Prints one line with the address when Kafka is ready. Fetches missing Kafka jars first. With three nodes, a node
    that dies is restarted; if a node keeps dying, all nodes stop with exit code 1.
    """
    if mend:
        return _repair(settings)
    from coldnotify_cli.kafka_parts import check_nodes

    check_nodes(settings.nodes, "--nodes")
    # While Kafka is fetched and started, SIGTERM interrupts as Ctrl-C does: that may take minutes.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with surviving_hangups():
        return _run_cluster(settings) if settings.nodes > 1 else _run_node(settings)


def _run_node(settings: BrokerSettings) -> int:
    from coldnotify_kafka.broker import EmbeddedBroker

    broker = _made(EmbeddedBroker, settings)
    try:
        broker.start()
        broker.wait_ready(settings.kafka_ready_timeout_s)
        with stop_flag() as stop:
            echo(f"Kafka is ready at {broker.bootstrap} (data in {broker.config.data_dir}, pid {broker.pid})")
            while not stop.wait(_LOOK_INTERVAL_S):
                if (status := broker.poll()) is not None:
                    raise click.ClickException(
                        f"the broker ended by itself (status {status}). Its log ends:\n{broker.log_tail()}"
                    )
            broker.stop()
    except KeyboardInterrupt:
        pass
    finally:
        broker.stop()
    echo("Kafka has stopped")
    return 0


def _repair(settings: BrokerSettings) -> int:
    from coldnotify_kafka.broker.repair import repair

    done = repair(settings.data)
    for words in done.mended:
        echo(f"mended: {words}")
    if done.kept_in is not None:
        echo(f"the replaced files are in {done.kept_in}")
    for words in done.refused:
        echo(f"not mended: {words}", err=True)
    if not done.mended and not done.refused:
        echo(f"nothing to mend in {settings.data}")
    return 1 if done.refused else 0


def _run_cluster(settings: BrokerSettings) -> int:
    from coldnotify_common.log import configure
    from coldnotify_kafka.broker import EmbeddedCluster
    from coldnotify_kafka.broker.jars import classpath

    from coldnotify_cli.kafka_parts import parts_of
    from coldnotify_cli.supervisor import Supervisor

    configure("console", "info", "broker")
    cluster = _made(EmbeddedCluster, settings)

    def on_ready() -> None:
        pids = ", ".join(str(pid) for pid in cluster.pids.values())
        echo(f"Kafka is ready at {cluster.bootstrap} (data in {cluster.data_dir}, pids {pids})")

    try:
        classpath()
    except KeyboardInterrupt:
        return 0
    with stop_flag() as stop:
        Supervisor([parts_of(cluster, settings.kafka_ready_timeout_s)], on_ready).run(stop)
    echo("Kafka has stopped")
    return 0


def _made(kind: Callable[..., Kafka], settings: BrokerSettings) -> Kafka:
    from coldnotify_kafka.errors import BrokerSettingError

    try:
        return kind(
            settings.data,
            settings.kafka_port,
            host=settings.kafka_host,
            advertised_host=settings.kafka_advertised_host or None,
            heap_mib=settings.kafka_heap_mib,
        )
    except BrokerSettingError as error:
        raise click.UsageError(f"--kafka-... (COLDNOTIFY_KAFKA_...): {error}") from None
