"""A unit whose clock is years ahead publishes, by each way, and others' later publishes are newer all the same."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from coldnotify_testkit.shifted_clock import ShiftedClock
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import wait_for

DOMAIN, GROUP = "animal.observer", "clocks"
TEN_YEARS_S = 10 * 365 * 86_400
HOUR_MS = 3_600_000

UNIT = """
import json, sys, time
from coldnotify import Connection, Notify, State
from coldnotify.http_publisher import HttpPublisher
from coldnotify.publisher import Publisher
way, object_, said = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
of = () if way == "session" else (said["domain"], said["group"])
if way == "session":
    host, port = said["gateway"]
    unit = Notify(said["domain"], said["group"], "unit", State(None), Connection(host, port), outbox=said["outbox"])
elif way == "http":
    unit = HttpPublisher(said["http"], outbox=said["outbox"])
else:
    unit = Publisher(said["kafka"], topics_prefix=said["topics_prefix"], outbox=said["outbox"])
made = unit.publish(*of, object_, payload={"on": True}, expires_at=round(time.time() * 1000) + 3_600_000)
print(made.version, flush=True)
sys.stdin.readline()
if way == "session":
    unit.connect()
done = made.wait(120)
print(made.version if way == "session" else done.version, flush=True)
"""


@pytest.mark.parametrize("way", ["session", "http", "kafka"])
def test_what_a_unit_in_ten_years_publishes_is_numbered_by_now(up: Up, tmp_path: Path, way: str) -> None:
    told = Recorder()
    said = {
        "domain": DOMAIN,
        "group": GROUP,
        "gateway": up.gateway,
        "http": up.http_url,
        **up.in_kafka,
        "outbox": str(tmp_path / "outbox"),
    }
    clock = ShiftedClock(tmp_path, by_s=TEN_YEARS_S)
    with notify(up, f"other-{way}", None, group=GROUP) as other, up.publisher(timeout_s=60) as publisher:
        other.register(way).subscribe(told)
        assert other.wait_caught_up(60)
        argv = [sys.executable, "-c", UNIT, way, way, json.dumps(said)]
        environ = {**os.environ, **clock.environ}
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environ, text=True) as unit:
            assert unit.stdin is not None
            assert unit.stdout is not None
            assert int(unit.stdout.readline()) > (time.time() + TEN_YEARS_S - 3600) * 1000
            if way == "kafka":
                clock.shift(0)  # Kafka refuses it until then, and does not say what time it is
            unit.stdin.write("\n")
            unit.stdin.flush()
            version = int(unit.stdout.readline())
        assert abs(version - time.time() * 1000) < HOUR_MS
        wait_for(lambda: told.newest(way) == version, "it is told")
        assert told.seen[-1].payload == {"on": True}
        later = publisher.publish(DOMAIN, GROUP, way)
        assert later.version > version
        wait_for(lambda: told.newest(way) == later.version, "and what comes after it")


def test_a_version_that_somebody_chose_is_as_it_is(up: Up) -> None:
    far = 2**62
    told = Recorder()
    with notify(up, "choosing", None, group=GROUP) as one, notify(up, "told", None, group=GROUP) as other:
        other.register("chosen").subscribe(told)
        assert other.wait_caught_up(60)
        publication = one.publish("chosen", version=far)
        assert publication is not None
        publication.wait(60)
        wait_for(lambda: told.newest("chosen") == far, "it is told")
        answer = other.publish("chosen")
        assert answer is not None
        answer.wait(60)
        assert answer.version == far + 1


def test_a_unit_is_told_that_what_it_has_published_is_stale(up: Up) -> None:
    with notify(up, "asking", None, group=GROUP) as one:
        first = one.publish("asked", version=5, payload=1)
        assert first is not None
        assert first.outcome(60).outcome == "published"
        stale = one.publish("asked", version=4)
        assert stale is not None
        outcome = stale.outcome(60)
        assert outcome.newest is not None
        assert (outcome.outcome, outcome.newest.version, outcome.in_vain) == ("stale", 5, True)
        assert outcome.newest.published_ms is not None
