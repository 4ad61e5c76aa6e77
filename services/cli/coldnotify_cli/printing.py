"""All output of commands goes through here, so that strangers' names and payloads cannot control the terminal."""

import click
from coldnotify_schemas.visible import visible


def echo(*lines: str, err: bool = False, nl: bool = True) -> None:
    """Prints each as one line, whatever is in it. `err`: to stderr; `nl`: whether the last one ends with a newline."""
    click.echo("\n".join(map(visible, lines)), err=err, nl=nl)  # noqa: TID251
