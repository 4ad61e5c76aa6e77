"""Takes the screenshots of the console for the documentation, with a stack of its own: make screenshots.

It shows five units, two of them asleep and without what was published since; a query, a channel, a tenant, traffic.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from urllib.request import Request, urlopen

from coldnotify import Notify
from coldnotify.http_publisher import HttpPublisher
from coldnotify.publisher import Publisher

from coldnotify_testkit.browser import MISSING, Browser, browser
from coldnotify_testkit.stack import Up, notify, running

DOMAIN, GROUP = "animal.observer", "region-1"
_AWAKE, _ASLEEP = ("oslo", "bergen", "hammerfest"), ("tromso", "narvik")
_REGISTERED = ("camera-config", "humidity-calibration", "region/penguins")
_WIDE, _PHONE = (1280, 900), (390, 844)
_CAUGHT_UP_S = 120
_PAUSE_S = 0.1
_SELDOM = 50
"""One of so many publishes is for the units, so that those that are awake lack nothing most of the time."""
_TRAFFIC_S = 75.0
"""So that the charts have something to show."""
_AT = f"#/groups/{DOMAIN}/{GROUP}"
PAGES: dict[str, tuple[str, tuple[int, int], bool, str]] = {
    "console-1280-light": ("#/", _WIDE, False, "#groups"),
    "console-1280-dark": ("#/", _WIDE, True, "#groups"),
    "console-390-light": ("#/", _PHONE, False, "#groups"),
    "console-390-dark": ("#/", _PHONE, True, "#groups"),
    "console-group": (_AT, _WIDE, False, "#channels"),
    "console-explain": (f"{_AT}/clients/tromso", _WIDE, False, "#registrations"),
    "console-object": (f"{_AT}/objects/camera-config", _WIDE, False, "#history-words"),
    "console-tenant": ("#/tenants/observers", _WIDE, False, "#tenant-hours"),
}
"""Pages by file: address within the page, size of the window, whether it is dark, and the element that must be there
first.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    parser.add_argument("--traffic-s", type=float, default=_TRAFFIC_S)
    asked = parser.parse_args(arguments)
    if MISSING is not None:
        print(MISSING, file=sys.stderr)
        return 1
    with (
        tempfile.TemporaryDirectory() as name,
        running(Path(name)) as up,
        browser(Path(name) / "chromedriver.log") as window,
    ):
        # While somebody looks, the service gathers what charts show.
        take(window, up, "#/", "#tiles", size=_WIDE, dark=False)
        with scene(up, asked.traffic_s):
            photograph(window, up, asked.directory)
    return 0


def photograph(window: Browser, up: Up, directory: Path) -> None:
    """All pages."""
    for file, (address, size, dark, wanted) in PAGES.items():
        take(window, up, address, wanted, size=size, dark=dark)
        window.screenshot(directory / f"{file}.png")


def take(window: Browser, up: Up, address: str, wanted: str, *, size: tuple[int, int], dark: bool) -> None:
    """Opens the address, waits until it shows what it should, and takes a screenshot."""
    window.look(*size, dark=dark)
    window.open("about:blank")  # so that the next one is loaded anew
    window.open(f"{up.http_url}/{address}")
    window.wait_for("document.querySelector('#live').innerText == 'live'", "it is live")
    shown = f"document.querySelector({json.dumps(wanted)})"
    window.wait_for(f"{shown} && {shown}.offsetHeight && {shown}.innerText.trim()", wanted)


@contextmanager
def scene(up: Up, traffic_s: float) -> Iterator[None]:
    """Creates what the screenshots show, after so much traffic. The traffic continues until the end."""
    request = Request(f"{up.http_url}/v1/tenants/observers", method="PUT")
    agreement = {"domains": [DOMAIN], "in_per_s": 50, "out_per_s": 500, "clients_max": 20}
    urlopen(request, json.dumps(agreement).encode(), timeout=_CAUGHT_UP_S).close()
    with Publisher(up.kafka) as publisher, HttpPublisher(up.http_url) as by_http:
        for name in _REGISTERED:
            publisher.publish(DOMAIN, GROUP, name, version=1, payload={"fps": 5})
        publisher.send(DOMAIN, GROUP, "tasks", "look north")
        clients = [_client(up, name) for name in (*_ASLEEP, *_AWAKE)]
        for one in clients[: len(_ASLEEP)]:
            one.disconnect()
        done, enough = Event(), Event()
        thread = Thread(target=_traffic, args=(publisher, by_http, done, enough, traffic_s))
        thread.start()
        try:
            enough.wait()
            yield
        finally:
            done.set()
            thread.join()
            for one in clients[len(_ASLEEP) :]:
                one.disconnect()


def _client(up: Up, name: str) -> Notify:
    client = notify(up, name, None, group=GROUP)
    for one in _REGISTERED:
        client.register(one).subscribe(lambda _: None)
    if name == _AWAKE[0]:
        client.register_prefix("region/").subscribe(lambda _: None)
        client.channel("tasks").subscribe(lambda _: None)
    client.connect()
    assert client.wait_caught_up(timeout_s=_CAUGHT_UP_S), client.status
    return client


def _traffic(publisher: Publisher, by_http: HttpPublisher, done: Event, enough: Event, traffic_s: float) -> None:
    exposure = {"mode": "auto", "max_ms": 40}
    for version in range(2, 9):
        publisher.publish(
            DOMAIN, GROUP, "camera-config", version=version, payload={"fps": version, "exposure": exposure}
        )
    publisher.publish(DOMAIN, GROUP, "camera-config", version=3)  # stale
    for number in range(2, sys.maxsize):
        by_http.publish(DOMAIN, f"region-{number % 3 + 2}", "heartbeat", version=number)
        if number % _SELDOM == 0:
            publisher.publish(DOMAIN, GROUP, "humidity-calibration", version=number, payload={"offset": number % 7})
        if number * _PAUSE_S >= traffic_s:
            enough.set()
        if done.wait(_PAUSE_S):
            return


if __name__ == "__main__":
    sys.exit(main())
