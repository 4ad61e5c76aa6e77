"""The browser's client (clients/browser): its own tests, and a page in a real browser against all of ColdNotify.

MQTT.js comes with its packages, so it is tried here, too.
"""

import itertools
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from coldnotify import Message, Notify
from coldnotify.http_publisher import HttpPublisher
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_testkit.browser import MISSING, Browser, browser
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.looks import Looks
from coldnotify_testkit.paho_device import PahoDevice
from coldnotify_testkit.proxy import Network
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for

CLIENT = Path(__file__).parents[2] / "clients" / "browser"
PAGE = Path(__file__).with_name("browser_page.html")
MQTT_JS = Path(__file__).with_name("mqtt_js.mjs")
DOMAIN, GROUP = "animal.observer", "pages"
NPM = shutil.which("npm")
_NPM_S = 240
WAIT_S = 120
SCRIPT_BYTES_MAX = 520_000
"""Of all modules together, as the compiler writes them: with comments, not compressed."""
TOLD = "[...document.querySelectorAll('#told li')].map((item) => item.innerText).join(', ')"
CAUGHT_UP = "document.querySelector('#phase').innerText == 'caught up'"


def npm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The client's own package manager, whatever its output is to look like where this runs."""
    assert NPM is not None
    environment = {**os.environ, "NO_COLOR": "1", "FORCE_COLOR": "0"}
    return subprocess.run(
        [NPM, *arguments], cwd=CLIENT, env=environment, capture_output=True, text=True, timeout=_NPM_S, check=False
    )


@pytest.fixture(scope="module")
def installed() -> None:
    """The compiler is there, of the version that package-lock.json names."""
    if NPM is None or shutil.which("node") is None:
        pytest.skip("there is no node with npm here")
    lock, done = CLIENT / "package-lock.json", CLIENT / "node_modules" / ".package-lock.json"
    if done.exists() and done.stat().st_mtime >= lock.stat().st_mtime:
        return
    try:
        found = npm("ci", "--prefer-offline")
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm ci: not within {_NPM_S} s (it needs a registry)")
    if found.returncode:
        pytest.skip(f"npm ci failed (it needs a registry): {found.stderr[-500:]}")


def _failures(said: str) -> str:
    """What each test that failed says, and how it ended."""
    lines = said.splitlines()
    begins = [number for number, line in enumerate(lines) if line.lstrip().startswith("not ok ")]
    return "\n".join("\n".join(lines[begin : begin + 30]) for begin in begins[:10]) + said[-1000:]


@pytest.mark.timeout(3 * _NPM_S)
def test_its_own_tests_pass(installed: None) -> None:
    done = npm("test")
    assert done.returncode == 0, _failures(done.stdout) + done.stderr[-2000:]
    assert "# fail 0" in done.stdout
    assert "# pass 0" not in done.stdout


def test_the_lock_names_no_registry() -> None:
    text = (CLIENT / "package-lock.json").read_text(encoding="utf-8")
    assert '"resolved"' not in text
    assert "://" not in text


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def compiled(installed: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client as pages load it, compiled once."""
    directory = tmp_path_factory.mktemp("client") / "dist"
    built = npm("run", "build", "--", "--outDir", str(directory))
    assert built.returncode == 0, built.stdout + built.stderr
    return directory


@pytest.fixture
def site(compiled: Path, tmp_path: Path) -> Iterator[str]:
    """The page and the compiled client, from an origin of its own."""
    shutil.copytree(compiled, tmp_path / "dist")
    shutil.copy(PAGE, tmp_path / "index.html")
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(tmp_path)))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/index.html"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_learns_comes_back_and_remembers(up: Up, site: str, tmp_path: Path) -> None:
    addresses = [f"ws://{up.report['web']}", f"ws://{up.report['http']}"]
    query = urlencode({"domain": DOMAIN, "group": GROUP, "address": addresses}, doseq=True)
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        window.open(f"{site}?{query}")
        window.wait_for(f"{TOLD} == 'camera null null'", "nothing was published")
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740993, payload={"fps": 5})
        window.wait_for(f"{TOLD}.endsWith('camera 9007199254740993 {{\"fps\":5}}')", "a publish, to the last digit")

        pids = up.kill("gateway")
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740994)
        up.wait_ready(other_than=pids)
        window.wait_for(f"{TOLD}.endsWith('camera 9007199254740994 null')", "it came back")
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740995)
        window.wait_for(f"{TOLD}.split(', ').length == 4", "each once")

        window.run("window.isOld = true; location.reload()")
        window.wait_for(f"!window.isOld && document.readyState == 'complete' && {CAUGHT_UP}", "it woke up")
        assert window.run(f"return {TOLD}") == "", "what it knows is not told again"
        shown = "document.querySelector('#current').innerText"
        assert window.run(f"return {shown}") == "camera 9007199254740995 null", "it is there to be shown"
        assert window.run("return window.notify.status.registrations") == 1
        locks = window.run("return navigator.locks.query().then(({ held }) => held.map(({ name }) => name))")
        assert locks == [f"coldnotify coldnotify:{DOMAIN}/{GROUP}/page"], "no other page may be this client meanwhile"
        publisher.publish(DOMAIN, GROUP, "camera", version=9007199254740996)
        window.wait_for(f"{TOLD} == 'camera 9007199254740996 null'", "what is new is told")


def items(of: str) -> str:
    """What a list of the page says, as one text."""
    return f"[...document.querySelectorAll('#{of} li')].map((item) => item.innerText).join(', ')"


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_is_told_every_message_of_a_channel(up: Up, site: str, tmp_path: Path) -> None:
    group, channel = "pages-of-channels", "tasks"
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}", "channel": channel})
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        sent = [publisher.send(DOMAIN, group, channel, {"number": number}).offset for number in range(2)]
        window.open(f"{site}?{query}")
        told = items("messages")
        expected = [f'{sent[0]} null {{"number":0}}', f'{sent[1]} {sent[0]} {{"number":1}}']
        window.wait_for(f"{told} == {', '.join(expected)!r}", "what was sent before")
        window.wait_for(CAUGHT_UP, "it is caught up")
        sent += [publisher.send(DOMAIN, group, channel, {"number": number}).offset for number in (2, 3)]
        expected += [f'{sent[n]} {sent[n - 1]} {{"number":{n}}}' for n in (2, 3)]
        window.wait_for(f"{told} == {', '.join(expected)!r}", "each as it is sent, in order")
        window.wait_for(f"window.notify.status.channelsCursor >= {sent[3]}n", "the cursor")

        window.open("about:blank")
        sent += [publisher.send(DOMAIN, group, channel, {"number": number}).offset for number in range(4, 24)]
        window.open(f"{site}?{query}")
        window.wait_for(f"{told}.split(', ').length == 20 && {CAUGHT_UP}", "what was sent while it was closed")
        expected = [f'{sent[n]} {sent[n - 1]} {{"number":{n}}}' for n in range(4, 24)]
        assert window.run(f"return {told}") == ", ".join(expected), "each once, in order"
        assert window.run(f"return {items('errors')}") == ""


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_is_told_how_members_are_described(up: Up, site: str, tmp_path: Path) -> None:
    group, told = "pages-of-lamps", "described.join(', ')"
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}"})
    asks = (
        "window.described = []; window.lamps = notify.registerQuery('Kind = \"lamp\"', { descriptions: true });"
        "lamps.subscribe(({ objectId, version, description }) =>"
        " window.described.push(`${objectId} ${version} ${description?.Room}`))"
    )
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        publisher.describe(DOMAIN, group, "lamp-1", {"Kind": "lamp", "Room": 410})
        window.open(f"{site}?{query}")
        window.wait_for(CAUGHT_UP, "it is caught up")
        window.run(asks)
        window.wait_for(f"{told} == 'lamp-1 null 410'", "a member that was never published")
        publisher.publish(DOMAIN, group, "lamp-1", version=1)
        window.wait_for(f"{told} == 'lamp-1 null 410, lamp-1 1 410'", "a publish, with the description that is held")
        publisher.describe(DOMAIN, group, "lamp-1", {"Kind": "lamp", "Room": 411})
        window.wait_for(f"{told}.endsWith('lamp-1 1 411')", "the description alone")
        window.wait_for(f"{CAUGHT_UP} && notify.status.pending == 0", "all is settled")

        window.open("about:blank")
        publisher.describe(DOMAIN, group, "lamp-1", {"Kind": "lamp", "Room": 412})
        window.open(f"{site}?{query}")
        window.run(asks)
        window.wait_for(f"{told} == 'lamp-1 1 412' && {CAUGHT_UP}", "what it has become meanwhile, once")
        assert window.run("return lamps.descriptions.get('lamp-1').Room") == 412
        assert window.run("return lamps.current.get('lamp-1').description.Room") == 412
        assert window.run(f"return {items('errors')}") == ""


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_publishes_on_its_session(up: Up, site: str, tmp_path: Path) -> None:
    group, told, heard = "pages-that-publish", Recorder(), list[Message]()
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}", "channel": "tasks"})
    answers = (
        "window.answers = []; window.answer = (name, publication) => publication.published.then("
        "(offset) => window.answers.push(`${name} ${offset >= 0n}`),"
        "(error) => window.answers.push(`${name} ${error.name}`))"
    )
    with notify(up, "back-end", None, group=group) as client, browser(tmp_path / "chromedriver.log") as window:
        client.register("lamp").subscribe(told)
        client.channel("tasks", since="oldest").subscribe(heard.append)
        assert client.wait_caught_up(timeout_s=WAIT_S)
        window.open(f"{site}?{query}")
        window.wait_for(CAUGHT_UP, "it is caught up")
        window.run(answers)
        window.run("answer('lamp', window.lamp = notify.publish('lamp', {on: true}, {version: 9007199254740993n}))")
        window.run("answer('sent', window.sent = notify.send('tasks', {look: 'north'}))")
        window.wait_for("answers.length == 2", "both are answered")
        assert window.run("return answers") == ["lamp true", "sent true"]
        wait_for(told.reaches("lamp", 9007199254740993), "others are told the version")
        wait_for(lambda: heard, "and the message")
        assert (heard[0].payload, heard[0].source) == ({"look": "north"}, "page")
        assert heard[0].id == window.run("return sent.id")
        window.wait_for(f'{items("messages")}.endsWith(\'{{"look":"north"}}\')', "it is told its own message")

        pids = up.kill("gateway")
        numbers = range(3)
        for number in numbers:
            window.run(f"answer('n{number}', notify.send('tasks', {number}))")
        up.wait_ready(other_than=pids)
        window.wait_for(f"answers.length == {2 + len(numbers)}", "what was said without a gateway is published, too")
        assert window.run("return answers.slice(2)") == [f"n{number} true" for number in numbers]
        wait_for(lambda: len(heard) == 1 + len(numbers), "each is told")
        assert [one.payload for one in heard[1:]] == list(numbers), "once, in order"

        assert window.run(
            "try { notify.publish('lamp', 1, {incarnation: 3}) } catch (error) { return error.message }"
        ).startswith("incarnation: ")
        assert window.run(
            "try { notify.publish('lamp', 'x'.repeat(32800)) } catch (error) { return error.message }"
        ).endswith("(at most 32768 fit a frame)")
        large = "notify.publish('lamp', 'x'.repeat(5000)).published"
        window.run(f"{large}.catch((error) => {{ window.refused = error.message }})")
        window.wait_for("window.refused", "the service says its limit")
        assert "payload: has 5002 bytes" in window.run("return refused")
        assert window.run("return notify.unanswered") == 0
        assert window.run(f"return {items('errors')}") == window.run("return `PublishRefused: ${refused}`"), "only that"


RAISING = """
const [domain, groupId, address, hear] = arguments;
window.hear = new Function(hear);
return import(new URL("dist/index.js", location.href)).then(async ({ Notify }) => {
  const settings = { triesMax: 3, retryMinS: 0.05, retryMaxS: 0.1, backoffMaxS: 1, onError: () => undefined };
  window.raising = new Notify({ domain, groupId, clientId: "raising", address, ...settings });
  raising.register("lens").subscribe((notification) => window.hear(notification));
  await raising.connect();
});
"""
"""A second client of the page, whose callback does what `window.hear` does."""


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_ledger_knows_what_a_page_has_not_taken(up: Up, site: str, tmp_path: Path) -> None:
    group = "pages-that-raise"
    looks, arguments = Looks(up, DOMAIN, group, "lens"), (DOMAIN, group, f"ws://{up.report['web']}")

    def state() -> str | None:
        said = looks.lackers().get("raising")
        return None if said is None else str(said["state"])

    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}"})
    with up.publisher(http=up.report["http"]) as publisher, browser(tmp_path / "chromedriver.log") as window:
        first = publisher.publish(DOMAIN, group, "lens", version=1)
        window.open(f"{site}?{query}")
        window.run(RAISING, *arguments, "throw new TypeError('no such lens\\nand more')")
        window.wait_for("raising.status.parked.join() == 'lens'", "it is parked")
        wait_for(lambda: state() == "parked", "the ledger knows it")
        said = looks.lackers()["raising"]
        assert said is not None
        assert (said["failures"], said["error"]) == (3, "TypeError: no such lens")
        assert looks.verdict("raising") == "parked"
        assert first.applied_by(0, timeout_s=WAIT_S) == (0, 1)

        window.run("window.hear = () => new Promise((resolve) => { window.goOn = resolve; })")
        second = publisher.publish(DOMAIN, group, "lens", version=2)
        window.wait_for("window.goOn !== undefined", "its callback has begun")
        wait_for(lambda: looks.lackers().get("raising") is not None, "it lacks the version that it is busy with")
        assert second.applied_by(0, timeout_s=WAIT_S) == (0, 1)
        window.run("window.hear = () => undefined; window.goOn()")
        assert second.applied_by(1, timeout_s=WAIT_S) == (1, 0)
        wait_for(lambda: looks.verdict("raising") == "applied", "it is settled")
        assert looks.lackers() == {}
        assert window.run(f"return {items('errors')}") == ""

        window.run("window.hear = () => { throw new Error('again'); }")
        third = publisher.publish(DOMAIN, group, "lens", version=3)
        wait_for(lambda: state() == "parked", "the ledger knows it")
        window.open("about:blank")
        assert third.applied_by(0, timeout_s=WAIT_S) == (0, 1)
        assert state() == "parked", "asleep"
        window.open(f"{site}?{query}")
        window.run(RAISING, *arguments, "return undefined")
        assert third.applied_by(1, timeout_s=WAIT_S) == (1, 0)


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_from_elsewhere_is_told_why_and_a_second_one_sees_it(up: Up, site: str, tmp_path: Path) -> None:
    origin = site.removesuffix("/index.html")
    with (
        GatewayProcess(up.kafka, topics_prefix=up.topics.prefix) as gateway,
        browser(tmp_path / "chromedriver.log") as window,
    ):
        gateway.wait_ready()
        query = urlencode({"domain": DOMAIN, "group": "foreign", "address": f"ws://127.0.0.1:{gateway.web_port}"})
        window.open(f"{site}?{query}")
        window.wait_for(f"{items('errors')}.includes('ServiceRefused')", "onError is called")
        said = window.run(f"return {items('errors')}")
        assert f"pages of '{origin}' may not connect here: see COLDNOTIFY_GATEWAY_WEB_ORIGINS" in said
        assert window.run("return notify.status.phase") == "refused"
        assert window.run("return notify.status.lastProblem").startswith("NOT_ALLOWED: pages of")
        logged = gateway.event("page not allowed")
        assert (logged["value"], logged["setting"]) == (origin, "COLDNOTIFY_GATEWAY_WEB_ORIGINS")

        window.run(
            "const frame = document.createElement('iframe'); frame.src = location.href; document.body.append(frame)"
        )
        second = "document.querySelector('iframe').contentDocument"
        window.wait_for(f"{second}?.querySelector('#phase')?.innerText == 'refused'", "the second page")
        assert window.run(f"return {second}.querySelector('#errors').innerText") == ""
        window.run("return notify.disconnect()")
        window.wait_for(f"{second}.querySelector('#errors').innerText.includes('ServiceRefused')", "its turn")


def _no_errors(window: Browser) -> None:
    """A machine that is busy may stop a tab for so long that the others say so."""
    said = window.run("return [...document.querySelectorAll('#errors li')].map((item) => item.innerText)")
    assert [error for error in said if not error.startswith("OpenElsewhere")] == []


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
@pytest.mark.parametrize("end", ["close_tab", "crash_tab"])
def test_tabs_share_a_session_whichever_of_them_ends(up: Up, site: str, tmp_path: Path, end: str) -> None:
    group = f"tabs-{end.partition('_')[0]}"
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}", "channel": "tasks"})
    camera = f"{TOLD}.endsWith('camera {{}} null')"
    with up.publisher(http=up.report["http"]) as publisher, browser(tmp_path / "chromedriver.log") as window:
        publisher.publish(DOMAIN, group, "camera", version=1)
        first = window.tab
        window.open(f"{site}?{query}")
        window.wait_for(f"{camera.format(1)} && {CAUGHT_UP}", "the first tab has the session")
        tabs = [first]
        for _ in range(2):
            tabs.append(window.new_tab())
            window.open(f"{site}?{query}")
            window.wait_for(CAUGHT_UP, "the others share it")
            window.wait_for("document.querySelector('#current').innerText == 'camera 1 null'", "current is there")
            assert window.run(f"return {TOLD}") == "", "the client was told it before"

        sent = [publisher.send(DOMAIN, group, "tasks", 0).offset]
        publisher.publish(DOMAIN, group, "camera", version=2)
        for tab in tabs:
            window.turn_to(tab)
            window.wait_for(f"{camera.format(2)} && {items('messages')} == '{sent[0]} null 0'", "each is told")

        window.run("window.answer = null; notify.send('tasks', 1).published.then((offset) => { answer = offset })")
        window.wait_for("answer !== null", "a follower publishes")
        sent.append(int(window.run("return String(answer)")))
        window.run("window.lamp = notify.register('lamp'); lamp.subscribe(() => undefined)")
        window.run("notify.unregister('camera')")
        publisher.publish(DOMAIN, group, "lamp", version=1)
        window.wait_for("lamp.current?.version == 1n", "it registers")

        getattr(window, end)(tabs.pop(0))
        third = publisher.publish(DOMAIN, group, "camera", version=3)
        sent.append(publisher.send(DOMAIN, group, "tasks", 2).offset)
        expected = ", ".join(f"{offset} {sent[n - 1] if n else 'null'} {n}" for n, offset in enumerate(sent))
        window.turn_to(tabs[0])
        window.wait_for(f"{TOLD} == 'camera 2 null, camera 3 null'", "the tab that still wants it")
        for tab in tabs:
            window.turn_to(tab)
            window.wait_for(f"{items('messages')} == {expected!r} && {CAUGHT_UP}", "each once, in order")
            assert window.run("return notify.status.registrations") == 3
            _no_errors(window)
        assert window.run(f"return {TOLD}") == "camera 2 null", "it wanted it no more"
        assert third.applied_by(1, timeout_s=WAIT_S) == (1, 0)


MEMBER = """
const [domain, groupId, address, leaseS] = arguments;
window.log = [];
const note = (what, { payload, attempts, isLost }) => window.log.push(`${what} ${payload} ${attempts} ${isLost}`);
return import(new URL("dist/index.js", location.href)).then(async ({ Notify }) => {
  const settings = { retryMinS: 0.1, retryMaxS: 0.2, backoffMaxS: 1, onError: ({ name }) => window.log.push(name) };
  window.member = new Notify({ domain, groupId, clientId: "page-member", address, ...settings });
  const work = async (message) => {
    note("begins", message);
    if (message.payload === "throws" && message.attempts === 0) throw new Error("no");
    if (message.payload === "retries" && message.attempts === 0) return message.retry(0);
    if (message.payload === "poison") return message.reject();
    if (message.payload === "certain") {
      await message.done();
      note("is settled", message);
      throw new Error("this has no effect any more");
    }
    if (String(message.payload).startsWith("held")) await new Promise((resolve) => (window.goOn = resolve));
    note("ends", message);
  };
  const share = member.channel("tasks", { share: "workers", since: "oldest", leaseS, prefetch: 1 });
  share.subscribe(work, undefined, (message) => note("lost", message));
  await member.connect();
});
"""
"""A member of a share in the page; its callback waits for `goOn` with a task whose name begins with held."""


def logged(*lines: str) -> str:
    """A condition: the page's log has these lines."""
    return f"{json.dumps(lines)}.every((line) => window.log.includes(line))"


def _back_end_worker(up: Up, group: str, told: list[str]) -> Notify:
    worker = notify(up, "back-end", None, group=group)
    worker.channel("tasks", share="workers", since="oldest", lease_s=600).subscribe(
        lambda one: told.append(one.payload)
    )
    return worker


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_is_a_member_of_a_share_and_goes_on_behind_a_killed_gateway(up: Up, site: str, tmp_path: Path) -> None:
    group, letters, told = "pages-that-work", list[Message](), list[str]()
    arguments = (DOMAIN, group, f"ws://{up.report['web']}", 600)
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        window.open(f"{site}?{urlencode({'domain': DOMAIN, 'group': group, 'address': arguments[2]})}")
        window.run(MEMBER, *arguments)
        for task in ("throws", "retries", "certain", "plain"):
            publisher.send(DOMAIN, group, "tasks", task)
        expected = [f"begins {task} {attempts} false" for task in ("throws", "retries") for attempts in (0, 1)]
        expected += [f"ends {task} 1 false" for task in ("throws", "retries")]
        window.wait_for(logged(*expected, "is settled certain 0 false", "ends plain 0 false"), "what callbacks decide")

        publisher.send(DOMAIN, group, "tasks", "held")
        window.wait_for("window.goOn !== undefined", "its callback runs")
        with _back_end_worker(up, group, told) as worker:
            assert worker.wait_caught_up(WAIT_S)
            pids = up.kill("gateway")
            up.wait_ready(other_than=pids)
            window.wait_for("window.member.connected && window.member.status.phase == 'live'", "it has a new session")
            publisher.send(DOMAIN, group, "tasks", "other")
            wait_for(lambda: told == ["other"], "the page has its hands full")
            assert "lost held 0 false" not in window.run("return log")
            window.run("goOn()")
            window.wait_for(logged("ends held 0 false"), "it ends")
            window.wait_for("window.member.status.waiting == 0", "nothing waits")
        publisher.send(DOMAIN, group, "tasks", "poison")
        with notify(up, "watcher", None, group=group) as watcher:
            watcher.channel("tasks.workers.dead", since="oldest").subscribe(letters.append)
            wait_for(lambda: letters, "its dead letter")
        assert [one.payload for one in letters] == ["poison"]
        assert window.run("return log.filter((line) => line.startsWith('begins held'))") == ["begins held 0 false"]
        told.clear()
        window.run("return member.disconnect()")
        with _back_end_worker(up, group, told):
            publisher.send(DOMAIN, group, "tasks", "last")
            wait_for(lambda: told == ["last"], "all else was settled for certain")


def _two_tabs(window: Browser, up: Up, site: str, group: str, *, lease_s: int) -> tuple[str, str]:
    """Opens a tab that leads and has no callback, and one that follows and works. The window shows the second."""
    arguments = (DOMAIN, group, f"ws://{up.report['web']}", lease_s)
    page = f"{site}?{urlencode({'domain': DOMAIN, 'group': group, 'address': arguments[2]})}"
    first = window.tab
    window.open(page)
    window.run(MEMBER.replace("  share.subscribe(", "  if (false) share.subscribe("), *arguments)
    second = window.new_tab()
    window.open(page)
    window.run(MEMBER, *arguments)
    return first, second


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_tab_that_follows_works_and_gives_back_when_it_is_closed(up: Up, site: str, tmp_path: Path) -> None:
    group, told = "tabs-that-work", list[str]()
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        first, second = _two_tabs(window, up, site, group, lease_s=600)
        for task in ("throws", "retries", "certain"):
            publisher.send(DOMAIN, group, "tasks", task)
        expected = [f"ends {task} 1 false" for task in ("throws", "retries")]
        window.wait_for(logged(*expected, "is settled certain 0 false"), "the follower's callback decides")
        publisher.send(DOMAIN, group, "tasks", "held")
        window.wait_for("window.goOn !== undefined", "its callback runs")
        with _back_end_worker(up, group, told) as worker:
            assert worker.wait_caught_up(WAIT_S)
            window.close_tab(second)
            window.turn_to(first)
            wait_for(lambda: told == ["held"], "the tab is gone, so its task is given back at once")


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_tab_whose_leader_is_gone_hears_that_its_lease_is_lost(up: Up, site: str, tmp_path: Path) -> None:
    group, told = "tabs-without-leader", list[str]()
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        first, second = _two_tabs(window, up, site, group, lease_s=5)
        publisher.send(DOMAIN, group, "tasks", "held")
        window.wait_for("window.goOn !== undefined", "the follower's callback runs")
        with _back_end_worker(up, group, told) as worker:
            assert worker.wait_caught_up(WAIT_S)
            window.close_tab(first)
            window.turn_to(second)
            wait_for(lambda: told == ["held"], "another member has it once its lease is over")
            window.run("goOn()")
            window.wait_for(logged("ends held 0 true"), "its callback sees that it is lost")


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_version_that_a_dead_tab_had_not_stored_is_told_once(up: Up, site: str, tmp_path: Path) -> None:
    group = "tabs-that-store-nothing"
    query = urlencode(
        {"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}", "channel": "tasks", "save": 3600}
    )
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        leader = window.tab
        window.open(f"{site}?{query}")
        window.wait_for(CAUGHT_UP, "it has the session")
        tabs = []
        for _ in range(2):
            tabs.append(window.new_tab())
            window.open(f"{site}?{query}")
            window.wait_for(CAUGHT_UP, "it shares it")
        window.run(
            "window.slow = []; notify.register('slow').subscribe(({ version }) =>"
            " new Promise((resolve) => { slow.push(String(version)); window.goOn = resolve; }))"
        )
        window.wait_for("slow.join() == 'null'", "it is told that nothing was published, and its callback runs")
        window.run("goOn()")
        sent = [publisher.send(DOMAIN, group, "tasks", number).offset for number in range(3)]
        publisher.publish(DOMAIN, group, "camera", version=1)
        told = f"{items('messages')}.split(', ').length == 3 && {TOLD}.endsWith('camera 1 null')"
        for tab in tabs:
            window.turn_to(tab)
            window.wait_for(told, "it is told")
        publisher.publish(DOMAIN, group, "slow", version=1)
        window.wait_for("slow.length == 2", "a callback runs")

        window.crash_tab(leader)
        window.turn_to(tabs[1])
        window.wait_for("['caught up', 'live'].includes(document.querySelector('#phase').innerText)", "another leads")
        window.run("goOn()")
        sent.append(publisher.send(DOMAIN, group, "tasks", 3).offset)
        publisher.publish(DOMAIN, group, "camera", version=2)
        for tab in tabs:
            window.turn_to(tab)
            window.wait_for(f"{TOLD}.endsWith('camera 2 null') && {items('messages')}.endsWith(' 3')", "it is told")
            assert window.run(f"return {TOLD}").count("camera 1 null") == 1
            messages = window.run(f"return {items('messages')}").split(", ")
            assert [int(one.split()[0]) for one in messages] == sent, "each once, in order"
            _no_errors(window)
        assert window.run("return slow.join()") == "null,1", "it ran on"


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_tab_that_sleeps_holds_up_no_other_and_hears_what_it_missed(up: Up, site: str, tmp_path: Path) -> None:
    group = "tabs-that-sleep"
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{up.report['web']}", "channel": "tasks"})
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        leader = window.tab
        window.open(f"{site}?{query}")
        window.wait_for(CAUGHT_UP, "it has the session")
        sleeper = window.new_tab()
        window.open(f"{site}?{query}")
        window.wait_for(CAUGHT_UP, "it shares it")
        window.block()
        window.turn_to(leader)
        sent = [publisher.send(DOMAIN, group, "tasks", number).offset for number in range(2)]
        window.wait_for(f"{items('messages')}.endsWith(' 1')", "it goes on; the sleeper was last called for the first")
        for version in (1, 2):
            publisher.publish(DOMAIN, group, "camera", version=version)
        window.wait_for(f"{TOLD}.endsWith('camera 2 null')", "it goes on")
        window.wait_for(CAUGHT_UP, "the sleeper is left behind")

        window.go_on(sleeper)
        window.wait_for(f"{TOLD}.endsWith('camera 2 null') && {CAUGHT_UP}", "it hears the newest")
        sent.append(publisher.send(DOMAIN, group, "tasks", 2).offset)
        window.wait_for(f"{items('messages')}.endsWith('{sent[2]} {sent[1]} 2')", "and every message from now on")
        said = window.run(f"return {items('messages')}")
        assert said == f"{sent[0]} null 0, missed UNSAID, {sent[2]} {sent[1]} 2", "and where one is missing"

        # Now the tab with the session: this one cannot know what comes, and says so.
        window.turn_to(leader)
        window.block()
        window.turn_to(sleeper)
        window.run("notify.register('lamp')")
        window.wait_for(f"{items('errors')}.startsWith('OpenElsewhere')", "it says so")
        assert window.run("return notify.status.phase") == "locked"
        window.go_on(leader)
        window.turn_to(sleeper)
        window.wait_for(f"{CAUGHT_UP} && notify.status.registrations == 3", "it is awake")


ASLEEP = """
const now = Date.now;
let slept = 0;
Date.now = () => now() + slept;
window.asleep = (event) => document.addEventListener(event, () => { slept += 200000 }, { once: true, capture: true });
"""
"""A machine that slept, as its wall clock says once it wakes."""


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_whose_machine_slept_or_changed_its_network_comes_back(up: Up, site: str, tmp_path: Path) -> None:
    group, port = "pages-asleep", free_port("127.0.0.1")
    host, _, web_port = str(up.report["web"]).rpartition(":")
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://127.0.0.1:{port}"})
    with (
        Network() as network,
        up.publisher() as publisher,
        browser(tmp_path / "chromedriver.log") as window,
    ):
        proxy = network.proxy(("127.0.0.1", port), (host, int(web_port)))
        window.open(f"{site}?{query}")
        window.wait_for(f"{CAUGHT_UP} && {TOLD} == 'camera null null'", "it is caught up")
        window.run(ASLEEP)

        # The network is another one: nothing comes by the old connection.
        proxy.swallow()
        publisher.publish(DOMAIN, group, "camera", version=1)
        wait_for(lambda: proxy.swallowed_bytes, "swallowed")
        window.be_online(False)
        window.run("window.online = null; addEventListener('online', () => { window.online = notify.caughtUp })")
        window.wait_for("!navigator.onLine", "the page is told")
        proxy.heal()
        window.be_online(True)
        window.wait_for("window.online === false", "it is not caught up when the network is back")
        window.wait_for(f"{TOLD}.endsWith('camera 1 null') && {CAUGHT_UP}", "it came back")

        # The browser freezes the page, and the machine sleeps.
        swallowed = proxy.swallowed_bytes
        proxy.swallow()
        publisher.publish(DOMAIN, group, "camera", version=2)
        wait_for(lambda: proxy.swallowed_bytes > swallowed, "swallowed")
        window.run("window.asleep('resume')")
        window.run("document.addEventListener('resume', () => { window.resumed = notify.caughtUp })")
        window.freeze(frozen=True)
        proxy.heal()
        window.freeze(frozen=False)
        window.wait_for("window.resumed === false", "it is not caught up when it goes on")
        window.wait_for(f"{TOLD}.endsWith('camera 2 null') && {CAUGHT_UP}", "it came back")
        # It slept longer than what it was told stays fresh.
        window.wait_for(f"{items('errors')}.includes('ServiceFresh')", "it is told that it is fresh")
        errors = str(window.run(f"return {items('errors')}")).split(", ")
        assert [error.partition(":")[0] for error in errors] == ["ServiceStale", "ServiceFresh"]


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_a_page_goes_home_while_it_is_told(up: Up, site: str, tmp_path: Path) -> None:
    group, port = "pages-at-home", free_port("127.0.0.1")
    host, _, web_port = str(up.report["web"]).rpartition(":")
    home = f"ws://127.0.0.1:{port}"
    query = urlencode({"domain": DOMAIN, "group": group, "address": f"ws://{host}:{web_port}", "home": home})
    with Network() as network, up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        window.open(f"{site}?{query}")
        window.wait_for(f"{CAUGHT_UP} && notify.status.address.includes(':{web_port}')", "home is not there")
        network.proxy(("127.0.0.1", port), (host, int(web_port)))
        numbers = itertools.count(1)

        def is_home() -> bool:
            publisher.publish(DOMAIN, group, "camera", version=next(numbers))
            return bool(window.run(f"return notify.status.address.includes(':{port}')"))

        wait_for(is_home, "it goes home", WAIT_S)
        publisher.publish(DOMAIN, group, "camera", version=(last := next(numbers)))
        window.wait_for(f"{TOLD}.endsWith('camera {last} null') && {CAUGHT_UP}", "it is told at home")
        told = [one.split()[1] for one in str(window.run(f"return {TOLD}")).split(", ")]
        versions = [int(version) for version in told if version != "null"]
        assert versions == sorted(set(versions)), "none twice, none after a newer one"
        _no_errors(window)


REACT_PAGE = """<!doctype html>
<html lang="en">
  <head><meta charset="utf-8" /><title>React</title><link rel="icon" href="data:," /></head>
  <body>
    <div id="root"></div>
    <script src="react.production.min.js"></script>
    <script src="react-dom.production.min.js"></script>
    <script type="importmap">
      {"imports": {
        "coldnotify-browser": "./dist/index.js", "react": "./react.js", "react-dom/client": "./react-dom.js"
      }}
    </script>
    <script type="module">
      import { start } from "./main.js";
      const [domain, groupId, clientId, address] = new URLSearchParams(location.search).getAll("of");
      window.notify = await start({ domain, groupId, clientId, address }, document.querySelector("#root"));
    </script>
  </body>
</html>
"""
"""React has no modules that a browser could load as they are; a bundler does what the two below do."""
REACT_MODULES = {
    "react.js": "export const { createElement, useEffect, useState } = React;",
    "react-dom.js": "export const { createRoot } = ReactDOM;",
}


@pytest.mark.kafka
@pytest.mark.timeout(3 * _NPM_S)
@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_the_example_with_react(up: Up, site: str, tmp_path: Path) -> None:
    for example in (CLIENT / "examples" / "react").glob("*.js"):
        shutil.copy(example, tmp_path)
    for name in ("react", "react-dom"):
        shutil.copy(CLIENT / "node_modules" / name / "umd" / f"{name}.production.min.js", tmp_path)
    for name, text in {**REACT_MODULES, "react.html": REACT_PAGE}.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    group = "pages-with-react"
    query = urlencode({"of": [DOMAIN, group, "page", f"ws://{up.report['web']}"]}, doseq=True)
    shown = "document.querySelector('#root').innerText"
    with up.publisher() as publisher, browser(tmp_path / "chromedriver.log") as window:
        window.open(f"{site.replace('index.html', 'react.html')}?{query}")
        window.wait_for(f"{shown} == 'version null: null'", "nothing was published")
        publisher.publish(DOMAIN, group, "camera-config", version=7, payload={"fps": 5})
        window.wait_for(f"{shown} == 'version 7: {{\"fps\":5}}'", "the newest")
        window.wait_for("window.notify.caughtUp && window.notify.status.cursor !== null", "it is applied")
        window.run("window.isOld = true; location.reload()")
        window.wait_for(f"!window.isOld && {shown} == 'version 7: {{\"fps\":5}}'", "it is there after a reload")


def test_the_package_is_ready_to_be_published() -> None:
    package = json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))
    assert "private" not in package
    assert package["publishConfig"] == {"access": "public", "provenance": True}
    assert len(package["keywords"]) >= 5
    assert package["repository"] == {"type": "git", "directory": "clients/browser"}, "and no address"
    assert "dependencies" not in package


def test_the_package_has_what_it_needs_and_no_more(compiled: Path, tmp_path: Path) -> None:
    for name in ("src", "package.json", "tsconfig.json", "README.md", "LICENSE"):
        (shutil.copytree if (CLIENT / name).is_dir() else shutil.copy)(CLIENT / name, tmp_path / name)
    shutil.copytree(compiled, tmp_path / "dist")
    assert NPM is not None
    packed = subprocess.run(
        [NPM, "pack", "--dry-run", "--json", "--ignore-scripts"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=_NPM_S,
        check=True,
    )
    (package,) = json.loads(packed.stdout)
    files = {one["path"]: one["size"] for one in package["files"]}
    assert {"package.json", "README.md", "LICENSE", "dist/index.js", "dist/index.d.ts", "src/index.ts"} <= set(files)
    assert not [path for path in files if path.startswith(("tests/", "node_modules/", "build/"))]
    scripts = sum(size for path, size in files.items() if path.endswith(".js"))
    assert scripts < SCRIPT_BYTES_MAX, "the README names the size"


@contextmanager
def mqtt_js(url: str, client: str, version: int, output: Path) -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Runs MQTT.js, and returns what has happened to it. At the end it disconnects."""
    argv = ["node", str(MQTT_JS), url, client, str(version)]
    with output.open("w") as file, subprocess.Popen(argv, cwd=CLIENT, stdin=subprocess.PIPE, stdout=file) as process:
        yield lambda: [json.loads(line) for line in output.read_text().splitlines() if line.endswith("}")]
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(WAIT_S) == 0


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("way", ["mqtt", "web"])
def test_mqtt_js_with_a_kept_session(installed: None, up: Up, tmp_path: Path, way: str, version: int) -> None:
    group = f"js-{way}-{version}"
    ports = {name: int(str(up.report[name]).rpartition(":")[2]) for name in ("mqtt", "web")}
    url = f"mqtt://127.0.0.1:{ports['mqtt']}" if way == "mqtt" else f"ws://127.0.0.1:{ports['web']}/mqtt"
    client = f"{DOMAIN}/{group}/panel"
    with HttpPublisher(up.http_url) as publisher, PahoDevice(ports["mqtt"], f"{DOMAIN}/{group}/sensor") as sensor:
        publisher.publish(DOMAIN, group, "lamp", payload=1)
        with mqtt_js(url, client, version, tmp_path / "first") as happened:
            wait_for(lambda: {"topic": "lamp", "payload": "1", "retain": True} in happened(), "what is retained")
            sensor.publish("knocks", b"0")
            wait_for(lambda: {"topic": "knocks", "payload": "0", "retain": False} in happened(), "a message")
            assert {"present": False} in happened()
            assert {"granted": 1} in happened()
        for number in (2, 3, 4):
            publisher.publish(DOMAIN, group, "lamp", payload=number)
            sensor.publish("knocks", b"%d" % number)
        with mqtt_js(url, client, version, tmp_path / "second") as happened:
            wait_for(lambda: {"topic": "knocks", "payload": "4", "retain": False} in happened(), "each message")
            wait_for(lambda: {"topic": "lamp", "payload": "4", "retain": True} in happened(), "the newest, subscribing")
            told = [one for one in happened() if "topic" in one]
        assert [one["payload"] for one in told if one["topic"] == "knocks"] == ["2", "3", "4"]
        assert {one["payload"] for one in told if one["topic"] == "lamp"} == {"4"}, "never one between"
