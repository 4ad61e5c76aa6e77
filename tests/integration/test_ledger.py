"""The delivery ledger with everything real: who lacks a version, why, and a publisher that waits until it is there."""

import json

import pytest
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for

DOMAIN, GROUP = "animal.observer", "ledger"


def asked(up: Up, command: str, *arguments: str) -> str:
    done = coldnotify(command, DOMAIN, GROUP, *arguments, http=up.report["http"])
    assert done.returncode == 0, done.stderr
    return done.stdout


def lackers(up: Up, *arguments: str) -> list[str]:
    lines = asked(up, "who-lacks", "camera", "--json", *arguments).splitlines()
    return [json.loads(line)["client"] for line in lines[1:]]


def test_the_one_that_sleeps_is_named_and_then_nobody(up: Up, tmp_path) -> None:
    with up.publisher(http=up.report["http"]) as publisher:
        first = publisher.publish(DOMAIN, GROUP, "camera", version=1)
        told = {name: Recorder() for name in ("oslo", "tromso")}
        clients = {name: notify(up, name, tmp_path / name, group=GROUP) for name in told}
        try:
            for name, client in clients.items():
                client.register("camera").subscribe(told[name])
                client.connect()
            wait_for(lambda: all(one.newest("camera") == 1 for one in told.values()), "both have the first version")
            assert first.applied_by(2, timeout_s=WAIT_S) == (2, 0)
            assert lackers(up) == []
            clients["tromso"].disconnect()
            second = HttpPublisher(up.http_url).publish(DOMAIN, GROUP, "camera", version=2)
            assert second.outcome(WAIT_S).outcome == "published"
            second.applied_by(0.5, timeout_s=WAIT_S)
            wait_for(lambda: lackers(up) == ["tromso"], "the one that sleeps is named")
            with pytest.raises(TimeoutError, match=r"1 of 2 registered clients .* 1 lack it: tromso$"):
                second.applied_by(1.0, timeout_s=3)

            assert "camera version 2 " in asked(up, "who-lacks", "camera")
            assert "1 of 2 lack it, 1 of them asleep" in asked(up, "who-lacks", "camera")
            assert lackers(up, "--version", "1") == []
            assert lackers(up, "--version", "3") == ["oslo", "tromso"]
            assert "camera: asleep: it is not connected" in asked(up, "explain", "tromso", "camera")
            oslo = json.loads(asked(up, "explain", "oslo", "camera", "--json"))
            assert (oslo["verdict"], oslo["gateways_silent"]) == ("applied", [])
            assert {"publish", "match", "gateway", "acknowledgement"} == {one["step"] for one in oslo["timeline"]}

            clients["tromso"] = notify(up, "tromso", tmp_path / "tromso", group=GROUP)
            clients["tromso"].register("camera").subscribe(told["tromso"])
            clients["tromso"].connect()
            assert second.applied_by(1.0, timeout_s=WAIT_S).registered == 2
            assert lackers(up) == []
            wait_for(lambda: "tromso: complete" in asked(up, "explain", "tromso"), "it lacks nothing")
        finally:
            for client in clients.values():
                client.disconnect()
