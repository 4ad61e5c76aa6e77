"""An operator's canaries: publish and watch with --history, a dump of the topics, and what check says of them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from coldnotify_checker import HistoryWriter
from coldnotify_checker.histories import Record as DumpedRecord
from coldnotify_cli import topics_dump
from coldnotify_cli.main import cli
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.mqtt_story import MqttStory
from coldnotify_testkit.planted_bugs import Double
from coldnotify_testkit.record_batches import Batch, BatchRecord
from coldnotify_testkit.stack import Stacks, Up
from coldnotify_testkit.unreadable_batches import NO_UTF_8, loud, silent, write
from coldnotify_testkit.waiting import WAIT_S, wait_for

TOPICS = TopicNames()


def in_kafka(up: Up) -> tuple[str, str]:
    """The flags with which a command finds the stack's topics."""
    return f"--kafka={up.kafka}", f"--topics-prefix={up.topics.prefix}"


def run(*arguments: str) -> tuple[int, str]:
    """Exit code and output of the command."""
    result = CliRunner().invoke(cli, list(arguments), standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return int(result.return_value), result.output


def test_a_clean_history_and_one_that_is_not(tmp_path: Path) -> None:
    for name, bug in (("clean", None), ("broken", "tells another payload")):
        with HistoryWriter(tmp_path / name) as writer:
            for event in Double(1, bug).play():
                writer.write(event)
    assert run("check", str(tmp_path / "clean"))[0] == 0
    code, output = run("check", str(tmp_path / "broken"))
    assert code == 1
    assert "P4: " in output
    assert f"{tmp_path / 'broken'}:" in output
    assert [line.split("  ")[1] for line in output.splitlines()[:6] if line.startswith("P1")] == ["kept"]


def test_promises_for_mqtt_devices_are_listed_where_there_are_some(tmp_path: Path) -> None:
    story = MqttStory().connects("sensor").connects().subscribes("room/#").told("room/light", "red", version=1)
    with HistoryWriter(tmp_path / "devices") as writer:
        for event in story.events:
            writer.write(event)
    code, output = run("check", str(tmp_path / "devices"))
    said = {line.split()[0]: line.split()[1] for line in output.splitlines() if line[:1] == "M" and line[2] == " "}
    assert code == 1
    assert said == dict.fromkeys(("M1", "M2", "M3", "M5", "M8"), "kept") | {"M4": "violated"}


def test_the_verdict_for_programs(tmp_path: Path) -> None:
    with HistoryWriter(tmp_path / "broken") as writer:
        for event in Double(1, "tells another payload").play():
            writer.write(event)
    code, output = run("check", "--json", str(tmp_path / "broken"))
    assert code == 1
    said = json.loads(output)
    assert not said["clean"]
    assert said["promises"]["P4"]["violations"] == len(said["violations"]) > 0
    assert said["promises"]["P1"] == {
        "promise": "an acknowledged publish is not lost",
        "judged": True,
        "violations": 0,
        "note": None,
    }
    assert said["violations"][0]["promise"] == "P4"
    assert said["statistics"]["publishes"] > 0


def test_wrong_use_is_named(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="No such file"):
        run("check", str(tmp_path / "nowhere"))
    (tmp_path / "bad").write_text('{"t": 1, "event": "told"}\n')
    with pytest.raises(ValueError, match=r"bad:1: .*client"):
        run("check", str(tmp_path / "bad"))


@pytest.mark.kafka
def test_canaries_on_a_live_system(stacks: Stacks, tmp_path: Path) -> None:
    names = ("publish.jsonl", "watch.jsonl", "stays.jsonl", "dump.jsonl")
    said, seen, stayed, dumped = (str(tmp_path / name) for name in names)
    with stacks.running(tmp_path) as up:
        judge = ("check", f"--topics-prefix={up.topics.prefix}")
        host, port = up.gateway
        watch = ["watch", "canary", "g", "c", "o", "--once", "--timeout-s", "90", f"--gateway={host}:{port}"]
        watch += [f"--state={tmp_path / 'state.json'}", f"--history={seen}"]
        for version in (1, 2):
            publish = ("publish", "canary", "g", "o", f"--version={version}", '--payload={"n": 1}')
            assert run(*publish, *in_kafka(up), f"--history={said}")[0] == 0
            assert run(*watch)[0] == 0
        code, output = run("describe", "canary", "g", "o", "Room=410", "--json", f"--http={up.report['http']}")
        described = json.loads(output)
        assert (code, described["description"]) == (0, {"Room": 410})
        find = ("find", "canary", "g", "--query", "Room > 400", "--json", f"--http={up.report['http']}")
        assert json.loads(run(*find)[1]) == {"object": "o", "version": 2, "description": {"Room": 410}}
        staying = [sys.executable, "-m", "coldnotify_cli.main", "watch", "canary", "g", "stays", "o"]
        staying += [f"--gateway={host}:{port}", f"--history={stayed}"]
        with subprocess.Popen(staying, stdout=subprocess.DEVNULL) as process:
            try:
                wait_for(
                    lambda: Path(stayed).exists() and "caught_up" in Path(stayed).read_text(),
                    "the one that stays is caught up",
                )
                assert run("topics", "dump", dumped, *in_kafka(up))[0] == 0
            finally:
                process.terminate()
    records = [json.loads(line) for line in Path(dumped).read_text().splitlines()]
    (record,) = [one for one in records if str(one.get("key")).startswith("describe:")]
    assert (record["key"], record["value"]) == ("describe:canary/g/o", {"description": {"Room": 410}})
    place = {name: described[name] for name in ("partition", "offset")}
    assert {**place, "timestamp": described["version"]}.items() <= record.items()
    code, output = run(*judge, said, seen, dumped)
    assert code == 0, output
    assert "P5  not judged  registrations survive (needs --at-rest" in output
    at_rest = (*judge, "--at-rest", said, seen, stayed, dumped)
    code, output = run(*at_rest)
    assert code == 0, output
    assert "not judged" not in output
    assert "needs" not in output
    text = Path(dumped).read_text()
    Path(dumped).write_text("".join(line for line in text.splitlines(True) if "canary/g/stays/0" not in line))
    code, output = run(*at_rest)
    assert code == 1
    assert "the registrations of canary/g/stays are not what it wants; 1 missing: canary/g/o" in output
    Path(dumped).write_text(text)
    lines = Path(seen).read_text()
    assert '"version":2' in lines
    Path(seen).write_text(lines.replace('"version":2', '"version":3'))
    code, output = run(*judge, said, seen, dumped)
    assert code == 1
    assert "P4: " in output


@pytest.mark.kafka
def test_a_channel_on_a_live_system(stacks: Stacks, tmp_path: Path) -> None:
    sent, heard, dumped = (str(tmp_path / name) for name in ("sent.jsonl", "heard.jsonl", "dump.jsonl"))
    binary = tmp_path / "message"
    binary.write_bytes(b"\xff\x00")
    with stacks.running(tmp_path) as up:
        judge = ("check", f"--topics-prefix={up.topics.prefix}")
        host, port = up.gateway
        watch = ["watch", "canary", "g", "hears", "--channel=beat", "--once", "--timeout-s=90"]
        watch += [f"--gateway={host}:{port}", f"--state={tmp_path / 'state.json'}", f"--history={heard}"]
        assert run(*watch)[0] == 0
        for said in ('--payload={"n": 1}', f"--payload-file={binary}"):
            assert run("send", "canary", "g", "beat", said, *in_kafka(up), f"--history={sent}")[0] == 0
        assert run(*watch)[0] == 0

        def followed() -> bool:
            """The matcher writes how far it has followed a channel a moment behind what it has told of it."""
            Path(dumped).unlink(missing_ok=True)
            code, output = run("topics", "dump", dumped, *in_kafka(up))
            assert (code, f"{up.topics.channels_1d}  2 records\n" in output) == (0, True), output
            return any("canary/g/beat" in str(one["value"]) for one in records_of(up.topics.channels_state))

        def records_of(topic: str) -> list[dict[str, Any]]:
            lines = map(json.loads, Path(dumped).read_text().splitlines())
            return [one for one in lines if one["event"] == "record" and one["topic"] == topic]

        wait_for(followed, "the matcher's state of the channel is written")
        without = str(tmp_path / "without.jsonl")
        assert "channels" not in run("topics", "dump", without, *in_kafka(up), "--no-channels")[1]
    ids = [json.loads(line)["message"] for line in Path(sent).read_text().splitlines() if '"send"' in line]
    records = [one for one in records_of(up.topics.channels_1d) if one.get("key") == "canary/g/beat"]
    assert [one["value"] for one in records] == [{"n": 1}, {"base64": "/wA="}]
    assert [one["headers"]["id"] for one in records] == ids
    code, output = run(*judge, "--at-rest", sent, heard, dumped)
    assert (code, "needs a dump" in output) == (0, False), output
    assert "2 messages acknowledged, 2 delivered, 0 times some were missed" in output
    code, output = run(*judge, "--at-rest", sent, heard, without)
    assert (code, "P8  kept" in output, "needs a dump" in output) == (0, True, True), output
    text = Path(dumped).read_text()
    Path(dumped).write_text("".join(line for line in text.splitlines(True) if f'"id":"{ids[1]}"' not in line))
    code, output = run(*judge, "--at-rest", sent, heard, dumped)
    assert (code, f"{ids[1]} of canary/g/beat was acknowledged at 1, and no log holds it" in output) == (1, True)


@pytest.mark.kafka
def test_a_dump_has_all_that_can_be_read_and_ends(fresh_kafka: EmbeddedBroker) -> None:
    kafka, channels, key = fresh_kafka.bootstrap, TOPICS.channels_1d, b"d/g/c"
    headers = [(b"id", b"7")]
    batches = [
        Batch([BatchRecord(key, b"1", headers)]),
        loud(2),
        Batch([BatchRecord(key, b"2", [NO_UTF_8])]),
        silent(),
        loud(),
    ]
    write(kafka, channels, 1, batches)
    found = [
        one
        for one in topics_dump.read(kafka, WAIT_S, topics=TopicNames(), dumped=(channels,))
        if isinstance(one, DumpedRecord)
    ]
    assert [(one.offset, one.headers) for one in found] == [(0, {"id": "7"}), (3, {})]
