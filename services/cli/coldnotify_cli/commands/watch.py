"""`coldnotify watch`: a client that prints what it is notified of."""

import json
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click
from coldnotify_common.settings import settings_options
from coldnotify_common.stop import StopFlag, stop_flag

from coldnotify_cli.credentials import connection_options
from coldnotify_cli.noting import Notes
from coldnotify_cli.settings import WatchSettings

if TYPE_CHECKING:
    from coldnotify import Notification, Notify

_LOOK_S = 0.5
"""How late one hears of a connection that does not come about."""


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
    state: Path | None,
    once: bool,
    timeout_s: float,
    history: Path | None,
    as_json: bool,
    settings: WatchSettings,
) -> int:
    """Connect as CLIENT of DOMAIN and GROUP, registered for exactly these OBJECTs; print one line per notification.

    A query is registered besides. One that an earlier call registered with the same state file stays so. Ends at
    SIGTERM or Ctrl-C. A client of the same name that is connected elsewhere is displaced.
    """
    import coldnotify

    if not objects and not queries:
        raise click.UsageError("Missing argument 'OBJECT...', or an option --query.")
    if history is not None and queries:
        raise click.UsageError("--history: notes nothing of queries, so it cannot be given with --query.")
    # What the library logs of problems would be printed beside what `_report` says of them.
    logging.getLogger("coldnotify").addHandler(logging.NullHandler())
    failures: list[str] = []
    with stop_flag() as stop, Notes(history, domain, group, client, objects, keeps_state=state is not None) as notes:
        notify = coldnotify.Notify(
            domain=domain,
            group_id=group,
            client_id=client,
            state=coldnotify.State(state),
            connection=coldnotify.Connection(address=settings.gateway.split(","), **connection_options(settings)),
            on_error=lambda error: _report(error, failures, stop),
        )
        printer = _Printer(as_json, failures, stop, notes)
        for registration in notify.register_only(objects):
            registration.subscribe(printer)
        for text in queries:
            try:
                query = notify.register_query(text)
            except ValueError as error:
                raise click.UsageError(f"--query: {error}") from None
            query.subscribe_members(printer.moved(text))
            query.subscribe(printer)
        try:
            notes.connecting()
            notify.connect()
            if once:
                if _caught_up(notify, timeout_s, stop):
                    if not stop.is_set():
                        notes.caught_up()
                else:
                    problem = notify.status.last_problem
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
    """The callback of every object."""

    def __init__(self, as_json: bool, failures: list[str], stop: StopFlag, notes: Notes) -> None:
        self._as_json = as_json
        self._failures = failures
        self._stop = stop
        self._notes = notes

    def __call__(self, notification: "Notification") -> None:
        self._notes.told(notification)
        self._print(_json(notification) if self._as_json else _line(notification))

    def moved(self, query: str) -> Callable[[set[str], set[str]], None]:
        """The callback for the members of a query."""

        def members(added: set[str], removed: set[str]) -> None:
            if self._as_json:
                said = {"query": query, "entered": sorted(added), "left": sorted(removed)}
                self._print(json.dumps(said, ensure_ascii=False))
            else:
                lines = [f"{name}  entered" for name in sorted(added)] + [f"{name}  left" for name in sorted(removed)]
                self._print("\n".join(lines))

        return members

    def _print(self, said: str) -> None:
        try:
            print(said, flush=True)
        except OSError as error:
            # Nobody reads any more. Raising tells the library that this one was not applied.
            self._failures.append(f"cannot print: {error}")
            self._stop.set()
            raise


def _look_on(notify: "Notify", stop: StopFlag, notes: Notes) -> None:
    """Until it is to stop: notes that it is caught up; says why there is no connection, or none that serves."""
    said: str | None = None
    caught_up = False
    while not stop.wait(_LOOK_S):
        if not caught_up and notify.wait_caught_up(0):
            caught_up = True
            notes.caught_up()
        problem = notify.status.last_problem
        if problem != said and problem is not None:
            click.echo(f"{problem}; it is tried again", err=True)
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
        click.echo(f"{error}", err=True)


def _line(notification: "Notification") -> str:
    if notification.version is None:
        return f"{notification.object_id}  unknown"
    parts = [notification.object_id, f"version {notification.version}"]
    if notification.deleted:
        parts.append("deleted")
    if notification.payload is not None:
        parts.append(json.dumps(notification.payload, ensure_ascii=False))
    return "  ".join(parts)


def _json(notification: "Notification") -> str:
    return json.dumps(
        {
            "object": notification.object_id,
            "version": notification.version,
            "payload": notification.payload,
            "deleted": notification.deleted,
        }
    )
