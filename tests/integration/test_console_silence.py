"""The console where nobody answers: a stream that is silent, a service or a matcher that stands still, eight tabs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

import pytest
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.proxy import Network
from coldnotify_testkit.stack import Stacks, Up, get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

WAIT_S = 120
DOMAIN = "animal.observer"
LIVE = "document.querySelector('#live').innerText"
STALE = "document.body.classList.contains('stale')"
PROBLEM = "document.querySelector('#place-problem').innerText"
PROBLEMS = "document.querySelector('#problems').innerText"
ONLINE = "document.querySelector('#tiles b').innerText"


def register(up: Up, group: str) -> None:
    """A client that has woken once, and an object that it has not been told."""
    body = {"domain": DOMAIN, "group": group, "client": "oslo", "registrations": ["camera"], "cursor": None}
    data = json.dumps(body | {"wait_s": 0}).encode()
    urlopen(Request(f"{up.http_url}/v1/sync", data, {"Content-Type": "application/json"}), timeout=WAIT_S).close()
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "camera", version=1)


def said_from_now(window: Browser) -> str:
    """An expression: all that the page has said of its stream since."""
    window.run(
        "window.said = []; const live = document.querySelector('#live-words');"
        "new MutationObserver(() => said.push(live.innerText)).observe(live, {childList: true})"
    )
    return "window.said"


def test_a_silent_stream_is_not_live_and_is_opened_anew(up: Up, window: Browser) -> None:
    port, service = free_port("127.0.0.1"), urlsplit(up.http_url)
    assert service.hostname is not None
    assert service.port is not None
    with Network() as network:
        proxy = network.proxy(("127.0.0.1", port), (service.hostname, service.port))
        window.open(f"http://127.0.0.1:{port}/")
        window.wait_for(f"{LIVE} == 'live'", "it is live")
        said = said_from_now(window)
        proxy.swallow()
        wait_for(lambda: proxy.swallowed_bytes > 0, "the stream is silent from here on")
        proxy.heal()  # for connections that begin now
        window.wait_for(f"{said}.includes('not live: no answer within 10 s')", "it says so")
        window.wait_for(f"{LIVE} == 'live' && !{STALE}", "a new stream")


def test_a_service_that_stands_still_is_said_to(up: Up, window: Browser) -> None:
    group = "still"
    register(up, group)
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}")
    window.wait_for(f"{LIVE} == 'live' && document.querySelector('#matrix td.cell')", "it is live")
    with frozen(up.report["pids"]["http"]):
        window.run("document.querySelector('#publish').object.value = 'camera'")
        window.run("document.querySelector('#publish button').click(); document.querySelector('#confirm-yes').click()")
        window.wait_for(f"{LIVE} == 'not live: no answer within 10 s' && {STALE}", "what is old is dimmed")
        window.wait_for(f"{PROBLEM} == 'no answer within 15 s'", "the group cannot be asked")
        published = "document.querySelector('#published').innerText"
        window.wait_for(f"{published} == 'unknown: no answer within 30 s'", "what came of a publish")
        assert window.run("return document.querySelector('#publish button').disabled") is False
    window.wait_for(f"{LIVE} == 'live' && !{STALE} && {PROBLEM} == ''", "all is well again")


def test_eight_tabs_are_live_when_they_are_looked_at(up: Up, window: Browser) -> None:
    opened = [window.tab]
    window.open(f"{up.http_url}/#/tenants")
    window.wait_for(f"{LIVE} == 'live'", "the first")
    for number in range(2, 9):
        opened.append(window.new_tab())
        window.open(f"{up.http_url}/#/tenants")
        window.wait_for(f"{LIVE} == 'live' && document.querySelector('#tenants tbody')", f"tab {number}")
    for tab in (opened[0], opened[5], opened[7]):
        window.turn_to(tab)
        window.wait_for(f"{LIVE} == 'live' && !{STALE}", "it goes on when it is looked at again")


@pytest.fixture
def alone(stacks: Stacks, tmp_path: Path) -> Iterator[Up]:
    """Everything running, where nobody else is counted."""
    with stacks.running(tmp_path, http_look_timeout_s="10") as up:
        yield up


def test_where_no_matcher_answers_the_last_counts_stay_and_are_dimmed(alone: Up, window: Browser) -> None:
    up, group = alone, "silent-matcher"
    register(up, group)
    window.open(up.http_url + "/")
    lacked = "document.querySelector('#oldest tbody td')?.innerText"
    window.wait_for(f"{LIVE} == 'live' && {ONLINE} == '0 of 1' && {lacked}?.includes('/')", "one lacks something")
    oldest = window.run(f"return {lacked}")
    is_old = "document.querySelector('#tiles').classList.contains('old')"
    assert window.run(f"return {is_old}") is False
    with frozen(up.report["pids"]["matcher"]):
        window.wait_for(f"{LIVE} == 'live, but no matcher answers for any partition'", "it is said beside the light")
        address = up.report["matcher"]
        window.wait_for(f"{PROBLEMS}.includes('matcher {address} cannot be asked: no answer within 10 s')", "which one")
        shown = "counts of clients and objects are from 20"
        window.wait_for(f"{PROBLEMS}.includes('No matcher has answered for any partition since 20')", "since when")
        assert shown in window.run(f"return {PROBLEMS}")
        assert window.run(f"return [{ONLINE}, {is_old}]") == ["0 of 1", True]
        assert window.run(f"return {lacked}") == oldest

        window.open("about:blank")
        window.open(up.http_url + "/")
        window.wait_for(f"{PROBLEMS}.includes('counts of clients and objects are not known')", "it never knew them")
        tiles = window.run("return [...document.querySelectorAll('#tiles b')].map((one) => one.innerText)")
        assert [tiles[place] for place in (0, 1, 2, 3, 4, 7)] == ["–"] * 6
        for table in ("groups", "slowest", "oldest"):
            words = window.run(f"return document.querySelector('#{table} tbody').innerText")
            assert words == "Not known: not all partitions are counted."

        window.run(f"location.hash = '#/groups/{DOMAIN}/{group}'")
        window.wait_for(f"{PROBLEM} == 'matcher {address}: no answer within 10 s'", "a group cannot be asked")
        done = coldnotify("top", "--once", http=up.report["http"])
        assert done.returncode == 1
        assert "clients -  online -" in done.stdout
        assert done.stderr.startswith("Error: no matcher has answered for any partition since 20")
    window.wait_for(f"{LIVE} == 'live' && {PROBLEM} == ''", "all partitions are counted again")


def test_partitions_that_nobody_answers_for_are_named(up: Up, window: Browser) -> None:
    window.open(up.http_url + "/")
    window.wait_for(f"{LIVE} == 'live'", "it is live")
    window.run(
        """const real = window.fetch;
        window.fetch = async (path, options) => {
            if (!String(path).includes('console/events')) return real(path, options);
            const shown = await (await real('v1/overview')).json();
            const none = {groups: [], slowest: [], oldest: [], partitions: {counted: 6, missing: [1, 3]}};
            const event = {...shown, ...none, history: [[shown.now_ms, 0, 0, null, null, 0, null, null]]};
            const data = new TextEncoder().encode(`data: ${JSON.stringify(event)}\\n\\n`);
            return new Response(new ReadableStream({start: (stream) => stream.enqueue(data)}));
        };
        const look = (hidden) => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        };
        window.look = look;
        look(true)"""
    )
    window.wait_for(f"{LIVE} == 'paused: the tab is hidden' && {STALE}", "nobody looks")
    window.run("look(false)")
    named = "no matcher answers for partitions 1, 3 (of 8)"
    window.wait_for(f"{LIVE} == 'live, but {named}'", "which partitions")
    assert f"{named[0].upper()}{named[1:]}: counts of clients and objects are from 20" in window.run(
        f"return {PROBLEMS}"
    )
    assert window.run("return document.querySelector('#tiles').classList.contains('old')")


def test_one_of_two_matchers_stands_still_and_then_both(stacks: Stacks, tmp_path: Path, window: Browser) -> None:
    tile = "document.querySelector('#tiles').classList.contains('old')"
    rows = "[...document.querySelectorAll('#groups tbody tr td:first-child')].map((one) => one.innerText).join()"
    # So long that the other matcher does not take its partition over meanwhile.
    with stacks.running(tmp_path, "--matchers=2", matcher_session_timeout_ms="300000") as up:

        def look() -> dict[str, Any]:
            shown: dict[str, Any] = get_json(f"{up.http_url}/v1/overview")
            return shown

        for number in range(8):
            register(up, f"group-{number}")
        wait_for(lambda: look()["partitions"]["counted"] == 2, "all are counted")
        window.open(up.http_url + "/")
        window.wait_for(f"{LIVE} == 'live' && {ONLINE} == '0 of 8'", "everybody is counted")
        groups = window.run(f"return {rows}")
        with frozen(up.report["pids"]["matcher-2"]):
            window.wait_for(f"{PROBLEMS}.includes('No matcher has answered for partition ')", "whose")
            assert window.run(f"return [{ONLINE}, {tile}, {rows}]") == ["0 of 8", True, groups]
            shown = look()
            (missing,) = shown["partitions"]["missing"]
            assert shown["partitions"]["since_ms"] < shown["now_ms"]
            assert [one["error"] is None for one in shown["matchers"]] == [True, False]
            done = coldnotify("top", "--once", http=up.report["http"])
            assert done.returncode == 0
            assert done.stderr.startswith(f"Warning: no matcher has answered for partition {missing} (of 2) since 20")
            window.open("about:blank")
            window.open(up.http_url + "/")
            window.wait_for(f"{PROBLEMS}.includes('are too low')", "it never knew the others")
            with frozen(up.report["pids"]["matcher"]):
                window.wait_for(f"{PROBLEMS}.includes('No matcher has answered for any partition since 20')", "nobody")
                assert window.run(f"return {tile}")
                assert "Nobody" not in window.run("return document.querySelector('#main').innerText")
                partitions = look()["partitions"]
                assert (partitions["counted"], partitions["missing"]) == (0, [0, 1])
                assert partitions["since_ms"] == shown["partitions"]["since_ms"], "the oldest of the last answers"
                done = coldnotify("top", "--once", http=up.report["http"])
                assert done.returncode == 1
                assert done.stderr.startswith("Error: no matcher has answered for any partition since 20")
        window.wait_for(f"{LIVE} == 'live' && {ONLINE} == '0 of 8' && !{tile}", "all are counted again")
