"""The console in a real browser: it shows what goes on, explains, publishes; on a phone and in the dark, too."""

from pathlib import Path

import pytest
from coldnotify.publisher import Publisher
from coldnotify_testkit.browser import MISSING, Browser, browser
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for

DOMAIN, GROUP = "animal.observer", "console"
SAID = "document.querySelector('#published').innerText"
CELLS = "[...document.querySelectorAll('#matrix tbody tr')].map((row) => row.innerText.split(/\\s+/).join(' '))"


@pytest.fixture
def window(tmp_path: Path):
    with browser(tmp_path / "chromedriver.log") as one:
        yield one


def open_group(window: Browser) -> None:
    window.wait_for(f"document.querySelector('#groups').innerText.includes('{GROUP}')", "the group")
    window.run(
        "[...document.querySelectorAll('#groups button')].find((b) => b.innerText.includes(arguments[0])).click()",
        GROUP,
    )
    window.wait_for(f"document.querySelector('#matrix-title').innerText.includes('{GROUP}')", "the group's matrix")


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_console_shows_explains_and_publishes(up: Up, window: Browser, tmp_path: Path) -> None:
    with Publisher(up.kafka) as publisher:
        publisher.publish(DOMAIN, GROUP, "camera", version=1)
    told = {name: Recorder() for name in ("oslo", "tromso")}
    clients = {name: notify(up, name, tmp_path / name, group=GROUP) for name in told}
    try:
        for name, client in clients.items():
            client.register("camera").subscribe(told[name])
            client.connect()
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

        window.run(
            """const form = document.querySelector('#publish');
            form.domain.value = arguments[0]; form.group.value = arguments[1]; form.object.value = 'camera';
            form.version.value = '9007199254740993'; form.payload.value = '{"fps": 5}';
            form.querySelector('button').click()""",
            DOMAIN,
            GROUP,
        )
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

        window.run("document.querySelector('#publish button').click()")
        window.wait_for(f"{SAID}.startsWith('repeated: version 9007199254740993')", "the same again is a repeat")
        window.run("document.querySelector('#publish').version.value = '2'")
        window.run("document.querySelector('#publish button').click()")
        said = window.wait_for(f"{SAID}.startsWith('stale: version 2') && {SAID}", "what changes nothing")
        assert "The newest is version 9007199254740993, since " in said
        assert "coldnotify object reset" in said
        assert window.run("return document.querySelector('#published').className") == "bad"
        window.run("document.querySelector('#publish').version.value = '9007199254740993'")
        window.run("document.querySelector('#publish').payload.value = '{\"fps\": 6}'")
        window.run("document.querySelector('#publish button').click()")
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
