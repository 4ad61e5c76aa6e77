"""What each small client must do, whatever its language: the same commands, against real processes.

Stands for: scripted_front, small_clients
"""

import json
import signal
import time
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.scripted_front import Cut, ScriptedFront, canned
from coldnotify_testkit.shifted_clock import ShiftedClock
from coldnotify_testkit.small_clients import LANGUAGES, LIMIT_S, Ran, SmallClient, command_of
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(900)]

YEARS_S = 3e8
LONG_BYTES = 3000
WHOLE_PIPE = 40
"""So many long payloads are more than a pipe holds."""
_devices = count()


@pytest.fixture(scope="module", params=LANGUAGES)
def argv(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return command_of(request.param, tmp_path_factory.mktemp("small"))


@pytest.fixture
def device(argv: list[str], up: Up, tmp_path: Path) -> SmallClient:
    """A device in a group of its own."""
    return SmallClient(argv, up.report["http"], "small", tmp_path / "state", group=f"g-{next(_devices)}")


@pytest.fixture
def front(up: Up) -> Iterator[ScriptedFront]:
    with ScriptedFront(up.http_url) as one:
        yield one


def publish(up: Up, device: SmallClient, name: str, **record: object) -> dict[str, Any]:
    return post(up, device, f"objects/{name}", record)


def post(up: Up, device: SmallClient, path: str, body: object) -> dict[str, Any]:
    url = f"{up.http_url}/v1/domains/{device.domain}/groups/{device.group}/{path}"
    answer = fetch(urllib.request.Request(url, json.dumps(body).encode()))
    assert answer.status == 200, answer.text
    said: dict[str, Any] = answer.json()
    return said


def newest(told: list[Any]) -> dict[str, Any]:
    return {one["object"]: one["version"] for one in told if "object" in one}


def tenant(up: Up, *words: str) -> None:
    done = coldnotify("tenant", *words, **up.in_kafka)
    assert done.returncode == 0, done.stderr


# --- what it is for


def test_it_registers_is_told_and_is_told_once(up: Up, device: SmallClient) -> None:
    publish(up, device, "camera", version=1, payload={"fps": 5})
    assert device.done("register", 'odd "name" \\ ü', "camera") == []
    assert device.cursor() is None, "only a sync asks"
    told = device.done("sync")
    assert {"object": "camera", "version": 1, "payload": {"fps": 5}} in told
    assert newest(told) == {"camera": 1, 'odd "name" \\ ü': None}
    assert device.done("sync") == []
    publish(up, device, "camera", version=2, payload="x \r\n y")
    assert device.done("sync") == [{"object": "camera", "version": 2, "payload": "x \r\n y"}]


def test_it_waits_for_what_is_published_meanwhile(up: Up, device: SmallClient) -> None:
    device.done("register", "camera")
    device.done("sync")
    with device.other(options=("--wait", "60")).start("sync") as waiting:
        wait_for(lambda: is_online(up, device), "it waits")
        publish(up, device, "camera", version=7)
        out, problem = waiting.communicate(timeout=LIMIT_S)
    assert ([json.loads(line) for line in out.splitlines()], waiting.returncode) == (
        [{"object": "camera", "version": 7}],
        0,
    ), problem


def is_online(up: Up, device: SmallClient) -> bool:
    path = f"/v1/domains/{device.domain}/groups/{device.group}/clients/{device.client}"
    answer = fetch(up.http_url + path)
    return answer.status == 200 and bool(answer.json()["online"])


def test_it_publishes_describes_and_finds_by_query(device: SmallClient) -> None:
    (published,) = device.done("publish", "lamp/1 ü", '{"on": [true, 1.5, null, "\\u0041\\n"]}')
    assert (published["object"], published["outcome"]) == ("lamp/1 ü", "published")
    (described,) = device.done("describe", "lamp/1 ü", '{"Kind": "lamp", "Room": 410}')
    assert described["description"] == {"Kind": "lamp", "Room": 410}
    (described,) = device.done("describe", "lamp/1 ü", '{"Room": null}')
    assert described["description"] == {"Kind": "lamp"}
    device.done("query", 'Kind = "lamp"')
    told = device.done("sync")
    assert told[0] == {"begun": ['Kind = "lamp"']}
    assert told[-1] == {"answered": ['Kind = "lamp"']}
    (lamp,) = told[1:-1]
    assert (lamp["object"], lamp["payload"]) == ("lamp/1 ü", {"on": [True, 1.5, None, "A\n"]})
    assert device.done("sync") == []


def test_one_state_file_is_every_clients(up: Up, device: SmallClient, tmp_path: Path) -> None:
    publish(up, device, "a", version=1)
    python = device.other(argv=command_of("python", tmp_path))
    python.done("register", "a", "b")
    python.done("channel", "tasks", "oldest")
    device.done("sync")
    assert python.done("sync") == []
    publish(up, device, "a", version=2)
    assert newest(python.done("sync")) == {"a": 2}
    assert device.done("sync") == []


@pytest.mark.parametrize(
    "words",
    [
        ("register",),
        ("register", "a\nb"),
        ("register", ""),
        ("sync", "more"),
        ("publish", "a"),
        ("--wat", "1", "sync"),
        ("nothing",),
        ("--wait", "61", "sync"),
        ("--bytes", "100", "sync"),
        ("query", ""),
    ],
)
def test_wrong_use_is_said_and_changes_nothing(device: SmallClient, words: tuple[str, ...]) -> None:
    ran = device.run(*words)
    assert (ran.code, ran.told, bool(ran.problem)) == (2, [], True)
    assert device.cursor() is None


# --- what happens to it


def test_killed_in_the_middle_of_an_answer(up: Up, device: SmallClient, front: ScriptedFront) -> None:
    publish(up, device, "a", version=1)
    device.done("register", "a", "b")
    device.done("sync")
    before = device.cursor()
    publish(up, device, "a", version=2)
    publish(up, device, "b", version=3)
    front.acts.append(Cut(-30, stalls=True))
    with device.other(addresses=front.address).start("sync") as running:
        assert front.stalled.wait(LIMIT_S)
        running.kill()
        running.communicate()
    assert (running.returncode, device.cursor()) == (-signal.SIGKILL, before)
    assert newest(device.done("sync")) == {"a": 2, "b": 3}


def test_killed_before_all_is_printed(up: Up, device: SmallClient) -> None:
    names = [f"long-{number}" for number in range(WHOLE_PIPE)]
    for name in names:
        publish(up, device, name, version=1, payload="x" * LONG_BYTES)
    device.done("register", *names)
    with device.other(options=("--bytes", "200000")).start("sync") as running:
        assert running.stdout is not None
        running.stdout.read(1)  # it prints, and the pipe is soon full
        running.kill()
        running.communicate()
    assert device.cursor() is None
    assert newest(device.done("sync")) == dict.fromkeys(names, 1)


def test_a_wiped_state_is_told_again(up: Up, device: SmallClient) -> None:
    publish(up, device, "a", version=4)
    device.done("register", "a")
    assert newest(device.done("sync")) == {"a": 4}
    device.state.unlink()
    device.done("register", "a")
    assert newest(device.done("sync")) == {"a": 4}


def test_displaced_it_leaves_and_says_when_to_come_back(up: Up, device: SmallClient) -> None:
    device.done("register", "a")
    device.done("sync")
    before = device.cursor()
    with device.other(options=("--wait", "50"), for_s=1).start("sync") as waiting:
        wait_for(lambda: is_online(up, device), "it waits")
        assert device.other(state=device.state.with_name("other")).done("sync") == []
        out, problem = waiting.communicate(timeout=LIMIT_S)
    assert (waiting.returncode, out, device.cursor()) == (1, "", before)
    assert "409" in problem
    assert "come back in 6" in problem


def test_above_its_agreement_it_comes_back(up: Up, device: SmallClient) -> None:
    domain = f"small-{device.group}"
    tenant(up, "set", domain, "--domain", domain, "--clients-max", "1")
    device = device.other(domain=domain)
    device.done("register", "a")

    def refused() -> Ran | None:
        ran = device.other(for_s=0).run("sync")
        return ran if ran.code else None

    host, port = up.gateway
    holder = Notify(domain, device.group, "holder", State(None), Connection(host, port=port))
    holder.connect()
    try:
        assert holder.wait_caught_up(LIMIT_S)
        ran = wait_for(refused, "the matcher knows the agreement")
    finally:
        holder.disconnect()
    assert (ran.code, ran.told) == (1, [])
    assert "429" in ran.problem
    assert "clients_max is 1" in ran.problem
    before = device.cursor()
    assert device.done("sync") == ([] if before else [{"object": "a", "version": None}])
    tenant(up, "remove", domain)


def test_a_service_that_cannot_answer_yet_is_asked_again(up: Up, device: SmallClient, front: ScriptedFront) -> None:
    publish(up, device, "a", version=1)
    device.done("register", "a")
    front.acts.append(canned("503 Service Unavailable", '{"error": "loading"}', "Retry-After: 2"))
    begun_s = time.monotonic()
    assert newest(device.other(addresses=front.address).done("sync")) == {"a": 1}
    assert time.monotonic() - begun_s >= 2
    front.acts.append(canned("503 Service Unavailable", '{"error": "loading"}', "Retry-After: 40"))
    ran = device.other(addresses=front.address, for_s=5).run("sync")
    assert (ran.code, ran.told) == (1, [])
    assert ("503" in ran.problem, "loading" in ran.problem) == (True, True)
    assert "come back in 4" in ran.problem


def test_more_than_an_answer_holds_comes_in_several(up: Up, device: SmallClient, front: ScriptedFront) -> None:
    names = [f"long-{number}" for number in range(WHOLE_PIPE)]
    for name in names:
        publish(up, device, name, version=1, payload="x" * LONG_BYTES)
    device.done("register", *names, "never")
    device = device.other(addresses=front.address)
    assert newest(device.done("sync")) == {**dict.fromkeys(names, 1), "never": None}
    assert len(front.requests) > WHOLE_PIPE / 3
    assert device.done("sync") == []


def test_a_refused_name_is_said_and_left_out(up: Up, device: SmallClient, front: ScriptedFront) -> None:
    domain = f"small-{device.group}"
    device = device.other(domain=domain)
    publish(up, device, "a", version=1)
    device.done("register", "a")
    device.done("sync")
    tenant(up, "set", domain, "--domain", domain, "--registrations-max", "1")
    names = (f'new "{number}"' for number in count())

    def refused() -> list[Any]:
        device.done("register", next(names))
        return [one["refused"] for one in device.done("sync") if "refused" in one]

    ((name, reason),) = wait_for(refused, "the matcher knows the agreement")[0].items()
    assert "registrations_max is 1" in reason
    assert f"refused object {name}" in device.state.read_text(encoding="utf-8").splitlines()
    device = device.other(addresses=front.address)
    assert [one for one in device.done("sync") if "refused" in one] == []
    assert json.dumps(name).encode() not in front.requests[-1]
    tenant(up, "remove", domain)
    publish(up, device, "a", version=2)
    assert newest(device.done("sync"))["a"] == 2


def test_missed_messages_are_said_with_the_reason(up: Up, device: SmallClient) -> None:
    device.done("channel", "tasks", "oldest")
    device.done("sync")
    first = post(up, device, "channels/tasks", {"payload": {"n": 1}, "id": "one"})["offset"]
    post(up, device, "channels/tasks", {"payload": 2, "expires_at": 1000})
    post(up, device, "channels/tasks", {"payload": 3})
    told = device.done("sync")
    assert [one.get("payload") for one in told if "payload" in one] == [{"n": 1}, 3]
    assert (told[0]["channel"], told[0]["offset"], told[0]["id"]) == ("tasks", first, "one")
    (missed,) = [one["missed"] for one in told if "missed" in one]
    assert (missed["reason"], missed["after"]) == ("expired", first)
    assert device.done("sync") == []


def test_a_deleted_object_is_said(up: Up, device: SmallClient) -> None:
    publish(up, device, "a", version=1, payload=1)
    device.done("register", "a")
    device.done("sync")
    publish(up, device, "a", version=2, deleted=True)
    assert device.done("sync") == [{"object": "a", "version": 2, "deleted": True}]


def test_it_goes_on_at_another_address(up: Up, device: SmallClient, front: ScriptedFront) -> None:
    publish(up, device, "a", version=1)
    device.done("register", "a")
    front.acts.append(b"")
    with ScriptedFront(up.http_url) as gone:
        nobody = gone.address
    device = device.other(addresses=f"{nobody},{front.address},{device.addresses}", for_s=0)
    assert newest(device.done("sync")) == {"a": 1}
    assert len(front.requests) == 1
    front.acts.append(canned("503 Service Unavailable", "{}", "Retry-After: 60"))
    assert device.done("publish", "a", '"x"')[0]["outcome"] == "published"
    assert device.done("describe", "a", "{}")[0]["object"] == "a"


@pytest.mark.parametrize(
    "act",
    [
        canned("200 OK", "<html>Log in</html>"),
        canned("200 OK", "[]"),
        canned("200 OK", '{"notifications":[{"object":"a","version":1}],"cur'),
        canned("200 OK", '{"notifications":[],"in_sync":true}'),
        canned("200 OK", ""),
        canned("502 Bad Gateway", "<html>"),
        b"SSH-2.0-OpenSSH_9.2\r\n",
        Cut(-3),
    ],
)
def test_a_bad_answer_moves_nothing(up: Up, device: SmallClient, front: ScriptedFront, act: bytes | Cut) -> None:
    publish(up, device, "a", version=1)
    device.done("register", "a")
    device.done("sync")
    before, text = device.cursor(), device.state.read_text(encoding="utf-8")
    publish(up, device, "a", version=2)
    front.acts.append(act)
    ran = device.other(addresses=front.address, for_s=0).run("sync")
    assert (ran.code, device.cursor(), bool(ran.problem)) == (1, before, True), ran
    assert device.state.read_text(encoding="utf-8") == text
    assert newest(device.other(addresses=front.address).done("sync")) == {"a": 2}


@pytest.mark.parametrize("by_s", [-YEARS_S, YEARS_S])
def test_its_clock_may_be_wrong(up: Up, device: SmallClient, tmp_path: Path, by_s: float) -> None:
    clock = ShiftedClock(tmp_path, by_s)
    wrong = device.other(environ=clock.environ)
    device.done("register", "a")
    (published,) = wrong.done("publish", "a", "1")
    assert abs(published["version"] / 1000 - time.time()) < LIMIT_S * 10
    assert newest(wrong.done("sync")) == {"a": published["version"]}
    (later,) = device.done("publish", "a", "2")
    assert later["outcome"] == "published", "its own version was not ahead of everybody's"
