"""What an operator changes from the console, in a real browser: each is confirmed first, and its outcome is said."""

import json
from pathlib import Path
from urllib.parse import quote
from urllib.request import Request, urlopen

import pytest
from coldnotify import Message
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))

WAIT_S = 120
DOMAIN = "animal.observer"
SAID = "document.querySelector('#published').innerText"
SENT = "document.querySelector('#sent').innerText"
DONE = "document.querySelector('#client-done').innerText"
OPEN = "document.querySelector('#confirm').open"
YES = "document.querySelector('#confirm-yes')"
AXE = Path(__file__).parents[2] / "clients" / "browser" / "node_modules" / "axe-core" / "axe.min.js"


def type_in(window: Browser, selector: str, text: str) -> None:
    """As somebody types: the page hears of it."""
    window.run(
        "const field = document.querySelector(arguments[0]); field.value = arguments[1];"
        "field.dispatchEvent(new Event('input', {bubbles: true}))",
        selector,
        text,
    )


def click(window: Browser, selector: str) -> None:
    window.run("document.querySelector(arguments[0]).click()", selector)


def state_of(up: Up, group: str, client: str) -> dict[str, object]:
    with urlopen(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{group}/clients/{client}", timeout=WAIT_S) as answer:
        shown: dict[str, object] = json.load(answer)
    return shown


def no_violations(window: Browser, where: str) -> None:
    """What axe-core finds, if it was installed here."""
    if not AXE.exists():
        return
    window.run(AXE.read_text(encoding="utf-8"))
    window.run("window.axeSays = null; axe.run().then(({ violations }) => { window.axeSays = violations })")
    window.wait_for("window.axeSays !== null", "axe-core has looked")
    found = window.run("return window.axeSays.map(({ id, nodes }) => [id, ...nodes.map(({ html }) => html)].join(' '))")
    assert found == [], where


def test_an_objects_page_has_its_history(up: Up, window: Browser) -> None:
    group = "history-shown"
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "camera", version=1, payload={"fps": "<b>5</b>"})
        publisher.publish(DOMAIN, group, "camera", version=9007199254740993, payload={"note": "x" * 300}, source="oslo")
        publisher.publish(DOMAIN, group, "gone", version=1)
        publisher.publish(DOMAIN, group, "gone", version=2, deleted=True)
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}/objects/camera")
    rows = (
        "[...document.querySelectorAll('#history tbody tr')].map((row) => [...row.cells].map((one) => one.innerText))"
    )
    window.wait_for(f"{rows}.length == 2 && {rows}[0].length > 1", "two versions")
    newest, first = window.run(f"return {rows}")
    assert first[1:6:4] == ["1", "version"]
    assert (newest[1], newest[4], newest[5]) == ("9007199254740993", "oslo", "the newest")
    assert newest[2].endswith(" UTC")
    assert newest[6].startswith('{"note":')
    assert newest[6].endswith("…")
    assert first[6].replace(" ", "") == '{"fps":"<b>5</b>"}', "as text"
    words = window.run("return document.querySelector('#history-words').innerText")
    assert "older versions, if there were any, were compacted away" in words
    assert window.run("return document.querySelector('#object-payload').innerText").startswith("{")
    window.run(
        "window.asked = []; const real = window.fetch;"
        "window.fetch = (path, options) => { asked.push(String(path)); return real(path, options); }"
    )
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "camera", version=9007199254740994)
    window.wait_for(f"{rows}.length == 3 && {rows}[0][1] == '9007199254740994'", "a newer one, by itself")
    window.wait_for("asked.filter((path) => path.endsWith('/camera')).length > 3", "the page goes on looking")
    assert window.run("return asked.filter((path) => path.includes('/history?')).length") == 1, "and does not read anew"
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}/objects/gone")
    window.wait_for(f"{rows}.some((row) => row[5]?.includes('tombstone: deleted'))", "a tombstone")
    for dark in (False, True):
        window.look(1280, 900, dark=dark)
        no_violations(window, "history")
        window.look(390, 844, dark=dark)
        assert window.run("return document.documentElement.scrollWidth") <= 390, "a phone has to scroll sideways"
    assert window.log() == []


def test_versions_are_started_over_only_once_the_name_was_typed(up: Up, window: Browser, tmp_path: Path) -> None:
    group, told = "reset-here", Recorder()
    client = notify(up, "oslo", tmp_path / "oslo", group=group)
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "site/camera", version=17)
    try:
        client.register("site/camera").subscribe(told)
        client.connect()
        wait_for(lambda: told.newest("site/camera") == 17, "it is told")
        window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}/objects/site%2Fcamera")
        window.wait_for("document.querySelector('#publish').object.value == 'site/camera'", "the page")
        type_in(window, "#publish [name=version]", "3")
        type_in(window, "#publish [name=payload]", '{"fps": 5}')
        click(window, "#publish button[type=submit]")
        click(window, "#confirm-yes")
        window.wait_for(f"{SAID}.startsWith('stale: version 3')", "in vain")

        click(window, "#reset")
        window.wait_for(f"{OPEN} && {YES}.disabled", "it is asked first")
        assert "at version 17 (incarnation 0)" in window.run(
            "return document.querySelector('#confirm-words').innerText"
        )
        for dark in (False, True):
            window.look(1280, 900, dark=dark)
            no_violations(window, "confirm")
        type_in(window, "#confirm [name=typed]", "site/camer")
        assert window.run(f"return {YES}.disabled")
        click(window, "#confirm button[value=no]")
        window.wait_for(f"!{OPEN} && !document.querySelector('#reset').disabled", "nothing was done")
        assert told.newest("site/camera") == 17

        click(window, "#reset")
        window.wait_for(OPEN, "once more")
        type_in(window, "#confirm [name=typed]", "site/camera")
        click(window, "#confirm-yes")
        window.wait_for(f"{SAID}.startsWith('published: version 3')", "its outcome")
        wait_for(lambda: told.newest("site/camera") == 3, "who is registered is told")
        window.wait_for(
            "document.querySelector('#history tbody').innerText.includes('the newest, incarnation 1')", "its history"
        )

        # Somebody else was quicker: nothing is reset that was not seen.
        click(window, "#reset")
        window.wait_for(OPEN, "a third time")
        with up.publisher() as publisher:
            publisher.publish(DOMAIN, group, "site/camera", version=4)
        wait_for(lambda: told.newest("site/camera") == 4, "another version")
        type_in(window, "#confirm [name=typed]", "site/camera")
        click(window, "#confirm-yes")
        window.wait_for(f"{SAID}.startsWith('newest: another version is the newest by now')", "why it is not done")
    finally:
        client.disconnect()


def choose(window: Browser, *numbers: int) -> None:
    """Chooses a file with these bytes in the form."""
    window.run(
        "const chosen = new DataTransfer(); chosen.items.add(new File([new Uint8Array(arguments[0])], 'bytes'));"
        "document.querySelector('#publish [name=file]').files = chosen.files",
        numbers,
    )


def test_a_files_bytes_are_published_and_shown(up: Up, window: Browser) -> None:
    group = "files-published"
    window.open(up.http_url + "/")
    for name, text in {"domain": DOMAIN, "group": group, "object": "o", "version": "1", "payload": "1"}.items():
        type_in(window, f"#publish [name={name}]", text)
    choose(window, 255, 0, 128)
    click(window, "#publish button[type=submit]")
    window.wait_for(f"{SAID} == 'payload: either JSON or a file'", "one of them")
    type_in(window, "#publish [name=payload]", "")
    click(window, "#publish button[type=submit]")
    window.wait_for(OPEN, "it is asked first")
    click(window, "#confirm-yes")
    window.wait_for(f"{SAID}.startsWith('published: version 1')", "its outcome")
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}/objects/o")
    window.wait_for("document.querySelector('#object-payload').innerText == 'in base64: /wCA'", "the bytes")
    choose(window, *[255] * 5000)
    click(window, "#publish button[type=submit]")
    window.wait_for(OPEN, "again")
    click(window, "#confirm-yes")
    window.wait_for(f"{SAID}.startsWith('payload: has 5000 bytes')", "the service's limit")
    choose(window, *[255] * 65_537)
    click(window, "#publish button[type=submit]")
    window.wait_for(f"{SAID}.startsWith('file: has 65537 bytes')", "nothing longer is read")
    no_violations(window, "a file")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("domain", "", "domain: is missing"),
        ("group", "a b", "group: has other characters than"),
        ("object", "", "object: is missing"),
        ("version", "12x", "version: is not a whole number from 0 to 9223372036854775807"),
        ("version", "9223372036854775808", "version: is not a whole number from 0 to 9223372036854775807"),
        ("payload", "{", "payload: is not JSON"),
        ("payload", '"' + "x" * 5000 + '"', "payload: has 5002 bytes of JSON (at most 4096 are allowed)"),
        ("object", "x" * 256, "object: "),
    ],
)
def test_what_is_wrong_is_said_of_its_field(up: Up, window: Browser, field: str, value: str, words: str) -> None:
    window.open(up.http_url + "/")
    for name, text in {"domain": DOMAIN, "group": "wrong-fields", "object": "o", field: value}.items():
        type_in(window, f"#publish [name={name}]", text)
    click(window, "#publish button[type=submit]")
    if window.run(f"return {OPEN}"):
        click(window, "#confirm-yes")  # what only the service knows
    window.wait_for(f"{SAID}.startsWith({json.dumps(words)})", words)
    assert window.run("return document.activeElement.name") == field, "it has the focus"
    assert window.run("return [...document.querySelectorAll('[aria-invalid]')].map((one) => one.name)") == [field]
    assert window.run("return document.activeElement.getAttribute('aria-describedby')") == "published"


def test_a_message_is_sent_once_it_is_confirmed(up: Up, window: Browser) -> None:
    group, heard = "sending-here", list[Message]()
    with notify(up, "oslo", None, group=group) as client:
        client.channel("site/history", since="oldest", attributes={"camera"}).subscribe(heard.append)
        assert client.wait_caught_up(timeout_s=WAIT_S)
        window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}")
        window.wait_for("document.querySelector('#send').group.value == 'sending-here'", "the page knows where it is")
        type_in(window, "#send [name=channel]", "site/history")
        type_in(window, "#send [name=to]", "camera, solar")
        type_in(window, "#send [name=payload]", '{"big": 9007199254740993, "html": "<b>"}')
        click(window, "#send button[type=submit]")
        window.wait_for(f"{OPEN} && !{YES}.disabled", "it is asked first")
        words = window.run("return document.querySelector('#confirm-words').innerText")
        assert f"Every client of {DOMAIN} / {group} that subscribes to it as camera or solar" in words
        for dark in (False, True):
            window.look(1280, 900, dark=dark)
            no_violations(window, "send")
        click(window, "#confirm button[value=no]")
        window.wait_for(f"!{OPEN} && !document.querySelector('#send button').disabled", "nothing is done")
        assert window.run(f"return {SENT}") == ""
        click(window, "#send button[type=submit]")
        window.wait_for(OPEN, "asked once more")
        click(window, "#confirm-yes")
        window.wait_for(f"{SENT}.startsWith('sent: partition ')", "its outcome")
        wait_for(lambda: heard, "who subscribes is told")
        assert len(heard) == 1, "once"
        assert heard[0].payload == {"big": 9007199254740993, "html": "<b>"}
        assert f", offset {heard[0].offset}, id {heard[0].id}" in window.run(f"return {SENT}")
        window.wait_for("document.querySelector('#channels tbody')?.innerText.includes('site/history')", "shown")
        type_in(window, "#send [name=channel]", "")
        click(window, "#channels button")
        window.wait_for(
            "document.querySelector('#explain-timeline').innerText.includes('9007199254740993')", "its last"
        )
        assert window.run("return document.querySelector('#send').channel.value") == "site/history"
        assert window.log() == []


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("domain", "a b", "domain: has other characters than"),
        ("group", "", "group: is missing"),
        ("channel", "", "channel: is missing"),
        ("channel", "x" * 256, "channel: "),
        ("to", "camera, a/b", "to: has other characters than"),
        ("to", " ".join(f"a{number}" for number in range(17)), "to: has 17 attributes (at most 16 are allowed)"),
        ("payload", " ", "payload: is missing"),
        ("payload", "{", "payload: is not JSON"),
        ("payload", '"' + "x" * 70_000 + '"', "payload: "),
    ],
)
def test_what_is_wrong_with_a_message_is_said_of_its_field(
    up: Up, window: Browser, field: str, value: str, words: str
) -> None:
    window.open(up.http_url + "/")
    for name, text in {"domain": DOMAIN, "group": "wrong-sends", "channel": "c", "payload": "1", field: value}.items():
        type_in(window, f"#send [name={name}]", text)
    click(window, "#send button[type=submit]")
    # What the page itself can see is said before anything is asked.
    if window.run(f"return {OPEN}"):
        click(window, "#confirm-yes")
    window.wait_for(f"{SENT}.startsWith({json.dumps(words)})", words)
    assert window.run("return document.activeElement.name") == field, "it has the focus"
    assert window.run("return [...document.querySelectorAll('[aria-invalid]')].map((one) => one.name)") == [field]


def test_an_object_whose_name_looks_like_another_path_has_its_page(up: Up, window: Browser) -> None:
    group = "names-like-paths"
    with up.publisher() as publisher:
        for version, name in enumerate(("a/history", "a/lacking", "a/../b", "a/./b"), 1):
            publisher.publish(DOMAIN, group, name, version=version)
            window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}/objects/{quote(name, safe='')}")
            shown = "document.querySelector('#object-facts').innerText.replaceAll('\\n', ' ')"
            title = f"document.querySelector('#object-title').innerText == {json.dumps(name)}"
            fine = "document.querySelector('#place-problem').innerText == ''"
            window.wait_for(f"{title} && {fine} && {shown}.includes('newest version {version} ')", name)


def test_a_client_is_disconnected_and_forgotten_and_comes_back_whole(up: Up, window: Browser, tmp_path: Path) -> None:
    group, told = "client-changes", Recorder()
    client = notify(up, "oslo", tmp_path / "oslo", group=group)
    with up.publisher() as publisher:
        publisher.publish(DOMAIN, group, "camera", version=1)
        try:
            client.register("camera").subscribe(told)
            client.connect()
            wait_for(lambda: told.newest("camera") == 1, "it is told")
            session = state_of(up, group, "oslo")["session"]
            window.open(f"{up.http_url}/#/groups/{DOMAIN}/{group}/clients/oslo")
            window.wait_for("!document.querySelector('#client-disconnect').disabled", "it is online")

            click(window, "#client-disconnect")
            window.wait_for(f"{OPEN} && !{YES}.disabled", "it is asked first")
            assert window.run("return document.querySelector('#confirm-typed').hidden")
            click(window, "#confirm button[value=no]")
            window.wait_for(f"!{OPEN}", "nothing is done")
            assert state_of(up, group, "oslo")["session"] == session
            click(window, "#client-disconnect")
            window.wait_for(OPEN, "asked once more")
            type_in(window, "#confirm [name=reason]", "by the test")
            click(window, "#confirm-yes")
            window.wait_for(f"{DONE} == 'Its session was ended. It may come back.'", "its outcome")
            wait_for(lambda: state_of(up, group, "oslo")["session"] not in (None, session), "it comes back by itself")

            window.wait_for("!document.querySelector('#client-forget').disabled", "it can be forgotten")
            click(window, "#client-forget")
            window.wait_for(f"{OPEN} && {YES}.disabled", "its name is to be typed")
            for dark in (False, True):
                window.look(1280, 900, dark=dark)
                no_violations(window, "forget")
            type_in(window, "#confirm [name=typed]", "oslo")
            window.run(
                "document.querySelector('#confirm [name=typed]').dispatchEvent("
                "new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))"
            )
            click(window, "#confirm-yes")
            window.wait_for(f"{DONE}.startsWith('It is forgotten: 1 registration is gone')", "its outcome")
            publisher.publish(DOMAIN, group, "camera", version=2)
            wait_for(lambda: told.newest("camera") == 2, "it has registered anew by itself")
            assert state_of(up, group, "oslo")["registered"] == 1
            window.wait_for("document.querySelector('#registrations tbody')?.innerText.includes('camera')", "shown")
        finally:
            client.disconnect()
    wait_for(lambda: not state_of(up, group, "oslo")["online"], "it sleeps")
    with urlopen(
        Request(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{group}/clients/oslo", method="DELETE"), timeout=WAIT_S
    ) as answer:
        assert json.load(answer)["outcome"] == "forgotten"
    window.wait_for(
        "document.querySelector('#place-problem').innerText.includes('is not known')"
        " && document.querySelector('#client-forget').disabled",
        "who is forgotten, and does not come",
    )
