"""`coldnotify publish` with a condition: asks the HTTP service, which answers once that is decided."""

import json
from collections.abc import Mapping
from typing import Any

import click

from coldnotify_cli.credentials import http_base, http_context, read_token
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import PublishCommandSettings


def publish_only_if(
    settings: PublishCommandSettings,
    about: tuple[str, str, str],
    payload: object,
    fields: Mapping[str, Any],
    *,
    as_json: bool,
) -> int:
    """Publishes a version of `about` (domain, group, object), and prints its place; or the newest version, if the
    condition did not hold. Returns the exit code: 1 if it did not. Raises click.ClickException."""
    from coldnotify.http_publisher import HttpPublisher, PublishError, VersionConflict

    publisher = HttpPublisher(
        http_base(settings, settings.http),
        token=read_token(settings) or None,
        ssl_context=http_context(settings),
        timeout_s=settings.publish_timeout_s,
    )
    try:
        published = publisher.publish(*about, payload=payload, **fields)
    except VersionConflict as error:
        newest = None if error.newest is None else error.newest.shown()
        if as_json:
            echo(json.dumps({"outcome": "refused", "newest": newest}))
        words = "nothing is known of it" if error.newest is None else f"the newest version is {error.newest}"
        echo(f"Error: {'/'.join(about)}: {error}; {words}", err=True)
        return 1
    except PublishError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    place = {"version": published.version, "partition": published.partition, "offset": published.offset}
    if as_json:
        echo(json.dumps({**place, "outcome": "published"}))
    else:
        echo("  ".join(f"{name} {number}" for name, number in place.items()))
    return 0
