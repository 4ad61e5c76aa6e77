"""`coldnotify up`: the ready file, the same data again, a part that dies, one that keeps dying, a taken port."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from coldnotify_cli.asked_ports import SILENT
from coldnotify_cli.supervisor import DEATHS_MAX
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.stack import Up, get_json, running
from coldnotify_testkit.waiting import wait_for

UP = [sys.executable, "-m", "coldnotify_cli.main", "up"]
pytestmark = [pytest.mark.kafka, pytest.mark.own_broker("is about the Kafka that `coldnotify up` starts")]
GROUPS = ("g1", "g2", "g4")
"""In partitions of both matchers, whichever of them has which."""


def test_the_same_data_directory_again_carries_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As somebody's home may be, and with the locale that a cron job or a container has.
    directory = tmp_path / "jürgen データ 50%d it's"
    directory.mkdir()
    monkeypatch.setenv("LC_ALL", "C")
    with running(directory) as up:
        assert set(up.report["pids"]) == {"broker", "matcher", "gateway", "http", "usage"}
        with up.publisher() as publisher:
            publisher.publish("d", "g", "o", version=7)
        url = f"{up.matcher_url}/v1/domains/d/groups/g/objects/o"
        wait_for(lambda: object_version(url) == 7, "the matcher has it")
        assert up.stop() == 0
        assert not (directory / "ready.json").exists()
        up.start()
        assert object_version(url) == 7


def test_with_two_matchers_every_group_and_partition_is_shown_and_every_object_is_reset(tmp_path: Path) -> None:
    with running(tmp_path, "--gateways=2", "--matchers=2") as up:
        with up.publisher() as publisher:
            for group in GROUPS:
                publisher.publish("d", group, "o", version=7)
        ours, matchers = {"http": up.http_url, "kafka": up.kafka}, up.report["matchers"]
        wait_for(lambda: served(ours) == set(range(8)), "both matchers serve their partitions")
        for group in GROUPS:
            shown = coldnotify("state", "object", "d", group, "o", "--json", **ours)
            assert (shown.returncode, json.loads(shown.stdout)["version"]) == (0, 7), shown.stderr
            objects = coldnotify("state", "objects", "d", group, "--json", matcher=",".join(matchers))
            assert (objects.returncode, json.loads(objects.stdout)["object"]) == (0, "o"), objects.stderr
            reset = coldnotify("object", "reset", "d", group, "o", "--yes", "--json", **ours)
            assert (reset.returncode, json.loads(reset.stdout)["outcome"]) == (0, "published"), reset.stderr
        removals = coldnotify("state", "removals", "--json", **ours).stdout.splitlines()
        assert {json.loads(row)["matcher"] for row in removals} == set(matchers)
        told = up.log_tail()
        for address in (*matchers, *up.report["gateways_http"], up.report["usage"]):
            assert f"http://{address}" in told
        assert_a_channel_says_who_is_behind(ours, up, tmp_path)
        pid = up.report["pids"]["matcher-2"]
        os.kill(pid, signal.SIGSTOP)
        try:
            without = coldnotify("state", "partitions", "--json", **ours)
            doctor = coldnotify("doctor", gateway_http="", usage="", **ours).stdout
        finally:
            os.kill(pid, signal.SIGCONT)
        assert (without.returncode, f"no answer from matcher {matchers[1]}: " in without.stderr) == (1, True)
        assert without.stdout
        assert f"http://{matchers[0]} is ready" in doctor
        assert f"http://{matchers[1]}: {SILENT}" in doctor


def assert_a_channel_says_who_is_behind(ours: dict[str, str], up: Up, directory: Path) -> None:
    """A client that sleeps lacks the messages that were sent meanwhile, and commands say which client, and why."""
    client, gateway = ("d", "g1", "sleeper"), str(up.report["gateway"])
    watch = coldnotify("watch", *client, "--channel=tasks", "--once", f"--state={directory / 'state'}", gateway=gateway)
    assert watch.returncode == 0, watch.stderr
    for text in ("1", "2"):
        assert coldnotify("send", "d", "g1", "tasks", "--payload", text, **ours).returncode == 0

    def behind() -> list[tuple[object, ...]]:
        shown = coldnotify("state", "channels", "d", "g1", "--behind", "--json", **ours).stdout
        rows = [json.loads(line) for line in shown.splitlines()]
        return [tuple(row[name] for name in ("channel", "client", "behind", "state")) for row in rows]

    wait_for(lambda: behind() == [("tasks", "sleeper", 2, "asleep")], "it is behind by two messages")
    assert "sleeper" in coldnotify("state", "channel", "d", "g1", "tasks", **ours).stdout
    assert json.loads(coldnotify("state", "channels", "d", "g1", "--json", **ours).stdout)["behind"] == 1
    why = coldnotify("explain", *client, "--channel", "tasks", **ours)
    assert (why.returncode, "lacks 2 messages, the oldest since " in why.stdout) == (0, True), why.stderr
    assert "it is not connected, and was last seen 2" in why.stdout
    for unknown in (
        ("sleeper", "--channel=no"),
        ("nobody", "--channel=tasks"),
        ("nobody", "o"),
        ("sleeper", "none"),
    ):
        assert coldnotify("explain", "d", "g1", *unknown, **ours).returncode == 1, unknown
    assert coldnotify("who-lacks", "d", "g1", "none", **ours).returncode == 1
    assert coldnotify("who-lacks", "d", "g1", "o", **ours).returncode == 0


def test_a_part_that_keeps_dying_stops_all(tmp_path: Path) -> None:
    # Also on ports that it chose itself a part gets its own back.
    up = Up(tmp_path, *(f"--{name}-port=0" for name in ("kafka", "gateway", "http", "matcher")))
    up.start()
    try:
        pids = up.report["pids"]
        for _ in range(DEATHS_MAX - 1):
            up.wait_ready(other_than=up.kill("http"))
        up.kill("http")
        assert up.wait() == 1
    finally:
        up.stop()
    assert "http keeps dying" in up.log_tail()
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids.values())


def test_a_broker_that_keeps_dying_says_why_and_where(tmp_path: Path) -> None:
    java = tmp_path / "java"
    java.write_text(
        '#!/bin/sh\nif [ "$1" = -version ]; then echo \'openjdk version "21.0.1"\' >&2; exit 0; fi\n'
        'echo "no memory for a heap of 9 GB"; exit 3\n'
    )
    java.chmod(0o700)
    up = Up(tmp_path, java=str(java))
    with pytest.raises(AssertionError, match="ended"):
        up.start()
    said = up.log_tail()
    assert f"broker keeps dying: {DEATHS_MAX} times within 60 s, last with exit code 3. Its log ends:" in said
    assert f"--- {up.data / 'broker.out'} ---" in said
    assert "no memory for a heap of 9 GB" in said.rpartition("broker.out")[2]


def test_the_usage_job_may_die_as_often_as_it_likes_and_kafka_under_it(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        ready = f"http://{up.report['usage']}/readyz"
        wait_for(lambda: fetched(ready) == "ready\n", "the usage job is ready")
        for _ in range(DEATHS_MAX + 1):
            up.wait_ready(other_than=up.kill("usage"))
        wait_for(lambda: fetched(ready) == "ready\n", "the usage job is ready again")
        before = up.report["pids"]
        up.wait_ready(other_than=up.kill("broker"))
        wait_for(lambda: fetched(ready) == "ready\n", "the usage job is ready with the broker that was started again")
        assert up.report["pids"]["usage"] == before["usage"]


def test_without_its_extra_up_runs_without_the_usage_job_and_says_so(tmp_path: Path) -> None:
    code = (
        "import importlib.util as u, sys; found = u.find_spec; "
        "u.find_spec = lambda name: None if name == 'faust' else found(name); "
        "from coldnotify_cli.settings import UpSettings; from coldnotify_cli.stack import Stack; from pathlib "
        "import Path; s = Stack(UpSettings(data=Path(sys.argv[1]), kafka_port=0, gateway_port=0, http_port=0, "
        "matcher_port=0)); print([part.name for stage in s.stages for part in stage], s.ready_report({}))"
    )
    argv = [sys.executable, "-c", code, str(tmp_path / "data")]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
    assert "runs without the usage job: coldnotify-server[usage] is not installed" in done.stdout + done.stderr
    assert "'http'" in done.stdout
    assert "usage'" not in done.stdout.splitlines()[-1]


def test_a_taken_port_is_said_with_its_setting(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [
                *UP,
                f"--data={tmp_path}",
                f"--gateway-port={port}",
                "--kafka-port=0",
                "--http-port=0",
                "--matcher-port=0",
            ],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert (done.returncode, f"port {port} on 127.0.0.1 is taken" in done.stderr) == (1, True), done.stderr
    assert "--gateway-port (COLDNOTIFY_GATEWAY_PORT)" in done.stderr


def served(ours: dict[str, str]) -> set[int]:
    """The partitions that `state partitions` shows as owned."""
    rows = map(json.loads, coldnotify("state", "partitions", "--json", **ours).stdout.splitlines())
    return {row["partition"] for row in rows if row["phase"] == "owned"}


def fetched(url: str) -> str:
    """What it answers; "" if nobody does, or not with 200."""
    try:
        return fetch(url, 10).text
    except OSError:
        return ""


def object_version(url: str) -> int | None:
    """Of the object at this looking-in address; None if it is not known."""
    try:
        version = get_json(url)["version"]
    except OSError:
        return None
    return None if version is None else int(version)
