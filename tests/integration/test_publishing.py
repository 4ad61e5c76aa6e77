"""Every way to publish reaches a registered client: Python, HTTP, the command, Kafka's own console producer.

And each says what it has changed, where it has changed nothing, too.
"""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from coldnotify.publisher import NeverApplied
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

COLDNOTIFY = [sys.executable, "-m", "coldnotify_cli.main"]


def console_produce(up: Up, *lines: str) -> None:
    """Records as somebody types them: `key|value`, Kafka's default partitioner."""
    properties = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    subprocess.run(
        [
            *COLDNOTIFY,
            "kafka-tool",
            "console-producer",
            "--bootstrap-server",
            up.kafka,
            "--topic",
            up.topics.objects,
            *properties,
        ],
        input="".join(f"{line}\n" for line in lines).encode(),
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )


def post(up: Up, group: str, object_: str, record: dict[str, Any], query: str = "") -> dict[str, Any]:
    """By HTTP; it must be acknowledged."""
    url = f"{up.http_url}/v1/domains/animal.observer/groups/{group}/objects{object_ and '/' + object_}{query}"
    request = urllib.request.Request(url, json.dumps(record).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
        shown: dict[str, Any] = json.loads(answer.read())
        return shown


def test_every_way_to_publish_reaches_a_registered_client(up: Up) -> None:
    told = Recorder()
    with notify(up, "publishing", None) as ou:
        for name in ("python", "http", "command", "folder/file"):
            ou.register(name).subscribe(told)
        wait_for(lambda: len(told.seen) == 4, "all four are answered as unknown")
        assert {n.version for n in told.seen} == {None}

        with up.publisher() as publisher:
            publisher.publish("animal.observer", "region-1", "python", version=1, payload={"by": "python"})
        body = json.dumps({"version": 2, "payload": {"by": "http"}}).encode()
        url = f"{up.http_url}/v1/domains/animal.observer/groups/region-1/objects/"
        for path in ("http", "folder/file"):
            with urllib.request.urlopen(urllib.request.Request(url + path, body, method="POST"), timeout=30) as answer:
                assert json.loads(answer.read())["version"] == 2
        subprocess.run(
            [
                *COLDNOTIFY,
                "publish",
                "animal.observer",
                "region-1",
                "command",
                "--version=3",
                '--payload={"by":"cli"}',
                f"--kafka={up.kafka}",
                f"--topics-prefix={up.topics.prefix}",
            ],
            check=True,
            timeout=60,
            stdout=subprocess.DEVNULL,
        )
        wait_for(lambda: len(told.seen) == 8, "all four are told the new versions")
    assert {n.object_id: (n.version, n.payload) for n in told.seen[4:]} == {
        "python": (1, {"by": "python"}),
        "http": (2, {"by": "http"}),
        "folder/file": (2, {"by": "http"}),
        "command": (3, {"by": "cli"}),
    }


def test_a_publish_that_changes_nothing_says_so_whichever_way_it_goes(up: Up) -> None:
    """The first version is a number, the second the time: so the third, a number again, is one that nobody is told."""
    told = Recorder()
    with (
        notify(up, "styles", None, group="styles") as ou,
        up.publisher(http=up.report["http"]) as publisher,
    ):
        ou.register("o").subscribe(told)
        wait_for(lambda: told.seen, "registered")

        def publish(version: int | None, payload: object = None) -> Any:
            return publisher.publish("animal.observer", "styles", "o", payload, version=version)

        assert publish(1).outcome(timeout_s=60).outcome == "published"
        assert publish(1).outcome(timeout_s=60).outcome == "repeated"
        altered = publish(1, {"fps": 5}).outcome(timeout_s=60)
        assert (altered.outcome, altered.newest.version) == ("altered", 1)
        by_time = publish(None)
        assert by_time.applied_by(1.0, timeout_s=60) == (1, 0)
        assert post(up, "styles", "o", {"version": by_time.version})["outcome"] == "repeated"

        newest = {"version": by_time.version, "published_ms": by_time.version}
        shown = post(up, "styles", "o", {"version": 2})
        assert (shown["outcome"], shown["newest"]) == ("stale", newest)
        assert "outcome" not in post(up, "styles", "o", {"version": 2}, "?outcome=no")
        many = post(up, "styles", "", {"objects": {"p": {"version": 1}, "o": {"version": 2}}}, "?outcome=yes")
        assert [one["outcome"] for one in many["results"]] == ["published", "stale"]

        stale = publish(2)
        outcome = stale.outcome(timeout_s=60)
        assert (outcome.outcome, outcome.newest.version) == ("stale", by_time.version)
        with pytest.raises(NeverApplied, match=f"version 2: is stale: the newest is version {by_time.version}, since "):
            stale.applied_by(1.0, timeout_s=60)

        settings = {**up.in_kafka, "http": up.report["http"], "matcher": ",".join(up.report["matchers"])}
        done = coldnotify("publish", "animal.observer", "styles", "o", "--version", "2", **settings)
        assert (done.returncode, done.stdout.split()[-1]) == (1, "stale")
        assert f"the newest is version {by_time.version}, since " in done.stderr

        # And the way out, which the words name.
        reset = ("object", "reset", "animal.observer", "styles", "o", "--version", "2", "--yes")
        done = coldnotify(*reset, **settings)
        assert (done.returncode, done.stdout.split()[-1]) == (0, "published"), done.stderr
        assert publish(3).applied_by(1.0, timeout_s=60) == (1, 0)
        assert told.versions("o") == [None, 1, by_time.version, 2, 3]
        shown = post(up, "styles", "o", {"version": 2})
        assert (shown["newest"]["version"], shown["newest"]["incarnation"]) == (3, 1)


def test_a_version_that_is_outdone_while_it_is_waited_for_counts_as_applied(up: Up) -> None:
    told = Recorder()
    with (
        notify(up, "outdone", None, group="outdone") as ou,
        up.publisher(http=up.report["http"]) as publisher,
    ):
        ou.register("o").subscribe(told)
        wait_for(lambda: told.seen, "registered")
        first = publisher.publish("animal.observer", "outdone", "o", version=1)
        publisher.publish("animal.observer", "outdone", "o", version=2)
        wait_for(told.reaches("o", 2), "the newer one is told")
        assert first.applied_by(1.0, timeout_s=60) == (1, 0)
        assert first.outcome(timeout_s=60).outcome == "published"


@pytest.fixture(scope="module")
def own(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running, for what would disturb others."""
    with stacks.running(tmp_path_factory.mktemp("up"), http_look_timeout_s="2") as one:
        yield one


def test_a_publish_is_acknowledged_in_time_where_nobody_can_say_what_it_changes(own: Up) -> None:
    post(own, "away", "o", {"version": 1}, "?outcome=no")
    pid = own.report["pids"]["matcher"]
    freeze(pid)
    try:
        begin_s = time.monotonic()
        shown = post(own, "away", "o", {"version": 2})
        assert (shown["version"], shown["outcome"]) == (2, "unknown")
        assert "no answer within 2 s" in shown["reason"]
        assert 2 <= time.monotonic() - begin_s < 30
        assert "outcome" not in post(own, "away", "o", {"version": 3}, "?outcome=no")
    finally:
        thaw(pid)
    with own.publisher(http=own.report["http"]) as publisher:
        stale = publisher.publish("animal.observer", "away", "o", version=1)
        assert stale.outcome(timeout_s=60).outcome == "stale"
        # Another matcher has read the same log: it says the same.
        before = own.kill("matcher")
        own.wait_ready(other_than=before)
        assert stale.outcome(timeout_s=60).outcome == "stale"


def test_typed_into_the_console_producer_and_never_going_back(own: Up) -> None:
    """7 typed with the default partitioner is told; 6 never is; after a restart of everything 7 still is the newest."""
    first, later = Recorder(), Recorder()
    with notify(own, "first", None) as ou, own.publisher() as publisher:
        ou.register("camera-config").subscribe(first)
        ou.register("marker").subscribe(first)
        wait_for(lambda: len(first.seen) == 2, "registered")
        console_produce(own, 'animal.observer/region-1/camera-config|{"version": 7}')
        wait_for(lambda: first.newest("camera-config") == 7, "7 is told")
        # What is published behind it, and moved behind it, has been told: 6 has had its chance.
        console_produce(own, *(f'animal.observer/region-1/camera-config|{{"version": {late}}}' for late in (6, 8)))
        wait_for(lambda: first.newest("camera-config") == 8, "8 is told")
        publisher.publish("animal.observer", "region-1", "camera-config", version=5)
        publisher.publish("animal.observer", "region-1", "marker", version=1)
        wait_for(lambda: first.newest("marker") == 1, "the marker is told")
        assert first.versions("camera-config") == [None, 7, 8]
    assert own.stop() == 0
    own.start()
    with notify(own, "later", None) as ou:
        ou.register("camera-config").subscribe(later)
        wait_for(lambda: later.seen, "the new client is told")
        assert later.versions("camera-config") == [8]
