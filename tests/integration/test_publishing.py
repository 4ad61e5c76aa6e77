"""Every way to publish reaches a registered client: Python, HTTP, the command, Kafka's own console producer."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from coldnotify.publisher import Publisher
from coldnotify_cli.testing_up import Recorder, Up, notify, running, wait_for

pytestmark = pytest.mark.kafka

COLDNOTIFY = [sys.executable, "-m", "coldnotify_cli.main"]


def console_produce(up: Up, line: str) -> None:
    """A record as somebody types it: `key|value`, Kafka's default partitioner."""
    properties = ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    subprocess.run(
        [
            *COLDNOTIFY,
            "kafka-tool",
            "console-producer",
            "--bootstrap-server",
            up.kafka,
            "--topic",
            "coldnotify.objects",
            *properties,
        ],
        input=f"{line}\n".encode(),
        check=True,
        timeout=120,
        stdout=subprocess.DEVNULL,
    )


def test_every_way_to_publish_reaches_a_registered_client(up: Up) -> None:
    told = Recorder()
    with notify(up, "publishing", None) as ou:
        for name in ("python", "http", "command", "folder/file"):
            ou.register(name).subscribe(told)
        wait_for(lambda: len(told.seen) == 4, "all four are answered as unknown")
        assert {n.version for n in told.seen} == {None}

        with Publisher(kafka=up.kafka) as publisher:
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


def test_typed_into_the_console_producer_and_never_going_back(tmp_path: Path) -> None:
    """7 typed with the default partitioner is told; 6 never is; after a restart of everything 7 still is the newest."""
    first, later = Recorder(), Recorder()
    with running(tmp_path) as up:
        with notify(up, "first", None) as ou, Publisher(kafka=up.kafka) as publisher:
            ou.register("camera-config").subscribe(first)
            ou.register("marker").subscribe(first)
            wait_for(lambda: len(first.seen) == 2, "registered")
            console_produce(up, 'animal.observer/region-1/camera-config|{"version": 7}')
            wait_for(lambda: first.newest("camera-config") == 7, "7 is told")
            console_produce(up, 'animal.observer/region-1/camera-config|{"version": 6}')
            # What is published behind it, and moved behind it, has been told: 6 has had its chance.
            console_produce(up, 'animal.observer/region-1/camera-config|{"version": 8}')
            wait_for(lambda: first.newest("camera-config") == 8, "8 is told")
            publisher.publish("animal.observer", "region-1", "camera-config", version=5)
            publisher.publish("animal.observer", "region-1", "marker", version=1)
            wait_for(lambda: first.newest("marker") == 1, "the marker is told")
            assert first.versions("camera-config") == [None, 7, 8]
        assert up.stop() == 0
        up.start()
        with notify(up, "later", None) as ou:
            ou.register("camera-config").subscribe(later)
            wait_for(lambda: later.seen, "the new client is told")
            assert later.versions("camera-config") == [8]
