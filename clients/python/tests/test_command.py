"""`python -m coldnotify.testing` as a process: what a test in another language does with it."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from coldnotify import Connection, Notification, Notify, State
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.waiting import WAIT_S, wait_for

SCOPE = {"domain": "animal.observer", "group": "region-1"}


class Running:
    """The process, its port, and a line in for a line out."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process
        ready = self.read()
        self.port: int = ready["port"]
        self.http: str = ready["http"]

    def do(self, what: str, **fields: object) -> dict[str, Any]:
        return self.line(json.dumps({"do": what, **fields}))

    def line(self, line: str) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, dict)
        return answer


@contextmanager
def running(*flags: str) -> Iterator[Running]:
    argv = [sys.executable, "-m", "coldnotify.testing", *flags]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Running(process)
        finally:
            process.kill()


def test_a_program_is_told_what_is_published_also_over_what_goes_wrong() -> None:
    with running("--port", "0") as service:
        seen: list[Notification] = []
        ou = Notify(
            domain="animal.observer",
            group_id="region-1",
            client_id="observer-1",
            state=State(None),
            connection=Connection("127.0.0.1", service.port),
        )
        ou.register("camera").subscribe(seen.append)
        with ou:
            assert ou.wait_caught_up(WAIT_S)
            assert service.do("publish", **SCOPE, object="camera", payload={"fps": 5}) == {"ok": True, "version": 0}
            wait_for(lambda: seen and seen[-1].version == 0, "version 0")
            assert seen[-1].payload == {"fps": 5}
            assert service.do("drop") == {"ok": True}
            assert service.do("publish", **SCOPE, object="camera", version=7, incarnation=1)["version"] == 7
            wait_for(lambda: seen[-1].version == 7, "version 7, on another connection")
            assert service.do("forget") == {"ok": True}
            assert service.do("new_epoch") == {"ok": True}
            assert service.do("publish", **SCOPE, object="camera", version=8, incarnation=1, deleted=True)["ok"]
            wait_for(lambda: seen[-1].version == 8, "version 8, in another epoch")
            assert seen[-1].deleted

            def acknowledged() -> bool:
                (client,) = service.do("clients")["clients"]
                assert (client["client"], client["objects"]) == ("observer-1", ["camera"])
                return client["acknowledged"] is not None

            wait_for(acknowledged, "an Ack")
            hello = service.do("received")["frames"][0]["hello"]
            assert (hello["domain"], hello["client"]) == ("animal.observer", "observer-1")


def test_a_back_end_publishes_by_http_and_a_publish_is_waited_for() -> None:
    seen: list[Any] = []
    with running() as service:
        notify = Notify(
            SCOPE["domain"], SCOPE["group"], "c", State(None), Connection("127.0.0.1", service.port, ack_delay_s=0.05)
        )
        notify.register("camera").subscribe(lambda n: seen.append(n.payload))
        with notify:
            assert notify.wait_caught_up(WAIT_S)
            receipt = HttpPublisher(service.http).publish(SCOPE["domain"], SCOPE["group"], "camera", {"fps": 5})
            assert receipt.applied_by(1.0, WAIT_S) == (1, 0)
            wanted = {"object": "camera", "payload": {"fps": 6}, "wait": True, "timeout_s": WAIT_S}
            assert service.do("publish", **SCOPE, **wanted)["version"] == receipt.version + 1
            assert seen[-1] == {"fps": 6}
            assert service.do("silence", silent=True) == {"ok": True}
            late = service.do("publish", **SCOPE, object="camera", wait=True, timeout_s=0)
            assert late["error"].startswith("wait: animal.observer/region-1/camera version ")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("{", "line: is not JSON"),
        ("[]", "line: is not a JSON object"),
        ("{}", "do: is missing"),
        ('{"do": "dance"}', "do: is 'dance', not one of publish,"),
        ('{"do": "publish", "domain": "d"}', "group: is missing"),
        ('{"do": "publish", "domain": 1}', "domain: is 1, not a string"),
        ('{"do": "publish", "domain": "d", "group": "g", "object": "o", "version": -1}', "version: is -1, not a whole"),
        ('{"do": "publish", "domain": "d", "group": "g", "object": "o", "colour": 1}', "colour: is not a field of"),
        ('{"do": "publish", "domain": "d", "group": "g", "object": "o", "wait": 1}', "wait: is 1, not a boolean"),
        (
            '{"do": "publish", "domain": "d", "group": "g", "object": "o", "timeout_s": -1}',
            "timeout_s: is -1, not a num",
        ),
        ('{"do": "silence", "silent": 1}', "silent: is 1, not a boolean"),
        ('{"do": "close", "code": true}', "code: is True, not a whole number from 0 to 4294967295"),
        ('{"do": "describe", "domain": "d", "group": "g", "object": "o"}', "description: is missing"),
        (
            '{"do": "describe", "domain": "d", "group": "g", "object": "o", "description": 1}',
            "description: is 1, not a",
        ),
        ('{"do": "lose_answers", "count": 1e99}', "count: is 1e+99, not a whole number"),
    ],
)
def test_a_wrong_line_is_answered_with_the_field_at_fault(service: Running, line: str, error: str) -> None:
    assert service.line(line)["error"].startswith(error)
    assert service.do("drop") == {"ok": True}, "it goes on"


@pytest.mark.parametrize("description", [{"Room": 1}, None])
def test_an_object_is_described_and_is_described_no_more(service: Running, description: object) -> None:
    assert service.do("describe", **SCOPE, object="lamp", description=description) == {"ok": True}


@pytest.fixture(scope="module")
def service() -> Iterator[Running]:
    with running() as one:
        yield one


def test_it_ends_with_its_input_or_by_a_signal() -> None:
    with running() as service:
        assert service.process.stdin is not None
        service.process.stdin.close()
        assert service.process.wait(WAIT_S) == 0
    with running() as service:
        service.process.send_signal(signal.SIGTERM)
        assert service.process.wait(WAIT_S) == 0


def test_wrong_use_names_the_flag() -> None:
    with running() as service:
        for flags, code, words in (
            (["--port", str(service.port)], 1, f"--port: {service.port} cannot be had"),
            (["--port", "70000"], 2, "--port: 70000 is not from 0 to 65535"),
            (["--http-port", str(service.port)], 1, f"--http-port: {service.port} cannot be had"),
            (["--http-port", "-1"], 2, "--http-port: -1 is not from 0 to 65535"),
            (["--page-objects", "0"], 2, "--page-objects: 0 is not above 0"),
        ):
            argv = [sys.executable, "-m", "coldnotify.testing", *flags]
            ended = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=False)
            assert (ended.returncode, words in ended.stderr) == (code, True), ended.stderr
