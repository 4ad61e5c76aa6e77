"""A client behind a link of 50 kbit/s with a large backlog: how long it takes to catch up, bytes sent against needed.

Objects are published over and over while the client is away; then it wakes behind a shaped link, and publishing goes on
until it has half of what it lacks. Needed is what the newest version of each object takes as a Notification.

    .venv/bin/python loadtest/slow_link.py --objects 500 --versions 5 --bits-per-s 50000
"""

import argparse
import json
import sys
import tempfile
import threading
import time
from pathlib import Path

from coldnotify.publisher import Publisher
from coldnotify_testkit.slow_link import SlowLink, needed_bytes
from coldnotify_testkit.stack import Recorder, notify, running
from coldnotify_testkit.waiting import wait_for

DOMAIN, GROUP = "animal.observer", "region-1"


def main() -> int:
    """Prints the figures, and writes them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--objects", type=int, default=500)
    parser.add_argument("--versions", type=int, default=5, help="versions of each object that are missed")
    parser.add_argument("--payload-bytes", type=int, default=400)
    parser.add_argument("--bits-per-s", type=float, default=50_000)
    parser.add_argument("--live-per-s", type=float, default=20, help="publishes a second while it catches up")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    names = [f"object-{i}" for i in range(arguments.objects)]
    payload = "x" * arguments.payload_bytes
    with (
        tempfile.TemporaryDirectory() as directory,
        running(Path(directory)) as up,
        Publisher(kafka=up.kafka) as source,
    ):
        state = Path(directory) / "state.json"
        first = Recorder()
        with notify(up, "slow", state) as ou:
            for name in names:
                ou.register(name).subscribe(first)
            wait_for(lambda: len({one.object_id for one in first.seen}) == len(names), "registered")
        version = dict.fromkeys(names, 0)

        def publish(name: str) -> None:
            version[name] += 1
            source.publish(DOMAIN, GROUP, name, version=version[name], payload=payload)

        for _ in range(arguments.versions):
            for name in names:
                publish(name)
        source.flush(60)
        told = Recorder()
        done = threading.Event()
        live = 0

        def go_on() -> None:
            nonlocal live
            while not done.wait(1 / arguments.live_per_s) and len(told.seen) < len(names) / 2:
                publish(names[live % len(names)])
                live += 1

        with SlowLink(*up.gateway, bits_per_s=arguments.bits_per_s) as link:
            begun_s = time.monotonic()
            publisher = threading.Thread(target=go_on, daemon=True)
            with notify(up, "slow", state, port=link.port) as ou:
                for name in names:
                    ou.register(name).subscribe(told)
                publisher.start()
                wait_for(lambda: all(told.newest(n) == version[n] for n in names), "caught up", timeout_s=1800)
                took_s = time.monotonic() - begun_s
            done.set()
            publisher.join(60)
            needed = needed_bytes(names, payload, max(version.values()))
            figures = {
                "objects": arguments.objects,
                "missed_versions": arguments.objects * arguments.versions,
                "published_meanwhile": live,
                "bits_per_s": arguments.bits_per_s,
                "caught_up_s": round(took_s, 1),
                "sent_bytes": link.down_bytes,
                "needed_bytes": needed,
                "sent_per_needed": round(link.down_bytes / needed, 2),
                "all_versions_would_be_bytes": round(needed / len(names) * (len(names) * arguments.versions + live)),
                "told": len(told.seen),
            }
    text = json.dumps(figures, indent=1)
    sys.stdout.write(text + "\n")
    if arguments.json:
        arguments.json.write_text(text + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
