"""A publisher whose clock was wrong for a while publishes as soon as it is right, also what it was refused before."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coldnotify._publishing.stamping import StampClock, Stamps
from coldnotify_testkit.object_records import written
from coldnotify_testkit.shifted_clock import ShiftedClock

TWO_HOURS_S, TEN_YEARS_S = 7200, 10 * 365 * 86400

CHILD = """
import json, sys
from coldnotify.publisher import Publisher, PublishError
config = json.loads(sys.argv[2])
publisher = Publisher(sys.argv[1], timeout_s=60, **config)
for line in sys.stdin:
    said = json.loads(line)
    try:
        if "flush" in said:
            answer = publisher.flush(said["flush"]), publisher.outbox_last_error
        elif "describe" in said:
            answer = list(publisher.describe("d", "g", *said["describe"]))
        elif "send" in said:
            answer = list(publisher.send("d", "g", *said["send"]))
        else:
            answer = [one.version for one in publisher.publish_many("d", "g", said["publish"])]
    except PublishError as error:
        answer = {"error": str(error), "indeterminate": error.indeterminate}
    print(json.dumps(answer), flush=True)
"""


class Unit:
    """A publisher in a process with a clock of its own."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def _ask(self, **said: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def publish(self, *records: tuple[str, dict[str, Any]]) -> Any:
        """Their versions, or what was raised."""
        return self._ask(publish=records)

    def versions(self, *records: tuple[str, dict[str, Any]]) -> list[int]:
        """Their versions; nothing may be raised."""
        answer = self.publish(*records)
        assert isinstance(answer, list), answer
        return answer

    def describe(self, name: str, description: dict[str, Any]) -> Any:
        """Version, partition and offset, or what was raised."""
        return self._ask(describe=[name, description])

    def send(self, channel: str, payload: object) -> Any:
        """Partition, offset and id, or what was raised."""
        return self._ask(send=[channel, payload])

    def flush(self, timeout_s: float) -> Any:
        """(how many are left, the outbox's last error)."""
        return self._ask(flush=timeout_s)


@contextmanager
def unit(bootstrap: str, clock: ShiftedClock, **config: Any) -> Iterator[Unit]:
    """One that runs."""
    argv = [sys.executable, "-c", CHILD, bootstrap, json.dumps(config)]
    environ = {**os.environ, **clock.environ}
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as process:
        yield Unit(process)
        assert process.stdin is not None
        process.stdin.close()


@pytest.mark.kafka
def test_a_clock_that_was_ahead_and_is_right_again_is_forgotten(bootstrap: str, tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path, by_s=TWO_HOURS_S)
    with unit(bootstrap, clock) as one:
        refused = one.publish(("o", {}))
        assert "clock" in refused["error"]
        assert not refused["indeterminate"]
        assert "clock" in one.describe("o", {"kind": "lamp"})["error"]
        clock.shift(0)
        first = one.versions(("o", {}), ("o", {}), ("o", {"version": 9}))
        assert first[0] < first[1]
        assert one.describe("o", {"kind": "lamp"})[0] > 0
        assert one.send("c", 1)[1] >= 0
    stamps = [record["timestamp"] for record in written(bootstrap) if record["key"] == "d/g/o"]
    assert stamps[:2] == first[:2]
    assert stamps[2] > stamps[1]


@pytest.mark.kafka
def test_a_clock_that_steps_ahead_in_between_does_not_stop_it(bootstrap: str, tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path)
    with unit(bootstrap, clock) as one:
        versions = one.versions(("o", {}))
        clock.shift(TEN_YEARS_S)
        versions += one.versions(("o", {}), ("o", {}))
        versions += one.versions(("o", {}))
        clock.shift(0)
        versions += one.versions(("o", {}))
    assert versions == sorted(set(versions))
    assert versions[-1] - versions[0] < TWO_HOURS_S * 1000


@pytest.mark.kafka
def test_an_outbox_goes_on_once_the_clock_is_right(bootstrap: str, tmp_path: Path) -> None:
    clock = ShiftedClock(tmp_path, by_s=TWO_HOURS_S)
    with unit(bootstrap, clock, outbox=str(tmp_path / "outbox")) as one:
        one.publish(("o", {"version": 7}), ("p", {"version": 8}))
        left, error = one.flush(5)
        assert left
        assert "clock" in error
        one.send("c", 1)
        clock.shift(0)
        one.publish(("q", {"version": 9}))
        assert one.flush(60) == [0, None]
    versions = {record["key"].rpartition("/")[2]: record["value"]["version"] for record in written(bootstrap)}
    assert versions == {"o": 7, "p": 8, "q": 9}


def test_a_refused_timestamp_is_not_used_and_the_order_stays() -> None:
    stamps = Stamps()
    assert [stamps.begin(9000), stamps.begin(9000)] == [(1, 9000), (2, 9001)]
    assert stamps.again(1, 1000) == 1000
    assert stamps.begin(1000) == (3, 9002)  # 9001 may still be taken
    assert stamps.again(2, 1000) == 1001
    assert stamps.again(3, 1000) == 1002
    for number in (1, 2, 3):
        stamps.end(number, taken=True)
    assert stamps.begin(0) == (4, 1003)


def test_a_publish_refused_more_often_does_not_outdo_later_ones() -> None:
    stamps = Stamps()
    for _ in range(3):
        stamps.begin(9000)
    assert stamps.again(1, 8000) == 8000  # by the clock as it still is
    assert stamps.again(2, 1000) == 1000
    assert stamps.again(1, 1005) == 999
    assert stamps.again(3, 1005) == 1005


def test_a_stamp_is_free_again_only_if_its_publish_certainly_failed() -> None:
    stamps = Stamps()
    stamps.end(stamps.begin(5000)[0], taken=False)
    number, timestamp_ms = stamps.begin(10)
    assert timestamp_ms == 10
    stamps.end(number, taken=True)
    assert stamps.begin(10)[1] == 11


def test_while_the_wall_clock_is_refused_the_last_that_was_taken_goes_on() -> None:
    clock = StampClock()
    assert clock.now_ms(1000.0, 10.0) == 1_000_000
    clock.refused(11.0)  # nothing was taken before: there is no other
    assert clock.now_ms(5000.0, 11.0) == 5_000_000
    clock.taken(990.0)
    assert clock.now_ms(5001.0, 12.0) == 1_002_000
    assert clock.now_ms(1061.0, 71.0) == 1_061_000  # after a while it is tried again
