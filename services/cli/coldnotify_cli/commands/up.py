"""`coldnotify up`: everything on this machine, with the embedded Kafka."""

import os
from pathlib import Path

import click
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import stop_flag

from coldnotify_cli.settings import UpSettings


@click.command("up")
@settings_options(UpSettings)
def command_up(settings: UpSettings) -> int:
    """Run Kafka, its topics, matchers, gateways and HTTP until SIGTERM or Ctrl-C; then stop them in order.

    A part that dies is started again; one that keeps dying stops all, exit code 1. The same data directory again
    carries on with what is in it. The parts take further settings from the environment.
    """
    from coldnotify_common.log import configure
    from coldnotify_kafka.broker.jars import classpath

    from coldnotify_cli.stack import Stack, write_atomically
    from coldnotify_cli.supervisor import Supervisor

    configure(settings.log_format, settings.log_level, "up")
    ready_file = Path(settings.ready_file) if settings.ready_file else None
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    classpath()  # fetches Kafka, with a progress bar, before anything is being waited for
    with stop_flag() as stop:
        stack = Stack(settings)
        supervisor = Supervisor(stack.stages, on_ready=lambda: on_ready())

        def on_ready() -> None:
            report = stack.ready_report(supervisor.pids())
            if ready_file is not None:
                write_atomically(ready_file, report)
            click.echo(
                f"ColdNotify is ready (pid {os.getpid()}): devices {report['gateway']}, publish at "
                f"{stack.tls.scheme}://{report['http']}, Kafka {report['kafka']}, looking in at http://{report['matcher']}"
            )

        try:
            supervisor.run(stop)
        finally:
            if ready_file is not None:
                ready_file.unlink(missing_ok=True)
    click.echo("ColdNotify has stopped")
    return 0
