"""`coldnotify watch`: a client that prints its notifications."""

import base64
import json
import logging
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import StopFlag, stop_flag

from coldnotify_cli.asked_ports import SPEAKS_TLS, address_speaks_tls
from coldnotify_cli.credentials import connection_options
from coldnotify_cli.described import show_pairs
from coldnotify_cli.noting import Notes, message_payload
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import WatchSettings

if TYPE_CHECKING:
    from coldnotify import Message, Missed, Notification, Notify

_LOOK_S = 0.5
"""Interval of checks for a connection that fails."""
_TLS_ASKED_S = 5.0
"""Timeout of the question whether a gateway that served nobody speaks TLS."""


@click.command("watch")
@click.argument("domain")
@click.argument("group")
@click.argument("client")
@click.argument("objects", metavar="[OBJECT...]", nargs=-1)
@click.option(
    "--query",
    "queries",
    metavar="TEXT",
    multiple=True,
    help="Also print what enters and leaves the set of this query, and its members' versions; may be repeated.",
)
@click.option(
    "--descriptions", is_flag=True, help="Also print how the members of each --query are described, and each change."
)
@click.option(
    "--channel",
    "channels",
    metavar="NAME",
    multiple=True,
    help="Also print every message of this channel, and what was missed; may be repeated.",
)
@click.option(
    "--channels",
    "prefixes",
    metavar="PREFIX",
    multiple=True,
    help="The same of all channels whose names begin with this, also of those that come later; may be repeated.",
)
@click.option(
    "--pattern",
    "patterns",
    metavar="EXPRESSION",
    multiple=True,
    help="The same of all channels in whose names this is found, a regular expression as RE2 has it; may be repeated.",
)
@click.option(
    "--since",
    metavar="WHERE",
    help="Start of a new --channel: now (default), oldest, newest, an ISO time, a message's position.",
)
@click.option(
    "--attribute",
    "attributes",
    metavar="NAME",
    multiple=True,
    help="Print only messages of a --channel that are sent to this attribute (or another --attribute), or to all.",
)
@click.option(
    "--share",
    metavar="NAME",
    help="Be a member of this share of each --channel, which hands each message to one member. Needs --ack.",
)
@click.option("--ack", is_flag=True, help="With --share: what is printed is settled, for all members.")
@click.option(
    "--state", type=click.Path(dir_okay=False, path_type=Path), help="State file; default: state in memory only."
)
@click.option("--once", is_flag=True, help="Exit when all missing notifications have been received.")
@click.option(
    "--timeout-s",
    type=click.FloatRange(min=0),
    default=30,
    show_default=True,
    help="With --once: maximum time to wait, in seconds.",
)
@click.option(
    "--history",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Append what happens to the history FILE (for coldnotify check).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per line.")
@settings_options(WatchSettings)
def command_watch(
    domain: str,
    group: str,
    client: str,
    objects: tuple[str, ...],
    queries: tuple[str, ...],
    descriptions: bool,
    channels: tuple[str, ...],
    prefixes: tuple[str, ...],
    patterns: tuple[str, ...],
    since: str | None,
    attributes: tuple[str, ...],
    share: str | None,
    ack: bool,
    state: Path | None,
    once: bool,
    timeout_s: float,
    history: Path | None,
    as_json: bool,
    settings: WatchSettings,
) -> int:
    """Connect as CLIENT of DOMAIN and GROUP, registered for exactly these OBJECTs; print one line per notification.

    A query or channel is registered besides. One that an earlier call registered with the same state file stays so, but
    for channels that only an earlier call with the same --history named. With the same state file a channel goes on
    where it was, whatever --since says. Ends at SIGTERM or Ctrl-C. A client of the same name that is connected
    elsewhere is displaced.
    """
    import coldnotify

    of_patterns = [("prefix", one) for one in prefixes] + [("pattern", one) for one in patterns]
    if not (objects or queries or channels or of_patterns):
        raise click.UsageError("Missing argument 'OBJECT...', or an option --query, --channel or --channels.")
    if descriptions and not queries:
        raise click.UsageError("--descriptions: needs a --query, whose members are described.")
    if not (channels or of_patterns) and (since is not None or attributes):
        raise click.UsageError("--since and --attribute: need a --channel.")
    if share is not None and not (channels and ack):
        raise click.UsageError("--share: needs a --channel, and --ack: what is printed is handed to no other member.")
    if ack and share is None:
        raise click.UsageError("--ack: needs a --share, whose messages are settled.")
    if share is not None and (once or history is not None):
        raise click.UsageError("--share: cannot be combined with --once or --history.")
    if history is not None and queries:
        raise click.UsageError("--history: does not record queries, so it cannot be combined with --query.")
    if history is not None and of_patterns:
        raise click.UsageError("--history: does not record patterns, so it cannot be combined with --channels.")
    # What the library logs of problems would be printed beside what `_report` says of them.
    logging.getLogger("coldnotify").addHandler(logging.NullHandler())
    failures: list[str] = []
    addresses = settings.gateway.split(",")
    with stop_flag() as stop, Notes(history, domain, group, client, objects, keeps_state=state is not None) as notes:
        notify = coldnotify.Notify(
            domain=domain,
            group_id=group,
            client_id=client,
            state=coldnotify.State(state),
            connection=coldnotify.Connection(address=addresses, **connection_options(settings)),
            on_error=lambda error: _report(error, failures, stop),
        )
        printer = _Printer(as_json, failures, stop, notes, descriptions=descriptions)
        for registration in notify.register_only(objects):
            registration.subscribe(printer)
        for text in queries:
            try:
                query = notify.register_query(text, descriptions=descriptions)
            except ValueError as error:
                raise click.UsageError(f"--query: {error}") from None
            query.subscribe_members(printer.moved(text))
            query.subscribe(printer)
        for name in notes.channels(channels, attributes, since or "now"):
            notify.unregister_channel(name)
        for name in channels:
            try:
                if share is not None:
                    member = notify.channel(name, since=_since(since), attributes=attributes, share=share)
                    member.subscribe(printer.message, on_missed=printer.missed)
                    continue
                channel = notify.channel(name, since=_since(since), attributes=attributes)
            except ValueError as error:
                raise click.UsageError(_option(str(error))) from None
            channel.subscribe(printer.message, on_missed=printer.missed)
        for field, said in of_patterns:
            try:
                channel = notify.channels(**{field: said}, since=_since(since), attributes=attributes)
            except ValueError as error:
                raise click.UsageError(_option(str(error))) from None
            channel.subscribe(printer.message, on_missed=printer.missed)
        try:
            notes.connecting()
            notify.connect()
            if once:
                if _caught_up(notify, timeout_s, stop):
                    if not stop.is_set():
                        notes.caught_up()
                else:
                    problem = notify.status.last_problem
                    if not settings.ca_cert and any(address_speaks_tls(one, _TLS_ASKED_S) for one in addresses):
                        problem = SPEAKS_TLS
                    why = f": {problem}" if problem else ""
                    failures.append(f"not caught up within {timeout_s:g} s (gateway {settings.gateway}){why}")
            else:
                _look_on(notify, stop, notes)
        finally:
            notify.disconnect()
            notes.stopped()
    if failures:
        raise click.ClickException(failures[0])
    return 0


class _Printer:
    """The callbacks of every object, query and channel."""

    def __init__(self, as_json: bool, failures: list[str], stop: StopFlag, notes: Notes, *, descriptions: bool) -> None:
        self._as_json = as_json
        self._failures = failures
        self._stop = stop
        self._notes = notes
        self._descriptions = descriptions

    def __call__(self, notification: "Notification") -> None:
        self._notes.told(notification)
        line = _json(notification, descriptions=self._descriptions) if self._as_json else _line(notification)
        self._print(line)

    def moved(self, query: str) -> Callable[[set[str], set[str]], None]:
        """The callback for the members of a query."""

        def members(added: set[str], removed: set[str]) -> None:
            if self._as_json:
                said = {"query": query, "entered": sorted(added), "left": sorted(removed)}
                self._print(json.dumps(said, ensure_ascii=False))
            else:
                lines = [f"{name}  entered" for name in sorted(added)] + [f"{name}  left" for name in sorted(removed)]
                self._print(*lines)

        return members

    def message(self, message: "Message") -> None:
        """The callback for a channel's messages."""
        self._notes.message(message)
        self._print(_message_json(message) if self._as_json else _message_line(message))

    def missed(self, missed: "Missed") -> None:
        """The callback for missed messages of a channel."""
        self._notes.missed(missed)
        if self._as_json:
            between = {"after": missed.after, "before": missed.before, "reason": missed.reason.lower()}
            self._print(json.dumps({"channel": missed.channel, "missed": between}))
        else:
            where = f"before {missed.before}" if missed.after is None else f"between {missed.after} and {missed.before}"
            self._print(f"{missed.channel}  missed  {where}  {missed.reason.lower()}")

    def _print(self, *lines: str) -> None:
        try:
            echo(*lines)
        except OSError as error:
            # Nobody reads any more. Raising tells the library that this one was not applied.
            self._failures.append(f"cannot print: {error}")
            self._stop.set()
            raise


def _look_on(notify: "Notify", stop: StopFlag, notes: Notes) -> None:
    """Runs until it is to stop: notes that it is caught up; prints why there is no connection, or none that serves."""
    said: str | None = None
    caught_up = False
    while not stop.wait(_LOOK_S):
        if not caught_up and notify.wait_caught_up(0):
            caught_up = True
            notes.caught_up()
        problem = notify.status.last_problem
        if problem != said and problem is not None:
            echo(f"{problem}; it is tried again", err=True)
        said = problem


def _caught_up(notify: "Notify", timeout_s: float, stop: StopFlag) -> bool:
    """Waits in small pieces, so that Ctrl-C is heard."""
    deadline_s = time.monotonic() + timeout_s
    while not stop.is_set():
        left_s = deadline_s - time.monotonic()
        if notify.wait_caught_up(max(0.0, min(left_s, 0.2))):
            return True
        if left_s <= 0:
            return False
    return True


def _report(error: Exception, failures: list[str], stop: StopFlag) -> None:
    import coldnotify

    if isinstance(error, coldnotify.ServiceRefused | coldnotify.StateError):
        failures.append(str(error))
        stop.set()
    else:
        echo(f"{error}", err=True)


def _line(notification: "Notification") -> str:
    parts = [notification.object_id, "unknown" if notification.version is None else f"version {notification.version}"]
    if notification.deleted:
        parts.append("deleted")
    if notification.payload is not None:
        parts.append(json.dumps(message_payload(notification.data), ensure_ascii=False))
    if notification.description is not None:
        parts.append(show_pairs(notification.description))
    return "  ".join(parts)


def _json(notification: "Notification", *, descriptions: bool) -> str:
    raw = isinstance(notification.payload, bytes)
    said = {
        "object": notification.object_id,
        "version": notification.version,
        "payload": None if raw else notification.payload,
        **({"payload_base64": base64.b64encode(notification.data).decode()} if raw else {}),
        "deleted": notification.deleted,
    }
    return json.dumps(said | {"description": notification.description} if descriptions else said)


def _since(said: str | None) -> str | datetime:
    """Converts --since for `Notify.channel`: a time becomes a datetime. The library refuses invalid values."""
    try:
        return datetime.fromisoformat(said) if said is not None else "now"
    except ValueError:
        return said or "now"


def _option(problem: str) -> str:
    """Replaces an argument's name in the library's error by the option that set it."""
    options = {
        "since": "--since", "attributes": "--attribute", "channel": "--channel", "prefix": "--channels",
        "pattern": "--pattern", "share": "--share",
    }  # fmt: skip
    for argument, option in options.items():
        if problem.startswith(f"{argument}: "):
            return f"{option}{problem.removeprefix(argument)}"
    return problem


def _message_line(message: "Message") -> str:
    said = message_payload(message.data)
    return "  ".join([message.channel, f"offset {message.offset}", json.dumps(said, ensure_ascii=False)])


def _message_json(message: "Message") -> str:
    """Returns the message as /v1/sync has it, and its position for `since`."""
    said: dict[str, object] = {"channel": message.channel, "offset": message.offset}
    if isinstance(message.payload, bytes):
        said["payload_base64"] = base64.b64encode(message.data).decode()
    else:
        said["payload"] = message.payload
    if message.id is not None:
        said["id"] = message.id
    if message.source is not None:
        said["source"] = message.source
    if message.published_at is not None:
        said["published_ms"] = round(message.published_at.timestamp() * 1000)
    return json.dumps(said | {"previous": message.previous, "position": message.position})
