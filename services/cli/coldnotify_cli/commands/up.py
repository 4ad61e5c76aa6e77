"""`coldnotify up`: everything on this machine, with the embedded Kafka or with one that is there."""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import click
from coldnotify_common.settings import Settings, settings_options
from coldnotify_common.stop import stop_flag, surviving_hangups

from coldnotify_cli.printing import echo
from coldnotify_cli.settings import UpSettings
from coldnotify_cli.up_ports import PORTS

if TYPE_CHECKING:
    from coldnotify_cli.live_status import LiveStatus


@click.command("up")
@settings_options(UpSettings, *PORTS)
def command_up(settings: UpSettings, others: Sequence[Settings] = ()) -> int:
    """Run Kafka, topics, matchers, gateways, HTTP and the usage job until SIGTERM or Ctrl-C; then stop them in order.

    A part that dies is restarted; if a part keeps dying, all stop with exit code 1, except for the usage job, without
    which the others serve. A new start with the same data
    directory continues with its data. With --kafka it uses an existing Kafka: it creates missing topics there, and
    changes nothing else. The parts read further settings from the environment. On a terminal the command
    shows the state of each part, and log lines go to the file up.log in the data directory (see --up-status).
    """
    from coldnotify_common.log import configure
    from coldnotify_kafka.broker.jars import classpath

    from coldnotify_cli.stack import Stack, write_atomically
    from coldnotify_cli.supervisor import Supervisor

    ready_file = Path(settings.ready_file) if settings.ready_file else None
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    if not settings.kafka:
        classpath()  # fetches Kafka, with a progress bar, before anything is being waited for
    live = settings.up_status == "live" or (settings.up_status == "auto" and sys.stdout.isatty())
    with stop_flag() as stop, _status(settings.data / "up.log") if live else nullcontext() as status:
        configure(settings.log_format, settings.log_level, "up")
        stack = Stack(settings, {name: port for one in others for name, port in vars(one).items()})
        supervisor = Supervisor(stack.stages, on_ready=lambda: on_ready())
        if status is not None:
            status.show([part for stage in stack.stages for part in stage])

        def on_ready() -> None:
            report = stack.ready_report(supervisor.pids())
            if ready_file is not None:
                write_atomically(ready_file, report)
            words = _ready_words(report, stack.urls())
            if status is None:
                echo(*words)
            else:
                status.say("\n".join(words))

        try:
            with surviving_hangups(supervisor.on_hangup):
                stack.prepare(stop)
                supervisor.run(stop)
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)
            if status is not None:
                status.say("ColdNotify has stopped")
    if not live:
        echo("ColdNotify has stopped")
    return 0


def _ready_words(report: dict[str, object], urls: Mapping[str, Sequence[str]]) -> list[str]:
    """Returns the most useful line first: the console, as a link; then all other addresses."""
    (http,) = urls["http"]
    return [
        f"ColdNotify is ready (pid {os.getpid()})",
        f"  console   {http}/",
        f"  publish   {http}, or to Kafka at {report['kafka']}",
        f"  devices   {report['gateway']} (TCP), {report['web']} (WebSocket, HTTP), {report['mqtt']} (MQTT)",
        *(f"  {name:<8}  {', '.join(of_part)}" for name, of_part in urls.items() if name != "http"),
    ]


def _status(log: Path) -> "AbstractContextManager[LiveStatus]":
    from coldnotify_cli.live_status import live_status

    return live_status(log)
