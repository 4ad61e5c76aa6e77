"""All output of commands goes through here, so that strangers' names and payloads cannot control the terminal."""

import os
import sys

import click
from coldnotify_schemas.visible import visible


def echo(*lines: str, err: bool = False, nl: bool = True, fg: str | None = None, bold: bool | None = None) -> None:
    """Prints each as one line, whatever is in it. `err`: to stderr; `nl`: whether the last one ends with a newline.

    `fg` and `bold` style them on a terminal, unless NO_COLOR is set.
    """
    color = False if os.environ.get("NO_COLOR") else None
    click.secho("\n".join(map(visible, lines)), err=err, nl=nl, color=color, fg=fg, bold=bold)


def confirm(words: str, *, yes: bool) -> None:
    """Asks whether it is meant, unless --yes was given. Raises click.Abort, and UsageError if nobody can answer."""
    if yes:
        return
    try:
        sure = click.confirm(visible(words), err=True)
    except click.Abort:
        if sys.stdin.isatty():
            raise
        raise click.UsageError("nobody can answer without a terminal: --yes answers yes") from None
    if not sure:
        raise click.Abort
