"""Four processes count with one object: each increment is accepted once, and none is lost, over a kill -9 of HTTP."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from coldnotify.http_publisher import HttpPublisher, VersionConflict
from coldnotify_checker import HistoryWriter, judge, now_us, read_histories
from coldnotify_checker.histories import Publish, Published
from coldnotify_testkit.stack import Up, get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.stack
DOMAIN, GROUP, COUNTER = "animal.observer", "four-writers", "counter"
WRITERS = 4
INCREMENTS = 250
"""Each writer's. Those of all take some 13 s on two idle cores; 2,500 each, 132 s."""
CALL_S = 300.0
"""A publish is sent again with its id until its outcome is known. Each writer gives up behind that."""


def count(url: str, name: str, path: Path, increments: int) -> None:
    """Adds 1 to the number that the object's payload is, so often. A refusal says which number is the newest: it is the
    version, too."""
    publisher = HttpPublisher(url, timeout_s=CALL_S)
    newest = 0
    with HistoryWriter(path) as history:
        for number in range(increments):
            while True:
                call: dict[str, Any] = {"publisher": name, "id": f"{number}-{newest}"}
                said: dict[str, Any] = {"payload": newest + 1, "if_version": newest}
                history.write(Publish(t=now_us(), object=f"{DOMAIN}/{GROUP}/{COUNTER}", **said, **call))
                try:
                    version = publisher.publish(DOMAIN, GROUP, COUNTER, **said).version
                except VersionConflict as conflict:
                    newest = -1 if conflict.newest is None else conflict.newest.version
                    history.write(Published(t=now_us(), outcome="failed", lost=True, newest=newest, **call))
                    continue
                newest = version
                history.write(Published(t=now_us(), outcome="acknowledged", version=version, **call))
                break


def test_as_many_increments_are_counted_as_were_accepted(up: Up, tmp_path: Path) -> None:
    call: dict[str, Any] = {"publisher": "first", "id": 0}
    with HistoryWriter(tmp_path / "first") as history:
        history.write(Publish(t=now_us(), object=f"{DOMAIN}/{GROUP}/{COUNTER}", payload=0, version=0, **call))
        HttpPublisher(up.http_url, timeout_s=CALL_S).publish(DOMAIN, GROUP, COUNTER, payload=0, version=0)
        history.write(Published(t=now_us(), outcome="acknowledged", version=0, **call))
    paths = [tmp_path / f"writer-{number}" for number in range(WRITERS)]
    argv = [sys.executable, __file__, up.http_url]
    writers = [subprocess.Popen([*argv, path.name, str(path), str(INCREMENTS)]) for path in paths]
    shown = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{COUNTER}"
    try:
        wait_for(lambda: get_json(shown)["payload"] >= WRITERS * INCREMENTS // 3, "a third is counted", 600)
        pids = up.kill("http")
        assert not any(writer.poll() is not None for writer in writers)
        up.wait_ready(other_than=pids)
        for writer in writers:
            assert writer.wait(600) == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    newest = get_json(shown)
    assert (newest["payload"], newest["version"]) == (WRITERS * INCREMENTS, WRITERS * INCREMENTS)
    verdict = judge(read_histories([tmp_path / "first", *paths]))
    assert verdict.clean, verdict
    assert verdict.statistics.decided >= WRITERS * INCREMENTS


if __name__ == "__main__":
    count(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
