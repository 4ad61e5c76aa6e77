"""MQTT devices lack what the checker would say at the end, and what keeps it from judging."""

from pathlib import Path

from coldnotify_checker.histories import HistoryWriter
from coldnotify_fault.mqtt_rest import lacking
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.mqtt_story import GROUP, MqttStory

PANEL = f"{GROUP}/panel"


def found(tmp_path: Path, story: MqttStory, filters: frozenset[str] = frozenset({"room/#"})) -> list[str]:
    file = tmp_path / "history.jsonl"
    file.unlink(missing_ok=True)
    with HistoryWriter(file) as writer:
        for event in story.events:
            writer.write(event)
    return list(lacking(TopicNames(), [file, tmp_path / "missing.jsonl"], [], {PANEL: set(filters)}))


def test_a_device_with_everything_lacks_nothing(tmp_path: Path) -> None:
    story = MqttStory().connects().subscribes("room/#").connects("sensor").retains("room/light", 1)
    assert [one.partition(":")[0] for one in found(tmp_path, story)] == ["M2"]
    story.told("room/light", 1)
    assert found(tmp_path, story) == []
    story.publishes("room/bell", 2)
    assert [one.partition(":")[0] for one in found(tmp_path, story)] == ["M8"]


def test_a_device_that_cannot_be_judged_lacks_that(tmp_path: Path) -> None:
    story = MqttStory().connects().subscribes("room/#")
    assert found(tmp_path, story, frozenset({"room/#", "mixed"})) == [f"{PANEL} was not granted ['mixed']"]
    assert found(tmp_path, story, frozenset()) == [], "of a filter that it has forgotten"
    story.publishes("room/bell", 2, "panel", code=None)
    assert found(tmp_path, story) == [f"{PANEL} waits for 1 acknowledgements"]
    story.ends("crash")
    assert found(tmp_path, story) == [f"{PANEL} is not connected"]


def test_nobody_lacks_nothing(tmp_path: Path) -> None:
    assert list(lacking(TopicNames(), [], [], {})) == []
