"""An application of an OU: uploads its observations when somebody asks for them, and is silent otherwise.

    python -m coldnotify_demo.observation_unit ISLAND KIND... --directory DIR

It registers for requests of the kinds that it has, and is told of no others. Surveys have names that it cannot know: it
registers by a query for those that are open and about its data. The institute's announcements come by a channel, on
which every message counts.
"""

import argparse
import json
import signal
import sys
import urllib.request
from collections.abc import Set
from pathlib import Path

from coldnotify import Connection, Message, Notification, Notify, State

from coldnotify_demo.penguins import KINDS, observations
from coldnotify_demo.saying import say

UPLOAD_TIMEOUT_S = 20
REPORT_INTERVAL_S = 10


class Uploads:
    """Answers requests."""

    def __init__(self, island: str) -> None:
        self._island = island

    def answer(self, notification: Notification) -> None:
        """The callback. If it raises (the link broke), the library calls it again later."""
        if notification.payload is None:
            return  # nobody has ever asked for it, or so long ago that the request has expired
        kind = notification.payload.get("kind") or notification.object_id.removeprefix("requests/")
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
            asked_by=notification.object_id,
            version=notification.version,
            count=len(rows),
        )


def surveys(added: Set[str], removed: Set[str]) -> None:
    """The members callback: which surveys have come that this OU has something for, and which have gone."""
    words = [f"{name} is for us" for name in sorted(added)] + [f"{name} is not any more" for name in sorted(removed)]
    say(", ".join(words), event="surveys", added=sorted(added), removed=sorted(removed))


def instructed(message: Message) -> None:
    """The channel's callback."""
    number, text = message.payload["number"], message.payload["text"]
    say(f"instruction {number}: {text}", event="instructed", number=number)


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
    open_surveys = notify.register_query(f"Survey = open AND Kind IN ({', '.join(args.kinds)})")
    open_surveys.subscribe(uploads.answer)
    open_surveys.subscribe_members(surveys)
    notify.channel("instructions").subscribe(instructed)
    with notify:
        while not notify.wait_caught_up(REPORT_INTERVAL_S):
            say(f"not caught up yet ({notify.status.last_problem or notify.status.phase})")
        say(f"caught up, has {', '.join(args.kinds)}", event="caught up")
        signal.pause()


if __name__ == "__main__":
    main()
