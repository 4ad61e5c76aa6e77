"""The console in a real browser: it shows what goes on, explains, publishes; on a phone and in the dark, too."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for

WAIT_S = 120
DOMAIN, GROUP = "animal.observer", "console"
AXE = Path(__file__).parents[2] / "clients" / "browser" / "node_modules" / "axe-core" / "axe.min.js"
SAID = "document.querySelector('#published').innerText"
CELLS = (
    "[...document.querySelectorAll('#matrix tbody tr:not(.space)')].map((row) => row.innerText.split(/\\s+/).join(' '))"
)


def sync(up: Up, body: dict[str, object]) -> None:
    """One wake by HTTP."""
    request = Request(f"{up.http_url}/v1/sync", json.dumps(body).encode(), {"Content-Type": "application/json"})
    urlopen(request, timeout=WAIT_S).close()


def publish(window: Browser) -> None:
    """Publishes what the form has, and confirms it."""
    window.run("document.querySelector('#publish button').click(); document.querySelector('#confirm-yes').click()")


def open_group(window: Browser) -> None:
    window.wait_for(f"document.querySelector('#groups').innerText.includes('{GROUP}')", "the group")
    window.run(
        "[...document.querySelectorAll('#groups a')].find((b) => b.innerText.includes(arguments[0])).click()",
        GROUP,
    )
    window.wait_for(f"document.querySelector('#matrix-title').innerText.includes('{GROUP}')", "the group's matrix")


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_console_shows_explains_and_publishes(up: Up, window: Browser, tmp_path: Path) -> None:
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, GROUP, "camera", version=1)
        publisher.send(DOMAIN, GROUP, "site/tasks", "<b>look north</b>", to=["camera"])
    told = {name: Recorder() for name in ("oslo", "tromso")}
    clients = {name: notify(up, name, tmp_path / name, group=GROUP) for name in told}
    try:
        for name, client in clients.items():
            client.register("camera").subscribe(told[name])
            client.connect()
        clients["tromso"].channel("site/tasks").subscribe(lambda message: None)
        clients["oslo"].register_prefix("cam").subscribe(told["oslo"])
        wait_for(lambda: all(one.newest("camera") == 1 for one in told.values()), "both have the first version")
        clients["tromso"].disconnect()
        window.open(up.http_url + "/")
        window.wait_for("document.querySelector('#live').innerText == 'live'", "it is live")
        open_group(window)
        window.wait_for(f"{CELLS}.every((row) => row.endsWith('✓')) && {CELLS}.length == 2", "both are up to date")
        window.wait_for(
            "document.querySelector('#queries tbody')?.innerText.split(/\\s+/).join(' ')"
            " == 'NAME STARTS WITH \"cam\" 1 1 of 1 oslo'",
            "the query, its member, and who has it",
        )
        with up.publisher() as publisher:
            sent = publisher.send(DOMAIN, GROUP, "site/tasks", "south")
        row = "document.querySelector('#channels tbody')?.innerText.split(/\\s+/).join(' ')"
        window.wait_for(f"{row} == 'site/tasks {sent.offset} 0 of 1 1'", "the channel, and that one is behind")
        window.run("document.querySelector('#channels button').click()")
        words = "document.querySelector('#explain-words').innerText"
        window.wait_for(f"{words} == '1 of 1 are behind: tromso (asleep, 1 message)'", "who is behind, and by how many")
        told_last = window.run("return document.querySelector('#explain-timeline').innerText")
        assert told_last.index('"south"') < told_last.index('"<b>look north</b>"'), "the newest stands first"
        assert "to camera" in told_last
        window.run("document.querySelector('#explain button').click()")

        window.run(
            """const form = document.querySelector('#publish');
            form.domain.value = arguments[0]; form.group.value = arguments[1]; form.object.value = 'camera';
            form.version.value = '9007199254740993'; form.payload.value = '{"fps": 5}'""",
            DOMAIN,
            GROUP,
        )
        publish(window)
        window.wait_for(
            "document.querySelector('#published').innerText.includes('version 9007199254740993')", "it is published"
        )
        assert window.run(f"return {SAID}").startswith("published: ")
        wait_for(lambda: told["oslo"].newest("camera") == 9007199254740993, "the version is told to the last digit")
        window.wait_for(
            f"{CELLS}.some((row) => row.startsWith('tromso asleep') && row.endsWith('●'))"
            f" && {CELLS}.some((row) => row.startsWith('oslo live') && row.endsWith('✓'))",
            "who sleeps lacks it, the other has it",
        )
        window.run("document.querySelector('#matrix td.cell button.lacks').click()")
        window.wait_for("document.querySelector('#explain').innerText.includes('asleep: it is not connected')", "why")
        window.run("document.querySelector('#explain button').click()")

        publish(window)
        window.wait_for(f"{SAID}.startsWith('repeated: version 9007199254740993')", "the same again is a repeat")
        window.run("document.querySelector('#publish').version.value = '2'")
        publish(window)
        said = window.wait_for(f"{SAID}.startsWith('stale: version 2') && {SAID}", "what changes nothing")
        assert "The newest is version 9007199254740993, since " in said
        assert "coldnotify object reset" in said
        assert window.run("return document.querySelector('#published').className") == "bad"
        window.run("document.querySelector('#publish').version.value = '9007199254740993'")
        window.run("document.querySelector('#publish').payload.value = '{\"fps\": 6}'")
        publish(window)
        window.wait_for(f"{SAID}.startsWith('altered: version 9007199254740993')", "other content, same version")

        window.run("document.querySelector('#publish').payload.value = '{'")
        window.run("document.querySelector('#publish button').click()")
        window.wait_for(
            "document.querySelector('#published').innerText.includes('payload: is not JSON')", "what is wrong"
        )
        window.run("document.querySelector('#publish').payload.value = ''")
        window.run("document.querySelector('#publish').object.value = '..'")
        window.run("document.querySelector('#publish button').click()")
        window.wait_for(
            "document.querySelector('#published').innerText.includes('a browser cannot ask for the name ..')",
            "browsers would go a step up the path",
        )
        for dark in (False, True):
            window.look(390, 844, dark=dark)
            assert window.run("return document.documentElement.scrollWidth") <= 390, "a phone has to scroll sideways"
            channels = window.run("return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)")
            assert (sum(channels) < 200) == dark
        assert window.log() == []
    finally:
        for client in clients.values():
            client.disconnect()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_each_group_client_object_and_search_has_an_address_and_what_has_the_focus_goes_on(
    up: Up, window: Browser, tmp_path: Path
) -> None:
    group, long = "places", "sensor/" + "x" * 60 + "/humidity"
    told = Recorder()
    client = notify(up, "oslo", tmp_path / "oslo", group=group)
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "camera", version=1, payload={"fps": 5})
        publisher.publish(DOMAIN, group, long, version=1)
        publisher.publish(DOMAIN, "..", "humidity", version=1)
        try:
            for name in ("camera", long):
                client.register(name).subscribe(told)
            client.connect()
            wait_for(lambda: told.newest("camera") == 1 and told.newest(long) == 1, "it is told")
            here = f"{up.http_url}/#/groups/{DOMAIN}/{group}"
            window.open(here)
            window.wait_for(f"{CELLS}.some((row) => row == 'oslo live ✓ ✓')", "a link leads to a group")
            mode = "getComputedStyle(document.querySelector('#matrix th.object a')).writingMode"
            assert window.run(f"return {mode}") == "vertical-rl", "the heads are narrow"
            heads = "[...document.querySelectorAll('#matrix th.object')].map((head) => head.innerText)"
            window.wait_for(
                f"{heads}.some((head) => head.startsWith('sensor/') && head.endsWith('/humidity'))", "its end"
            )

            # What has the focus is brought up to date, and keeps it.
            window.run("document.querySelector('#matrix td.cell button[aria-label*=camera]').focus()")
            client.disconnect()
            publisher.publish(DOMAIN, group, "camera", version=2, payload={"fps": 6})
            window.wait_for(
                "document.activeElement.getAttribute('aria-label') == 'oslo, camera version 2: lacks the newest'",
                "it changes under the focus",
            )
            assert window.run("return document.querySelectorAll('#matrix button[tabindex=\"0\"]').length") == 1
            key = (
                "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
            )
            before = window.run("return document.activeElement.dataset.at")
            window.run(key, "ArrowRight" if before == "0 0" else "ArrowLeft")
            assert window.run("return document.activeElement.dataset.at") != before, "arrow keys go from cell to cell"

            window.run("document.querySelector('#matrix td.name a').click()")
            window.wait_for(
                "location.hash.endsWith('/clients/oslo')"
                " && document.querySelector('#client-title').innerText == 'oslo'",
                "its page",
            )
            window.wait_for(
                "document.querySelector('#client-words').innerText.includes('asleep')", "why it lacks something"
            )
            window.wait_for(
                "document.querySelector('#registrations tbody')?.innerText.includes('camera')", "what it wants"
            )
            assert " UTC" in window.run("return document.querySelector('#client-facts').innerText")
            window.run(
                "[...document.querySelectorAll('#registrations a')].find((one) => one.innerText == 'camera').click()"
            )
            window.wait_for(
                "document.querySelector('#object-payload').innerText.includes('\"fps\": 6')", "the newest payload"
            )
            window.wait_for("document.querySelector('#lacking tbody')?.innerText.includes('oslo')", "who lacks it")
            window.run("history.back()")
            window.wait_for("!document.querySelector('#client-title').closest('section').hidden", "back to the client")

            window.run(
                "const form = document.querySelector('#search'); form.text.value = 'HUMIDITY';"
                "form.querySelector('button').click()"
            )
            window.wait_for(
                "document.querySelector('#found tbody')?.innerText.includes(arguments)".replace(
                    "arguments", "'/humidity'"
                ),
                "it is found",
            )
            assert window.run("return document.querySelector('#search-missing').hidden") is True
            assert f"{DOMAIN} / .." in window.run("return document.querySelector('#found').innerText")
            window.open("about:blank")
            window.open(f"{up.http_url}/#/search/{group}")
            window.wait_for(
                f"document.querySelector('#search-title').innerText.includes('{group}')", "a search has an address"
            )
            assert window.log() == []
        finally:
            client.disconnect()


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_who_lacks_something_is_asked_of_the_service_and_what_is_old_is_not_shown_as_new(
    up: Up, window: Browser
) -> None:
    group = "lacking-only"
    with up.publisher() as publisher:
        for number in range(3):
            publisher.publish(DOMAIN, group, f"object-{number}", version=1)
    for number in range(3):
        registrations = ["object-0"]
        body = {
            "domain": DOMAIN,
            "group": group,
            "client": f"c{number}",
            "registrations": registrations,
            "cursor": None,
        }
        sync(up, body | {"wait_s": 0})
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}")
    window.wait_for(f"{CELLS}.length == 3", "three clients")
    window.run(
        "window.asked = []; const real = window.fetch;"
        "window.fetch = (path, options) => { asked.push(String(path)); return real(path, options); }"
    )
    window.run("document.querySelector('#only-lacking').click()")
    window.wait_for("asked.some((path) => path.includes('/matrix') && path.includes('lacking=yes'))", "the service")
    window.wait_for("document.querySelector('#matrix-more').innerText.includes('that are behind')", "its answer")
    assert window.run("return document.body.classList.contains('stale')") is False

    # The service is away: its stream ends, and no new one begins.
    window.run(
        "window.fetch = () => Promise.reject(new Error('the cable is out'));"
        "window.streams = performance.getEntriesByType('resource').length"
    )
    pids = up.kill("http")
    window.wait_for("document.body.classList.contains('stale')", "what is old is dimmed")
    words = "document.querySelector('#stale').innerText"
    window.wait_for(f"/What is shown is from .* UTC: the service has not answered since/.test({words})", "since when")
    up.wait_ready(other_than=pids)


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_tenants_what_each_uses_and_who_is_refused(up: Up, window: Browser) -> None:
    name, domain = "tenant-shown", "tenant.shown"
    url = f"{up.http_url}/v1/tenants/{name}"
    agreement = json.dumps({"domains": [domain], "in_per_s": 1}).encode()
    with urlopen(Request(url, agreement, {"Content-Type": "application/json"}, method="PUT"), timeout=WAIT_S) as answer:
        assert answer.status == 200
    try:
        window.open(f"{up.http_url}/#/tenants")
        row = f"[...document.querySelectorAll('#tenants tbody tr')].find((one) => one.innerText.includes('{name}'))"
        window.wait_for(f"{row}?.innerText.includes('{domain}')", "the tenant and its domain")
        window.wait_for("document.querySelector('#tenants tbody')?.innerText.includes('default')", "all others")

        def refused() -> bool:
            """Whether the service refuses; the console shows it once it is measured."""
            path = f"{up.http_url}/v1/domains/{domain}/groups/g/objects/o?outcome=no"
            try:
                urlopen(Request(path, b"{}", method="POST"), timeout=WAIT_S).close()
            except HTTPError as error:
                error.close()
                return error.code == 429
            return False

        shown = f"return {row}?.lastElementChild.innerText ?? ''"
        wait_for(lambda: refused() and "refused" in window.run(shown), "who is refused", WAIT_S)
        window.run(f"{row}.querySelector('a').click()")
        window.wait_for(f"location.hash == '#/tenants/{name}'", "a page for each")
        limits = "document.querySelector('#tenant-limits tbody')?.innerText"
        window.wait_for(f"{limits}.includes('in_per_s')", "what was agreed, and what is used")
        wait_for(
            lambda: refused() and "refused" in window.run("return document.querySelector('#tenant-refused').innerText"),
            "why",
            WAIT_S,
        )
        window.wait_for(
            "document.querySelector('#tenant-hours thead')?.innerText.includes('hour (UTC)')", "the last hours"
        )
        assert window.log() == []
    finally:
        with urlopen(Request(url, method="DELETE"), timeout=WAIT_S):
            pass


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.skipif(not AXE.exists(), reason="npm ci in clients/browser has not been run here")
def test_axe_core_finds_nothing_in_light_and_dark(up: Up, window: Browser, tmp_path: Path) -> None:
    group = "accessible"
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "camera", version=1, payload={"fps": 5})
        publisher.send(DOMAIN, group, "tasks", "look north")
    body = {"domain": DOMAIN, "group": group, "client": "oslo", "registrations": ["camera", "none"], "cursor": None}
    sync(up, body | {"wait_s": 0})
    here = f"#/groups/{DOMAIN}/{group}"
    places = {
        "#/": "document.querySelector('#groups tbody a')",
        here: f"{CELLS}.length == 1",
        f"{here}/clients/oslo": "document.querySelector('#registrations tbody a')",
        f"{here}/objects/camera": "document.querySelector('#object-payload').innerText.includes('fps')",
        "#/tenants": "document.querySelector('#tenants tbody a')",
        "#/tenants/default": "document.querySelector('#tenant-limits tbody tr')",
        f"#/search/{group}": "document.querySelector('#found tbody a')",
        **{f"#/{kind}": "document.querySelector('#list tbody td')" for kind in ("groups", "gateways", "matchers")},
        "#/clients?sort=lacking&order=desc": "document.querySelector('#list tbody a')",
    }
    said: list[str] = []
    for dark in (False, True):
        window.look(1280, 900, dark=dark)
        for place, is_there in places.items():
            window.open("about:blank")
            window.open(f"{up.http_url}/{place}")
            window.wait_for(f"{is_there} && document.querySelector('#live').innerText == 'live'", place)
            # By the debugger, as the page's policy lets no script of another place in.
            window.run(AXE.read_text(encoding="utf-8"))
            window.run("window.axeSays = null; axe.run().then(({ violations }) => { window.axeSays = violations })")
            window.wait_for("window.axeSays !== null", "axe-core has looked")
            found = window.run(
                "return window.axeSays.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)].join(' '))"
            )
            said += [f"{place}, {'dark' if dark else 'light'}: {one}" for one in found]
            size = "document.documentElement"
            window.look(390, 844, dark=dark)
            assert window.run(f"return {size}.scrollWidth") <= 390, f"{place}: a phone has to scroll sideways"
            window.look(1280, 900, dark=dark)
    assert said == []


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_matrix_of_a_large_group_has_all_clients_and_objects_in_reach(up: Up, window: Browser) -> None:
    group, clients, objects = "large", 260, 120
    with up.publisher() as publisher:
        for number in range(objects):
            publisher.publish(DOMAIN, group, f"object-{number:03}", version=1)

    def wake(number: int) -> None:
        body = {"domain": DOMAIN, "group": group, "client": f"client-{number:03}", "cursor": None, "wait_s": 0}
        sync(up, body | {"registrations": ["object-000"]})

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(wake, range(clients)))
    window.look(1280, 900, dark=False)
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}")
    more = "document.querySelector('#matrix-more').innerText"
    window.wait_for(f"{more}.includes('clients of {clients}, objects 1 to 100 of {objects}')", "the newest objects")
    rows = "[...document.querySelectorAll('#matrix tbody tr:not(.space)')]"
    seen = window.run("return document.querySelector('#matrix-scroll').clientHeight / 33")
    assert seen < window.run(f"return {rows}.length") < 80, (
        "rows are made for what is in view only, and for all of that"
    )
    heads = "[...document.querySelectorAll('#matrix th.object a')].map((one) => one.title)"
    window.wait_for(f"{heads}[0]?.startsWith('object-119,')", "the newest object stands first")
    assert window.run(f"return {heads}.length") < 50, "columns are made for what is in view only, too"
    wide = window.run("return document.querySelector('#matrix').offsetWidth")
    assert wide > 3600, "the others have their room"
    window.run("const scroll = document.querySelector('#matrix-scroll'); scroll.scrollLeft = scroll.scrollWidth")
    window.wait_for(f"{heads}.at(-1)?.startsWith('object-020,')", "the last one of the page, by scrolling")
    assert abs(window.run("return document.querySelector('#matrix').offsetWidth") - wide) < 40
    assert window.run("return document.querySelectorAll('#matrix button[tabindex=\"0\"]').length") == 1
    window.run("document.querySelector('#matrix-scroll').scrollLeft = 0")
    window.wait_for(f"{heads}[0]?.startsWith('object-119,')", "and back")
    window.run("const scroll = document.querySelector('#matrix-scroll'); scroll.scrollTop = scroll.scrollHeight")
    last = f"{rows}.at(-1)?.innerText.startsWith('client-{clients - 1}')"
    window.wait_for(
        f"(() => {{ const scroll = document.querySelector('#matrix-scroll'); scroll.scrollTop = scroll.scrollHeight;"
        f" return {last} }})()",
        "the last client, by scrolling",
    )
    head = "document.querySelector('#matrix thead').getBoundingClientRect().top"
    scroll = "document.querySelector('#matrix-scroll').getBoundingClientRect().top"
    sticky = "document.querySelector('#matrix thead th').getBoundingClientRect().top"
    assert abs(window.run(f"return {sticky} - {scroll}")) < 3, "the heads stay"
    assert window.run(f"return {head} - {scroll}") < -1000, "although the table has gone up"

    window.run("document.querySelector('#objects-after').click()")
    window.wait_for(f"{more}.includes('objects 101 to {objects} of {objects}')", "older objects")
    window.wait_for("document.querySelector('#matrix thead').innerText.includes('object-000')", "the oldest one")
    assert window.run("return document.querySelector('#objects-after').disabled")

    window.run("document.querySelector('#matrix-scroll').scrollTop = 0")
    window.wait_for(f"{rows}[0]?.innerText.startsWith('client-000')", "back at the top")
    window.run("document.querySelector('#matrix button[data-at]').focus()")
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0], bubbles: true}))"
    window.run(press, "End")
    down = press.replace("arguments[0]", "'PageDown'")
    label = "document.activeElement.getAttribute('aria-label')"
    window.wait_for(f"({down}, {label}?.startsWith('client-{clients - 1}, object-000 '))", "the last client, by keys")
    assert window.log() == []


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_api_is_a_page_that_fetches_nothing_from_elsewhere(up: Up, window: Browser) -> None:
    window.open(up.http_url + "/v1/docs")
    heads = "[...document.querySelectorAll('h3 code')].map(head => head.innerText)"
    window.wait_for(f"{heads}.length", "the operations")
    with urlopen(f"{up.http_url}/v1/openapi.json", timeout=WAIT_S) as answer:
        paths = json.load(answer)["paths"]
    expected = {f"{method.upper()} {path}" for path, methods in paths.items() for method in methods}
    assert set(window.run(f"return {heads}")) == expected
    loaded = window.run("return performance.getEntriesByType('resource').map(one => one.name)")
    assert [url for url in loaded if not url.startswith(up.http_url + "/")] == []
    assert window.log() == []
