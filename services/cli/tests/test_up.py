"""`coldnotify up`: the ready file, the same data again, a part that dies, one that keeps dying, a taken port."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest
from coldnotify.publisher import Publisher
from coldnotify_cli.supervisor import DEATHS_MAX
from coldnotify_testkit.stack import Up, get_json, running
from coldnotify_testkit.waiting import wait_for

UP = [sys.executable, "-m", "coldnotify_cli.main", "up"]
pytestmark = pytest.mark.kafka


def test_the_same_data_directory_again_carries_on(tmp_path: Path) -> None:
    with running(tmp_path) as up:
        assert set(up.report["pids"]) == {"broker", "matcher", "gateway", "http"}
        with Publisher(kafka=up.kafka) as publisher:
            publisher.publish("d", "g", "o", version=7)
        url = f"{up.matcher_url}/v1/domains/d/groups/g/objects/o"
        wait_for(lambda: object_version(url) == 7, "the matcher has it")
        assert up.stop() == 0
        assert not (tmp_path / "ready.json").exists()
        up.start()
        assert object_version(url) == 7


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


def object_version(url: str) -> int | None:
    """Of the object at this looking-in address; None if it is not known."""
    try:
        version = get_json(url)["version"]
    except OSError:
        return None
    return None if version is None else int(version)
