"""`coldnotify publish` with a condition, or of a set: asks the HTTP service, which answers once that is decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from coldnotify_cli.credentials import http_base, http_context, read_token
from coldnotify_cli.noting import noted, noted_set
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import PublishCommandSettings

if TYPE_CHECKING:
    from coldnotify.http_publisher import HttpPublisher


def publish_only_if(
    settings: PublishCommandSettings,
    about: tuple[str, str, str],
    payload: object,
    fields: Mapping[str, Any],
    history: Path | None,
    *,
    as_json: bool,
) -> int:
    """Publishes a version of `about` (domain, group, object), and prints its place; or the newest version, if the
    condition did not hold. `history`: the file that records it. Returns the exit code: 1 if it did not. Raises
    click.ClickException."""
    from coldnotify.http_publisher import PublishError, VersionConflict

    publisher = _publisher(settings)
    try:
        with noted(history, *about, payload=payload, **fields) as answer:
            published = publisher.publish(*about, payload=payload, **fields)
            answer(published.version)
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


def publish_as_one(
    settings: PublishCommandSettings, domain: str, group: str, file: Path, history: Path | None, *, as_json: bool
) -> int:
    """Publishes the versions in a file, all or none, and prints their place; or the objects at fault. `history`: the
    file that records it. Returns the exit code: 1 if conditions did not hold. Raises click.ClickException."""
    from coldnotify.http_publisher import PublishError, SetConflict

    named = _named(file)
    try:
        with noted_set(history, domain, group, named) as answer:
            receipts = _publisher(settings).publish_atomic(domain, group, named)
            answer([done.version for done in receipts])
    except SetConflict as error:
        if as_json:
            faults = [
                {"object": name, "reason": one.reason, "newest": None if one.newest is None else one.newest.shown()}
                for name, one in error.members.items()
            ]
            echo(json.dumps({"outcome": "refused", "members": faults}))
        for name, one in error.members.items():
            words = "nothing is known of it" if one.newest is None else f"the newest version is {one.newest}"
            echo(f"Error: {domain}/{group}/{name}: {one.reason}; {words}", err=True)
        return 1
    except PublishError as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.UsageError(f"--atomic: {error}") from None
    place = {"partition": receipts[0].partition, "offset": receipts[0].offset}
    if as_json:
        members = [{"object": name, "version": done.version} for (name, _), done in zip(named, receipts, strict=True)]
        echo(json.dumps({**place, "members": members, "outcome": "published"}))
    else:
        for (name, _), done in zip(named, receipts, strict=True):
            echo(f"{name}  version {done.version}")
        echo("  ".join(f"{name} {number}" for name, number in place.items()))
    return 0


def _publisher(settings: PublishCommandSettings) -> HttpPublisher:
    from coldnotify.http_publisher import HttpPublisher

    return HttpPublisher(
        http_base(settings, settings.http),
        token=read_token(settings) or None,
        ssl_context=http_context(settings),
        timeout_s=settings.publish_timeout_s,
    )


def _named(file: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """Returns the file's versions with their objects. Raises click.UsageError."""
    try:
        items = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise click.UsageError(f"--atomic: {file} is not JSON: {error}") from None
    if not isinstance(items, list) or not all(isinstance(one, dict) for one in items):
        raise click.UsageError(f'--atomic: {file}: expected a list of versions, [{{"object": ...}}, ...]')
    named: list[tuple[str, Mapping[str, Any]]] = []
    for place, one in enumerate(items):
        if not isinstance(one.get("object"), str):
            raise click.UsageError(f"--atomic: set[{place}].object: is missing, or no text")
        named.append((one["object"], {key: value for key, value in one.items() if key != "object"}))
    return named
