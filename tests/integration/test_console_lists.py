"""Lists of everything with two matchers and two gateways: over HTTP, on the command line, in the console."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

WAIT_S = 120
DOMAIN = "animal.observer"
GROUPS = [f"region-{number:03d}" for number in range(240)]
PAGE_BYTES_MAX = 20_000
"""Of 50 groups, clients or names, on whichever page, however many there are."""
ROWS = "[...document.querySelectorAll('#list tbody tr')].map((row) => row.innerText.split(/\\s+/).join(' '))"
COUNT = "document.querySelector('#list-count').innerText"
needs_browser = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


@pytest.fixture(scope="module")
def many(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two matchers and two gateways, 240 groups with an object each, 20 with a client that has woken before."""
    flags = ("--gateways=2", "--matchers=2", "--partitions=8")
    # Nobody takes over what a matcher serves that stands still for a moment.
    settings = {"http_look_timeout_s": "10", "matcher_session_timeout_ms": "300000"}
    with stacks.running(tmp_path_factory.mktemp("many"), *flags, **settings) as up:
        for number, group in enumerate(GROUPS[:20]):
            registrations = [f"camera-{group}"]
            body = {"domain": DOMAIN, "group": group, "client": f"oslo-{number}", "registrations": registrations}
            data = json.dumps(body | {"cursor": None, "wait_s": 0}).encode()
            urlopen(
                Request(f"{up.http_url}/v1/sync", data, {"Content-Type": "application/json"}), timeout=WAIT_S
            ).close()
        with up.publisher() as publisher:
            for group in GROUPS:
                publisher.publish(DOMAIN, group, f"camera-{group}", version=1)
        wait_for(lambda: ask(up, "groups")["count"] == len(GROUPS), "all groups")
        wait_for(lambda: ask(up, "clients", state="behind")["count"] == 20, "all lack something")
        wait_for(lambda: ask(up, "clients", state="asleep")["count"] == 20, "and sleep")
        yield up


def raw(up: Up, path: str, **query: object) -> bytes:
    with urlopen(f"{up.http_url}/v1/{path}?{urlencode(query)}", timeout=WAIT_S) as response:
        answer: bytes = response.read()
        return answer


def ask(up: Up, path: str, **query: object) -> Any:
    return json.loads(raw(up, path, **query))


def pages(up: Up, path: str, **query: object) -> list[list[Any]]:
    """The items of all pages."""
    found: list[list[Any]] = []
    after: dict[str, object] = {}
    while True:
        shown = ask(up, path, **query, **after)
        found.append(shown["items"])
        if shown["next"] is None:
            return found
        after = {"after": shown["next"]}


def test_groups_of_both_matchers_come_in_one_order_page_by_page(many: Up) -> None:
    found = pages(many, "groups", limit=100)
    assert [len(page) for page in found] == [100, 100, 40]
    assert [one["group"] for page in found for one in page] == GROUPS
    shown = ask(many, "groups", limit=3, sort="clients", order="desc", id="REGION-01")
    assert (shown["count"], [one["group"] for one in shown["items"]]) == (
        10,
        ["region-019", "region-018", "region-017"],
    )
    assert shown["partitions"] == {"counted": 8, "missing": [], "since_ms": None}
    assert [one["error"] for one in shown["matchers"]] == [None, None]
    assert ask(many, "groups", state="behind")["count"] == 20
    assert ask(many, "groups", since_ms=1)["count"] == 20, "nobody was ever seen in the others"


def test_clients_are_found_by_id_state_time_and_address(many: Up, tmp_path: Path) -> None:
    told = Recorder()
    client = notify(many, "tromso", tmp_path / "tromso", group=GROUPS[0])
    client.register(f"camera-{GROUPS[0]}").subscribe(told)
    client.connect()
    try:
        wait_for(lambda: told.newest(f"camera-{GROUPS[0]}") == 1, "it is told")
        wait_for(lambda: ask(many, "clients", state="live", id="tromso")["count"] == 1, "it is live")
        wait_for(lambda: ask(many, "clients", id="tromso")["items"][0]["lacking"] == 0, "it has acknowledged")
        (row,) = ask(many, "clients", id="/TROM")["items"]
        assert (row["domain"], row["group"]) == (DOMAIN, GROUPS[0])
        assert row["address"].startswith("127.0.0.1")
        shown = ask(many, "clients", address=row["address"])
        assert [one["client"] for one in shown["items"]] == ["tromso"]
        assert [one["error"] for one in shown["gateways"]] == [None, None]
        assert ask(many, "clients", address="10.1.")["count"] == 0
        assert [one["client"] for one in ask(many, "clients", sort="last_seen", order="desc", limit=1)["items"]] == [
            "tromso"
        ]
        last = ask(many, "clients", sort="last_seen", limit=1)["items"][0]["last_seen_ms"]
        assert ask(many, "clients", until_ms=last)["items"][0]["last_seen_ms"] == last
        assert ask(many, "gateways", sort="sessions", order="desc", limit=1)["items"][0]["gateway"] == row["gateway"]
    finally:
        client.disconnect()
        path = f"/v1/domains/{DOMAIN}/groups/{GROUPS[0]}/clients/tromso"
        urlopen(Request(many.http_url + path, method="DELETE"), timeout=WAIT_S).close()
    wait_for(lambda: ask(many, "clients")["count"] == 20, "it is forgotten")


def test_processes_say_their_version_uptime_and_load(many: Up) -> None:
    gateways, matchers = (ask(many, kind)["items"] for kind in ("gateways", "matchers"))
    assert [one["address"] for one in gateways] == sorted(many.report["gateways_http"])
    assert sorted(number for one in matchers for number in one["partitions"]) == list(range(8))
    assert sum(one["clients"] for one in matchers) >= 20
    for one in (*gateways, *matchers):
        assert (one["state"], one["error"]) == ("ready", None)
        assert one["version"]
        assert one["uptime_s"] > 0
    wait_for(lambda: all(one["cpu"] is not None for one in ask(many, "matchers")["items"]), "a load is measured")


def test_an_answer_is_small_however_many_there_are(many: Up) -> None:
    for path, query in (
        ("groups", {}), ("groups", {"sort": "publishes", "order": "desc"}), ("clients", {}), ("search", {"text": "o"}),
    ):  # fmt: skip
        answer = raw(many, path, limit=50, **query)
        assert len(answer) < PAGE_BYTES_MAX, path
    assert len(json.loads(answer)["items"]) == 50


def test_names_are_found_in_all_groups(many: Up) -> None:
    shown = ask(many, "search", text="REGION-23", limit=12)
    assert (shown["count"], [one["kind"] for one in shown["items"]]) == (20, ["group"] * 10 + ["object"] * 2)
    found = [one["name"] or one["group"] for page in pages(many, "search", text="region-23", limit=3) for one in page]
    groups = [f"region-23{digit}" for digit in range(10)]
    assert found == [*groups, *(f"camera-{group}" for group in groups)]


def test_a_wrong_parameter_is_named(many: Up) -> None:
    for path, query, field in (
        ("groups", {"state": "live"}, "state"),
        ("search", {}, "text"),
        ("clients", {"x": 1}, "x"),
    ):
        with pytest.raises(HTTPError) as raised:
            ask(many, path, **query)
        shown = json.loads(raised.value.read())
        assert (raised.value.code, shown["field"]) == (400, field)


def test_groups_and_search_on_the_command_line(many: Up) -> None:
    http = many.report["http"]
    done = coldnotify("state", "groups", "--id", "region-00", "--sort", "clients", "--desc", "--limit", "2", http=http)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == ["region-009", "region-008"]
    done = coldnotify("state", "groups", "--state", "behind", "--json", http=http)
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 20
    done = coldnotify("state", "groups", "--seen-within", "3600", http=http)
    assert len(done.stdout.splitlines()) == 21
    done = coldnotify("search", "oslo-1", "--json", http=http)
    assert {json.loads(line)["kind"] for line in done.stdout.splitlines()} == {"client"}
    done = coldnotify("search", "camera-region-23", "--limit", "1", http=http)
    assert done.stdout.splitlines()[1].split() == ["object", DOMAIN, "region-230", "camera-region-230"]
    assert coldnotify("search", "", http=http).returncode == 2


def test_a_matcher_that_stands_still_is_named_everywhere(many: Up) -> None:
    frozen_one = ask(many, "matchers")["items"][0]
    number = many.report["matchers"].index(frozen_one["address"])
    pids = many.report["pids"]
    with frozen(pids["matcher" if number == 0 else f"matcher-{number + 1}"]):
        shown = ask(many, "groups")
        assert 0 < shown["count"] < len(GROUPS)
        assert [one["error"] is None for one in shown["matchers"]].count(False) == 1
        assert shown["partitions"]["missing"] == frozen_one["partitions"]
        (row,) = ask(many, "matchers", state="silent")["items"]
        assert (row["address"], row["clients"], row["version"]) == (frozen_one["address"], None, None)
        assert row["error"] == "no answer within 10 s"
        done = coldnotify("search", "region-23", "--http-timeout-s", "60", http=many.report["http"])
        assert done.returncode == 1
        assert "Error: no matcher has answered for partitions" in done.stderr
    wait_for(lambda: ask(many, "groups")["count"] == len(GROUPS), "all groups again")


@needs_browser
def test_the_console_lists_sorts_filters_and_pages(many: Up, window: Browser) -> None:
    window.open(f"{many.http_url}/#/groups")
    window.wait_for(f"{COUNT} == '240 groups' && {ROWS}.length == 50", "the first page")
    window.run("[...document.querySelectorAll('#list-pages a')].find((one) => one.innerText == 'next page').click()")
    window.wait_for(f"{ROWS}[0]?.includes('/ region-050 ')", "the second")
    window.run("history.back()")
    window.wait_for(f"{ROWS}[0]?.includes('/ region-000 ')", "the first again")
    window.run(
        "[...document.querySelectorAll('#list th a')].find((one) => one.innerText.startsWith('clients')).click()"
    )
    window.wait_for(
        "document.querySelector('#list th[aria-sort=ascending]')?.innerText.startsWith('clients')", "sorted"
    )
    window.run("document.querySelector('#list th[aria-sort] a').click()")
    window.wait_for(
        f"location.hash.includes('order=desc') && {ROWS}[0]?.includes('/ region-019 1 ')", "the largest first"
    )
    window.run(
        "const form = document.querySelector('#list-filter'); form.id.value = 'animal.observer / region-01';"
        "form.state.value = 'behind'; form.requestSubmit()"
    )
    window.wait_for(f"{COUNT} == '10 groups'", "filtered by the service")
    address = window.run("return location.href")
    window.open("about:blank")
    window.open(address)
    window.wait_for(
        f"{COUNT} == '10 groups' && document.querySelector('#list-filter').state.value == 'behind'", "a link"
    )
    window.run("document.querySelector('#list tbody a').click()")
    window.wait_for("document.querySelector('#matrix-title').innerText.includes('region-01')", "its page")

    window.open(f"{many.http_url}/#/clients?id=oslo-1&sort=client")
    window.wait_for(
        f"{COUNT} == '11 clients' && {ROWS}[0]?.startsWith('oslo-1 animal.observer / region-001 asleep')", "clients"
    )
    for kind in ("gateways", "matchers"):
        window.run(f"document.querySelector('nav a[data-view={kind}]').click()")
        window.wait_for(f"{COUNT} == '2 {kind}' && {ROWS}.every((row) => row.includes(' ready '))", kind)
        assert (
            window.run(f"return document.querySelector('nav a[data-view={kind}]').getAttribute('aria-current')")
            == "page"
        )

    window.run(
        "window.asked = []; const real = window.fetch; window.fetch = async (path, options) => {"
        " const answer = await real(path, options); const copy = answer.clone();"
        " if (String(path).includes('search')) copy.text().then((text) => asked.push(text.length)); return answer; }"
    )
    window.run(
        "const form = document.querySelector('#search'); form.text.value = 'REGION-2';"
        "form.querySelector('button').click()"
    )
    window.wait_for("document.querySelector('#search-title').innerText.startsWith('80 found')", "groups and objects")
    window.run("document.querySelector('#found-pages a').click()")
    window.wait_for("document.querySelectorAll('#found tbody tr').length == 30", "the other ones")
    assert len(window.run("return asked")) == 2, "a question for each page"
    assert max(window.run("return asked")) < PAGE_BYTES_MAX
    assert window.log() == []


@needs_browser
def test_on_a_phone_a_row_is_a_card(many: Up, window: Browser) -> None:
    window.look(390, 844, dark=False)
    for place in ("groups", "clients", "gateways", "matchers", "search/region"):
        window.open(f"{many.http_url}/#/{place}")
        table = "#found" if place.startswith("search") else "#list"
        window.wait_for(f"document.querySelector('{table} tbody tr td:nth-child(3)')", place)
        assert window.run("return document.documentElement.scrollWidth") <= 390, place
        row = f"document.querySelector('{table} tbody tr')"
        assert window.run(f"return {row}.getBoundingClientRect().width") <= 390
        assert window.run(f"return getComputedStyle({row}).display") == "grid"
        said = f"getComputedStyle({row}.children[1], '::before').content"
        assert window.run(f"return {said}").strip('"') == window.run(f"return {row}.children[1].dataset.label")
    assert window.log() == []


@needs_browser
def test_an_empty_console_teaches_the_first_command_and_publishes_once_it_is_confirmed(
    stacks: Stacks, window: Browser, tmp_path: Path
) -> None:
    first = "document.querySelector('#first').offsetHeight > 0"
    groups = "document.querySelector('#groups')"
    with stacks.running(tmp_path) as up:
        window.open(up.http_url + "/")
        window.wait_for(first, "what to do first")
        assert window.run(f"return {groups}.offsetHeight") == 0
        command = window.run("return document.querySelector('#first pre').innerText").splitlines()[1]
        assert command == "coldnotify publish animal.observer region-1 camera-config --payload '{\"fps\": 5}'"
        window.run(
            """const form = document.querySelector('#publish');
            form.domain.value = 'animal.observer'; form.group.value = 'region-1'; form.object.value = 'camera-config';
            form.querySelector('button').click()"""
        )
        window.wait_for("document.querySelector('#confirm').open", "it asks")
        words = window.run("return document.querySelector('#confirm').innerText")
        assert "Publish camera-config?" in words
        assert "Every client of animal.observer / region-1" in words
        window.run("document.querySelector('#confirm button[value=no]').click()")
        window.wait_for("!document.querySelector('#publish button').disabled", "nothing is done")
        assert ask(up, "groups")["count"] == 0
        window.run("document.querySelector('#publish button').click()")
        window.wait_for("document.querySelector('#confirm').open", "it asks again")
        window.run("document.querySelector('#confirm-yes').click()")
        window.wait_for("document.querySelector('#published').innerText.startsWith('published: ')", "it is published")
        window.wait_for(f"!({first}) && {groups}.innerText.includes('region-1')", "the group is there")
