"""An application of an OU: keeps copies of its region's configurations, always the newest.

python -m coldnotify_demo.configuration_unit NAME OBJECT... --group region-1 --backend URL --directory DIR
"""

import argparse
import signal
import sys
import urllib.request
from pathlib import Path

from coldnotify import Connection, Notification, Notify, State

from coldnotify_demo.saying import say

FETCH_TIMEOUT_S = 20
REPORT_INTERVAL_S = 10


class ConfigurationFiles:
    """The copies: DIRECTORY/<object>.yaml."""

    def __init__(self, directory: Path, url: str) -> None:
        self._directory = directory
        self._url = url

    def update(self, notification: Notification) -> None:
        """The callback. If it raises (the link broke), the library calls it again later: nothing else is needed."""
        name, version = notification.object_id, notification.version
        file = self._directory / f"{name}.yaml"
        if version is None:
            say(f"told that {name} was never published", event="told", object=name, version=None)
        elif notification.deleted:
            file.unlink(missing_ok=True)
            say(f"told that {name} is gone (version {version})", event="told", object=name, version=version)
        else:
            with urllib.request.urlopen(f"{self._url}/{name}", timeout=FETCH_TIMEOUT_S) as response:
                content = response.read()
            # Renamed into place: a power cut leaves the old file or the new one.
            new = file.with_suffix(".new")
            new.write_bytes(content)
            new.replace(file)
            say(
                f"told {name} version {version}, fetched {len(content)} bytes",
                event="told",
                object=name,
                version=version,
            )


def main() -> None:
    """Runs until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="An OU that keeps its configurations up to date.")
    parser.add_argument("name")
    parser.add_argument("objects", nargs="+")
    parser.add_argument("--domain", default="animal.observer")
    parser.add_argument("--group", required=True)
    parser.add_argument("--gateway", default="127.0.0.1:55000")
    parser.add_argument("--backend", required=True, help="where the configurations are fetched")
    parser.add_argument("--directory", type=Path, required=True, help="for the copies and the state file")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))

    args.directory.mkdir(parents=True, exist_ok=True)
    files = ConfigurationFiles(args.directory, f"{args.backend}/{args.group}")
    notify = Notify(
        domain=args.domain,
        group_id=args.group,
        client_id=args.name,
        state=State(args.directory / "registration-state.json"),
        connection=Connection(address=args.gateway),
    )
    for registration in notify.register_only(args.objects):
        registration.subscribe(files.update)
    with notify:
        while not notify.wait_caught_up(REPORT_INTERVAL_S):
            say(f"not caught up yet ({notify.status.last_problem or notify.status.phase})")
        say("caught up: nothing is missing", event="caught up")
        signal.pause()


if __name__ == "__main__":
    main()
