"""Asks for a publish's outcome, and prints it: the answer is one line and, if the publish was in
vain, an error, too.
"""

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from coldnotify_cli.printing import echo

if TYPE_CHECKING:
    from coldnotify.publisher import Outcome, Published

Get = Callable[..., Any]
"""HttpNode's or Matchers' `get`."""


def outcome_of(get: Get, about: tuple[str, str, str], published: "Published", **query: object) -> "Outcome":
    """Returns the outcome of the publish of `about` (domain, group, object); `unknown` with the reason if it cannot be
    determined.
    """
    from coldnotify.publisher import OFFSET_NOT_KNOWN, Outcome

    domain, group, object_ = about
    if published.offset < 0:
        return Outcome.unknown(OFFSET_NOT_KNOWN)
    place = {"partition": published.partition, "offsets": published.offset}
    try:
        shown = get("domains", domain, "groups", group, "outcomes", **place, **query)
    except click.ClickException as error:
        return Outcome.unknown(error.format_message())
    return Outcome.of(shown["items"][0], object_, published.version)


def say(
    about: tuple[str, str, str], published: "Published", outcome: "Outcome", *, as_json: bool = False, **more: object
) -> int:
    """Prints the record's place in Kafka and its outcome; as JSON with the fields of `more`. Returns the exit code: 1
    if it is known to be in vain.
    """
    if as_json:
        echo(json.dumps({**published._asdict(), **outcome.shown(), **more}))
    else:
        place = f"version {published.version}  partition {published.partition}  offset {published.offset}"
        echo(f"{place}  outcome ", nl=False)
        echo(outcome.outcome, fg="red" if outcome.in_vain else "green" if not outcome.reason else "yellow")
    if outcome.in_vain:
        echo(f"Error: {'/'.join(about)} version {published.version}: is {outcome}", err=True)
        return 1
    if outcome.reason:
        echo(f"outcome not known: {outcome.reason}", err=True)
    return 0
