"""`coldnotify link`: one connection to a gateway for several programs of one unit."""

import logging
from pathlib import Path

import click
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import stop_flag

from coldnotify_cli.credentials import connection_options
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import WatchSettings


@click.command("link")
@click.argument("path", metavar="SOCKET", type=click.Path(path_type=Path))
@click.option(
    "--mode",
    default="660",
    metavar="OCTAL",
    show_default=True,
    help="File mode of SOCKET: whoever may write to it may be any client that the identity may be.",
)
@settings_options(WatchSettings)
def command_link(path: Path, mode: str, settings: WatchSettings) -> int:
    """Share one connection to a gateway among the programs that connect to the Unix socket SOCKET.

    Programs name it as their address: Connection(address="unix:SOCKET"). The link connects when the first one does. It
    keeps nothing: each program has its own state. Ends at SIGTERM or Ctrl-C.
    """
    from coldnotify import Connection, Link

    try:
        bits = int(mode, 8)
    except ValueError:
        bits = -1
    if not 0 <= bits <= 0o777:
        raise click.UsageError(f"--mode: {mode!r} is not an octal number up to 777")
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    try:
        connection = Connection(address=settings.gateway.split(","), **connection_options(settings))
        with stop_flag() as stop, Link(connection, path=path, mode=bits):
            echo(f"linking {path} to {settings.gateway}", err=True)
            stop.wait()
    except (OSError, ValueError) as error:
        raise click.ClickException(str(error)) from None
    return 0
