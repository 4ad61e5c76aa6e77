"""`coldnotify auto FILE`: sources that publish by rules, in the foreground."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from coldnotify_common.settings import settings_options

from coldnotify_cli.printing import echo

if TYPE_CHECKING:
    from coldnotify_auto.settings import AutoSettings

PLANNED = 20


def _command() -> click.Command:
    from coldnotify_auto.settings import AutoSettings

    return click.command("auto")(
        click.argument("file", metavar="FILE", type=click.Path(path_type=Path))(
            click.option(
                "--plan",
                is_flag=True,
                help=f"Print what the next {PLANNED} changes would publish, and publish nothing.",
            )(
                click.option(
                    "--resync",
                    metavar="SOURCE",
                    help="Have all tables of this source compared with the newest versions, and end.",
                )(settings_options(AutoSettings)(_auto))
            )
        )
    )


def _auto(file: Path, plan: bool, resync: str | None, settings: "AutoSettings") -> int:
    """Publish what changes in PostgreSQL, in folders and at web addresses, by the rules in FILE.

    The sources and their rules are described in docs/sources.md. Runs until SIGTERM or Ctrl-C.
    """
    from coldnotify_auto import app
    from coldnotify_common.stop import surviving_hangups

    if plan and resync is not None:
        raise click.UsageError("--plan and --resync: only one of them")
    if resync is not None:
        return app.resync(settings, file, resync, echo)
    if plan:
        return app.plan(settings, file, PLANNED, echo)
    with surviving_hangups():
        return app.run(settings, file)


def __getattr__(attribute: str) -> click.Command:
    """Makes the command when it is asked for: its settings class comes with services' code."""
    if attribute != "command_auto":
        raise AttributeError(attribute)
    return _command()
