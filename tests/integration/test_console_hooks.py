"""Webhooks from the console, in a real browser, with a real receiver."""

import json
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from coldnotify_testkit.browser import MISSING, Browser
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.hook_receiver import HookReceiver, hooks_settings
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.waiting import wait_for

pytestmark = [pytest.mark.skipif(MISSING is not None, reason=str(MISSING)), pytest.mark.kafka]

DOMAIN, GROUP = "animal.observer", "hooked-here"
WAIT_S = 120
SAID = "document.querySelector('#hooked').innerText"
OPEN = "document.querySelector('#confirm').open"
PART = "document.querySelector('#hooks-part')"
ROWS = "[...document.querySelectorAll('#hooks tbody tr')].map((row) => row.innerText)"


@pytest.fixture(scope="module")
def receiver() -> Iterator[HookReceiver]:
    one = HookReceiver()
    yield one
    one.close()


@pytest.fixture(scope="module")
def hooked(stacks: Stacks, receiver: HookReceiver, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("hooked")
    with stacks.running(directory, **hooks_settings(directory, receiver)) as running:
        yield running


def fill(window: Browser, **fields: str) -> None:
    for name, text in fields.items():
        window.run("document.querySelector('#hook').elements[arguments[0]].value = arguments[1]", name, text)


def submit(window: Browser) -> None:
    window.run("document.querySelector('#hook button').click()")


def press(window: Browser, label: str) -> None:
    window.run("document.querySelector(`#hooks button[aria-label='${arguments[0]}']`).click()", label)


def confirm(window: Browser, typed: str = "") -> None:
    window.wait_for(OPEN, "it is asked first")
    window.run(
        "const field = document.querySelector('#confirm [name=typed]'); field.value = arguments[0];"
        "field.dispatchEvent(new Event('input')); document.querySelector('#confirm-yes').click()",
        typed,
    )


def test_a_webhook_is_set_tested_rotated_and_removed(hooked: Up, window: Browser, receiver: HookReceiver) -> None:
    window.open(f"{hooked.http_url}/#/groups/{DOMAIN}/{GROUP}")
    window.wait_for(f"!{PART}.hidden && {ROWS}[0] == 'The group has none.'", "no webhook yet")
    fill(window, hook="billing", url=receiver.url("/told"), kind="objects", what="camera\nsite/lamp")
    submit(window)
    confirm(window)
    window.wait_for(f"{SAID}.startsWith('billing is set. Its secret, which is not shown again, is whsec_')", "secret")
    window.wait_for(f"{ROWS}.length == 1 && {ROWS}[0].includes('objects camera, site/lamp')", "it is listed")
    with hooked.publisher() as publisher:
        publisher.publish(DOMAIN, GROUP, "site/lamp", version=7)
    wait_for(lambda: 7 in receiver.versions("/told", "site/lamp"), "its receiver is called", WAIT_S)

    press(window, "Test billing")
    window.wait_for(f"{SAID}.startsWith('billing: its receiver took the call')", "the test's outcome")
    assert "test" in [call["body"]["type"] for call in receiver.of("/told")]
    press(window, "New secret… billing")
    confirm(window)
    window.wait_for(f"{SAID}.startsWith('billing: the new secret, which is not shown again, is whsec_')", "secret")

    press(window, "Remove… billing")
    window.wait_for(f"{OPEN} && document.querySelector('#confirm-yes').disabled", "its name is to be typed")
    confirm(window, "billing")
    window.wait_for(f"{SAID} == 'billing is removed.' && {ROWS}[0] == 'The group has none.'", "it is gone")
    with urlopen(f"{hooked.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/hooks", timeout=WAIT_S) as answer:
        assert json.load(answer) == {"items": [], "enabled": True}
    assert window.log() == []


@pytest.mark.parametrize(
    ("fields", "words", "name"),
    [
        ({"hook": "a b"}, "hook: has other characters than", "hook"),
        ({"url": " "}, "url: is missing", "url"),
        ({"url": "ftp://example.org/"}, "url: ", "url"),
        ({"what": "\n"}, "what: is missing", "what"),
        ({"kind": "objects", "what": "x" * 256}, "objects: ", "what"),
    ],
)
def test_a_wrong_field_is_named(
    hooked: Up, window: Browser, receiver: HookReceiver, fields: dict[str, str], words: str, name: str
) -> None:
    window.open(f"{hooked.http_url}/#/groups/{DOMAIN}/wrong")
    window.wait_for(f"!{PART}.hidden", "the form")
    fill(window, **{"hook": "h", "url": receiver.url(), "kind": "objects", "what": "o", **fields})
    submit(window)
    window.wait_for(f"{OPEN} || {SAID} != ''", "it was looked at")
    if window.run(f"return {OPEN}"):
        confirm(window)  # what the service alone knows
    window.wait_for(f"{SAID}.includes({json.dumps(words)})", words)
    assert window.run("return document.activeElement.name") == name


def test_an_installation_without_webhooks_shows_none(up: Up, window: Browser) -> None:
    with urlopen(f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/hooks", timeout=WAIT_S) as answer:
        assert json.load(answer) == {"items": [], "enabled": False}
    listed = coldnotify("hook", "list", DOMAIN, GROUP, "--http", up.http_url)
    assert listed.stdout == "this installation has no webhooks (--hooks-key-file)\n"
    window.open(f"{up.http_url}/#/groups/{DOMAIN}/{GROUP}")
    window.wait_for("document.querySelector('#matrix').innerText != ''", "the page")
    assert window.run(f"return {PART}.hidden")
    assert window.log() == []
