"""A full disk, under `coldnotify up`: who reads the end of what it says is told, and nothing acknowledged is lost."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from coldnotify_testkit.stack import Up, get_json
from coldnotify_testkit.waiting import WAIT_S, wait_for

_DISK_MIB = 200
"""Kafka needs 64 to start, and takes little at first."""
_OBJECTS = "/v1/domains/d/groups/g/objects"
_RETRIES_LINES_MAX = 40
"""Lines that say that a Kafka that is gone is gone: some a second, of all clients together, would be hundreds."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    path = tmp_path / "disk"
    path.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m,mode=700", "tmpfs", str(path)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk; kafka/tests/test_room.py tests what is said")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True, timeout=60)


def publish(up: Up, name: str, payload: str) -> int:
    request = Request(f"{up.http_url}{_OBJECTS}/{name}", data=f'{{"payload":"{payload}"}}'.encode(), method="POST")
    try:
        with urlopen(request, timeout=WAIT_S) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code
    except OSError:
        return 0


def kept(up: Up) -> object:
    """Returns the object's payload; None while no matcher can say it."""
    try:
        return get_json(f"{up.http_url}{_OBJECTS}/kept")["payload"]
    except HTTPError as error:
        if error.code != 503:
            raise
        return None


def free_ratio(up: Up) -> float:
    """Returns the free part of the disk with Kafka's data, as /metrics says it."""
    with urlopen(f"{up.http_url}/metrics", timeout=WAIT_S) as answer:
        lines = answer.read().decode().splitlines()
    (line,) = (
        one for one in lines if one.startswith(f'coldnotify_http_kafka_disk_free_ratio{{directory="{up.data}"}} ')
    )
    return float(line.rpartition(" ")[2])


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1024 * 1024))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


@pytest.mark.timeout(600)
@pytest.mark.own_broker("fills the disk that Kafka writes to")
def test_a_full_disk_is_named_and_after_room_is_made_everything_is_there(disk: Path, tmp_path: Path) -> None:
    up = Up(tmp_path, http_publish_timeout_s="5")
    up.data = disk / "data"
    filling = disk / "filling"
    up.start()
    try:
        assert publish(up, "kept", "before") == 200
        assert free_ratio(up) > 0.3
        fill(filling)
        assert free_ratio(up) < 0.05, "DiskNearlyFull fires"
        # Until a segment needs more than the file system has: then Kafka ends, cannot be started, and all is over.
        while publish(up, "more", "x" * 4000) == 200:
            pass
        assert up.wait() == 1
        said = up.log_lines()
        (last,) = [line for line in said if line.startswith("Error: ")]
        assert "the disk is full: 0 MiB of 200 MiB are free" in last
        assert str(up.data) in last
        assert sum("Connection refused" in line for line in said) <= _RETRIES_LINES_MAX, "\n".join(said)

        with pytest.raises(AssertionError, match="Error: the disk is full: "):
            up.start()
        filling.unlink()
        up.start()
        assert wait_for(lambda: kept(up), "the object is served") == "before"
    finally:
        up.stop()
