"""A raw member: what its application is told stands in its history, as of one over the library."""

import json
from pathlib import Path
from typing import Any

from coldnotify.testing import FakeService
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.raw_member import RawMember
from coldnotify_fault.schedule import QUERIES
from coldnotify_testkit.waiting import wait_for

DOMAIN, GROUP = "camera.control", "north"
NAME = f"{DOMAIN}/{GROUP}/ou-1"
CHANNEL = {"channel": "orders", "since": "now", "attributes": []}


def test_a_raw_member_records_what_it_is_told_and_does(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"

    def of(event: str) -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        return [line for line in lines if line["event"] == event]

    with FakeService() as service:
        service.publish(DOMAIN, GROUP, "config", {"fps": 5}, version=3)
        service.enter(DOMAIN, GROUP, QUERIES[0], "lamp-1")
        member = RawMember(NAME, [f"127.0.0.1:{service.port}"], tmp_path / "state.json", HistoryFile(path))
        member.do(
            {
                "do": "start",
                "life": 0,
                "wanted": ["config"],
                "queries": [QUERIES[0]],
                "channels": [CHANNEL],
                "client": NAME,
            }
        )
        member.do({"do": "connect"})
        wait_for(lambda: bool(of("caught_up")))
        assert [(one["object"], one["version"], one["payload"]) for one in of("told")] == [
            (f"{DOMAIN}/{GROUP}/config", 3, {"fps": 5})
        ]
        assert [(one["query"], one["added"]) for one in of("members")] == [(QUERIES[0], ["lamp-1"])]
        member.do({"do": "fail_next_callback"})
        sent = {"message": "m1", "payload": {"number": 1}, "to": [], "channel": f"{DOMAIN}/{GROUP}/orders"}
        member.do({"do": "send_by_client", "priority": None, **sent})
        wait_for(lambda: len(of("message")) == 2)
        assert [(one["message"], one.get("failed", False)) for one in of("message")] == [("m1", True), ("m1", False)]
        wait_for(lambda: [one["outcome"] for one in of("published")] == ["acknowledged"])
        for command in ("disconnect", "connect", "disconnect"):
            member.do({"do": command})
        wait_for(lambda: len(of("stopped")) == 2)
        lines = [json.loads(line)["event"] for line in path.read_text().splitlines()]
        assert lines[lines.index("stopped") :] == ["stopped", "connecting", "stopped"]
