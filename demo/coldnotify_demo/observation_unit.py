"""An application of an OU: uploads its observations when somebody asks for them, and is silent otherwise.

    python -m coldnotify_demo.observation_unit ISLAND KIND... --directory DIR

It registers for requests of the kinds that it has; of others it hears nothing.
"""

import argparse
import json
import signal
import sys
import urllib.request
from pathlib import Path

from coldnotify import Connection, Notification, Notify, State

from coldnotify_demo.penguins import KINDS, observations
from coldnotify_demo.saying import say

UPLOAD_TIMEOUT_S = 20
REPORT_INTERVAL_S = 10


class Uploads:
    """Answers requests."""

    def __init__(self, island: str) -> None:
        self._island = island

    def answer(self, notification: Notification) -> None:
        """The callback. If it raises (the link broke), it is told again later."""
        if notification.payload is None:
            return  # nobody has ever asked for it, or so long ago that the request has expired
        kind = notification.object_id.removeprefix("requests/")
        rows = [row._asdict() for row in observations(self._island, kind)]
        url = f"{notification.payload['upload_to']}/{self._island.lower()}"
        body = json.dumps(rows).encode()
        request = urllib.request.Request(url, body, {"Content-Type": "application/json"}, method="POST")
        with urllib.request.urlopen(request, timeout=UPLOAD_TIMEOUT_S):
            pass
        say(
            f"asked for {kind}, uploaded {len(rows)} observations",
            event="uploaded",
            kind=kind,
            version=notification.version,
            count=len(rows),
        )


def main() -> None:
    """Runs until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(description="An OU that uploads observations on demand.")
    parser.add_argument("island", choices=["Biscoe", "Dream", "Torgersen"])
    parser.add_argument("kinds", nargs="+", choices=KINDS)
    parser.add_argument("--domain", default="penguin.observations")
    parser.add_argument("--group", default="palmer-archipelago")
    parser.add_argument("--gateway", default="127.0.0.1:55000")
    parser.add_argument("--directory", type=Path, required=True, help="for the state file")
    args = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))

    args.directory.mkdir(parents=True, exist_ok=True)
    uploads = Uploads(args.island)
    notify = Notify(
        domain=args.domain,
        group_id=args.group,
        client_id=args.island.lower(),
        state=State(args.directory / "registration-state.json"),
        connection=Connection(address=args.gateway),
    )
    for registration in notify.register_only([f"requests/{kind}" for kind in args.kinds]):
        registration.subscribe(uploads.answer)
    with notify:
        while not notify.wait_caught_up(REPORT_INTERVAL_S):
            say(f"not caught up yet ({notify.status.last_problem or notify.status.phase})")
        say(f"caught up, has {', '.join(args.kinds)}", event="caught up")
        signal.pause()


if __name__ == "__main__":
    main()
