"""Channels as people meet them: sent by any Kafka client, HTTP and the command line; told by unit, sync and events."""

import json
import subprocess
import sys
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Message, Missed, Notify, State
from coldnotify.http_publisher import HttpPublisher
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.server_sent_events import events_of
from coldnotify_testkit.stack import PARTITIONS, Up
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "channels.test", "region-1"
HOME = partition_of(DOMAIN, GROUP, PARTITIONS)


class Sender:
    """Sends with no library of ours."""

    def __init__(self, kafka: str, topics: TopicNames) -> None:
        self._producer, self._topics = Producer({"bootstrap.servers": kafka}), topics

    def send(self, channel: str, *payloads: object, partition: int = HOME, **headers: str) -> None:
        for payload in payloads:
            self.hand_over(f"{DOMAIN}/{GROUP}/{channel}", json.dumps(payload), partition, **headers)
        self.flush()

    def hand_over(self, key: str | None, value: str, partition: int = HOME, **headers: str) -> None:
        self._producer.produce(self._topics.channels_1d, value, key, partition, headers=list(headers.items()))

    def flush(self) -> None:
        assert self._producer.flush(WAIT_S) == 0

    def close(self) -> None:
        self._producer.close()


class Unit:
    """An application over the Python client, and what it was told."""

    def __init__(self, up: Up, client: str, state: Path, *channels: str, since: Any = "oldest", **more: Any) -> None:
        self.errors: list[Exception] = []
        connection = Connection(*up.gateway, backoff_max_s=2)
        self.notify = Notify(DOMAIN, GROUP, client, State(state), connection, on_error=self.errors.append)
        self.told: dict[str, list[Message]] = {name: [] for name in channels}
        self.missed: list[Missed] = []
        for name in channels:
            channel = self.notify.channel(name, since=since, **more)
            channel.subscribe(lambda message: self.told[message.channel].append(message), on_missed=self.missed.append)
        self.notify.connect()

    def caught_up(self) -> "Unit":
        assert self.notify.wait_caught_up(timeout_s=WAIT_S)
        return self

    def payloads(self, channel: str) -> list[Any]:
        return [message.payload for message in self.told[channel]]

    def __enter__(self) -> "Unit":
        return self

    def __exit__(self, *_: object) -> None:
        self.notify.disconnect()


@pytest.fixture(scope="module")
def sender(up: Up) -> Iterator[Sender]:
    with closing(Sender(up.kafka, up.topics)) as sender:
        yield sender


def test_every_message_is_told_live_and_after_sleep_whoever_sent_it(up: Up, sender: Sender, tmp_path: Path) -> None:
    sender.send("tasks", 0, 1)
    with Unit(up, "worker", tmp_path / "state", "tasks") as unit:
        unit.caught_up()
        wait_for(lambda: unit.payloads("tasks") == [0, 1], "what was sent before")
        HttpPublisher(up.http_url).send(DOMAIN, GROUP, "tasks", 2)
        argv = [sys.executable, "-m", "coldnotify_cli.main", "send", DOMAIN, GROUP, "tasks", "--payload", "3"]
        in_kafka = (f"--kafka={up.kafka}", f"--topics-prefix={up.topics.prefix}")
        subprocess.run([*argv, *in_kafka], check=True, capture_output=True, timeout=2 * WAIT_S)
        sender.send("tasks", 4, 5, 6)
        wait_for(lambda: len(unit.told["tasks"]) >= 7, "what is sent live")
        assert unit.payloads("tasks") == list(range(7))
        previous = [message.previous for message in unit.told["tasks"]]
        assert previous[1:] == [message.offset for message in unit.told["tasks"]][:-1]
    sender.send("tasks", 7, 8)
    sender.send("tasks", 9, partition=(HOME + 1) % PARTITIONS)  # moved home by whoever owns that partition
    with Unit(up, "worker", tmp_path / "state", "tasks") as unit:
        unit.caught_up()
        wait_for(lambda: len(unit.told["tasks"]) >= 3, "what was sent meanwhile")
        assert unit.payloads("tasks") == [7, 8, 9]
        assert not unit.missed
        assert not unit.errors
    with Unit(up, "worker", tmp_path / "state", "tasks") as unit:
        unit.caught_up()
        assert unit.payloads("tasks") == []


def test_where_a_subscription_begins(up: Up, sender: Sender, tmp_path: Path) -> None:
    sender.send("news", *range(5))
    with (
        Unit(up, "reader-1", tmp_path / "one", "news") as all_,
        Unit(up, "reader-2", tmp_path / "two", "news", since="newest") as newest,
        Unit(up, "reader-3", tmp_path / "three", "news", since="now") as now,
    ):
        for unit in (all_, newest, now):
            unit.caught_up()
        wait_for(lambda: len(all_.told["news"]) == 5, "all that is there")
        behind = all_.told["news"][2].position
        with Unit(up, "reader-4", tmp_path / "four", "news", since=behind) as later:
            later.caught_up()
            sender.send("news", 5)
            units = (all_, newest, now, later)
            wait_for(lambda: all(unit.payloads("news")[-1:] == [5] for unit in units), "what is sent now")
            assert all_.payloads("news") == [0, 1, 2, 3, 4, 5]
            assert newest.payloads("news") == [4, 5]
            assert now.payloads("news") == [5]
            assert later.payloads("news") == [3, 4, 5]


def test_only_for_some_and_once_and_not_too_late(up: Up, sender: Sender, tmp_path: Path) -> None:
    sender.send("jobs", "for cameras", to="camera,solar")
    sender.send("jobs", "for wind", to="wind")
    sender.send("jobs", "for all", id="one")
    sender.send("jobs", "for all", id="one")
    sender.send("jobs", "too late", expires_at="1000")
    sender.send("jobs", "the end")
    with Unit(up, "camera", tmp_path / "state", "jobs", attributes={"camera"}) as unit:
        unit.caught_up()
        wait_for(lambda: unit.payloads("jobs")[-1:] == ["the end"], "the last one")
        assert unit.payloads("jobs") == ["for cameras", "for all", "the end"]
        assert [one.reason for one in unit.missed] == ["EXPIRED"]


def test_killed_services_lose_no_message_and_tell_none_twice(up: Up, sender: Sender, tmp_path: Path) -> None:
    with Unit(up, "patient", tmp_path / "state", "beats") as unit:
        unit.caught_up()
        sent = 0
        for part in ("matcher", "gateway", "matcher"):
            sender.send("beats", *range(sent, sent + 10))
            pids = up.kill(part)
            sender.send("beats", *range(sent + 10, sent + 20))
            sent += 20
            up.wait_ready(other_than=pids)
        sender.send("beats", sent)
        wait_for(lambda: unit.payloads("beats")[-1:] == [sent], "the last one")
        assert unit.payloads("beats") == list(range(sent + 1))
        assert not unit.missed


def test_a_dashboard_hears_channels_that_did_not_exist(up: Up, sender: Sender, tmp_path: Path) -> None:
    with Unit(up, "dashboard", tmp_path / "state") as unit:
        told: list[Message] = []
        dashboard = unit.notify.channels(pattern="^alarms/[^/]*/high$")
        dashboard.subscribe(told.append, on_missed=unit.missed.append)
        unit.caught_up()
        sent = 0
        for part in ("matcher", "gateway", "matcher"):
            pids: dict[str, int] = {}
            for _ in range(2):
                for name in (
                    f"alarms/unit-{sent}/high",
                    "alarms/unit-0/high",
                    f"alarms/unit-{sent}/low",
                    "alarms/high",
                ):
                    sender.send(name, sent)
                    sent += 1
                pids = pids or up.kill(part)
            up.wait_ready(other_than=pids)
        sender.send("alarms/last/high", sent)
        wait_for(lambda: [one.payload for one in told[-1:]] == [sent], "the last one")
        high = [
            (name, n)
            for n in range(0, sent, 4)
            for name, n in ((f"alarms/unit-{n}/high", n), ("alarms/unit-0/high", n + 1))
        ]
        assert [(one.channel, one.payload) for one in told] == [*high, ("alarms/last/high", sent)]
        assert not unit.missed
    sender.send("alarms/asleep/high", "a")
    with Unit(up, "dashboard", tmp_path / "state") as unit:
        slept: list[Message] = []
        unit.notify.channels(pattern="^alarms/[^/]*/high$").subscribe(slept.append)
        unit.caught_up()
        wait_for(lambda: bool(slept), "what came in sleep")
        assert [(one.channel, one.payload, one.previous) for one in slept] == [
            ("alarms/asleep/high", "a", told[-1].offset)
        ]
        assert not unit.missed
        assert not unit.errors


def test_a_pattern_that_is_refused_says_why(up: Up, tmp_path: Path) -> None:
    with Unit(up, "wrong-pattern", tmp_path / "state") as unit:
        unit.notify.channels(pattern="alarms/(")
        wait_for(lambda: bool(unit.errors), "the refusal")
        assert "expected a regular expression as RE2 has it: missing )" in str(unit.errors[0])


def test_what_is_gone_is_missed_with_the_reason(up: Up, sender: Sender, tmp_path: Path) -> None:
    sender.send("logs", *range(10))
    with Unit(up, "away", tmp_path / "state", "logs") as unit:
        unit.caught_up()
        wait_for(lambda: len(unit.told["logs"]) == 10, "the first ten")
        last = unit.told["logs"][-1].offset
    sender.send("logs", *range(10, 20))
    admin = AdminClient({"bootstrap.servers": up.kafka})
    (removed,) = admin.delete_records([TopicPartition(up.topics.channels_1d, HOME, last + 6)]).values()
    assert removed.result(WAIT_S).low_watermark == last + 6
    pids = up.kill("matcher")  # what it has in memory could still be told
    up.wait_ready(other_than=pids)
    with Unit(up, "away", tmp_path / "state", "logs") as unit:
        unit.caught_up()
        wait_for(lambda: unit.payloads("logs")[-1:] == [19], "the last one")
        told = unit.payloads("logs")
        assert told == list(range(20 - len(told), 20))
        if len(told) < 10:
            (missed,) = unit.missed
            assert (missed.after, missed.before, missed.reason) == (last, last + 6, "RETENTION")
            assert told[0] == 15


def test_many_channels_from_far_behind(up: Up, sender: Sender, tmp_path: Path) -> None:
    names = [f"sensor-{number}" for number in range(20)]
    for round_ in range(100):
        for name in names:
            sender.hand_over(f"{DOMAIN}/{GROUP}/{name}", json.dumps([round_]))
    sender.send("sensor-0", ["end"])
    with Unit(up, "archive", tmp_path / "state", *names) as unit:
        unit.caught_up()
        wait_for(lambda: unit.payloads("sensor-0")[-1:] == [["end"]], "the last one")
        wait_for(lambda: sum(map(len, unit.told.values())) == 2001, "all")
        assert all(unit.payloads(name)[:100] == [[round_] for round_ in range(100)] for name in names)
        assert not unit.missed


def sync(up: Up, client: str, **more: object) -> dict[str, Any]:
    asked = {"domain": DOMAIN, "group": GROUP, "client": client, "registrations": [], **more}
    request = urllib.request.Request(
        f"{up.http_url}/v1/sync", json.dumps(asked).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as response:
        answer: dict[str, Any] = json.loads(response.read())
    return answer


def payloads(answer: dict[str, Any]) -> list[Any]:
    return [one["payload"] for one in answer["notifications"] if "payload" in one]


def test_a_device_that_wakes_by_sync(up: Up, sender: Sender) -> None:
    sender.send("orders", 0, 1)
    channels = {"orders": "oldest"}
    answer = sync(up, "sleeper", channels=channels)
    assert payloads(answer) == [0, 1]
    assert payloads(sync(up, "sleeper", channels=channels)) == [0, 1], "nothing counts as applied without the cursor"
    sender.send("orders", 2)
    sender.send("notes", "n")
    channels["notes"] = "newest"
    answer = sync(up, "sleeper", channels=channels, cursor=answer["cursor"])
    assert payloads(answer) == [2, "n"]
    cursor = answer["cursor"]
    answer = sync(up, "sleeper", channels=channels, cursor=cursor)
    assert (payloads(answer), answer["in_sync"]) == ([], True)
    sender.send("orders", 3)
    assert payloads(sync(up, "sleeper", channels=channels, cursor=answer["cursor"], wait_s=5)) == [3]


def test_patterns_by_sync_events_and_the_command_line(up: Up, sender: Sender, tmp_path: Path) -> None:
    sender.send("doors/1/open", 0)
    asked: dict[str, Any] = {
        "patterns": {"^doors/[^/]*/open$": "oldest", "^doors/": {"since": "oldest", "attributes": ["x"]}}
    }
    asked["channels"] = {"doors/2/open": "oldest"}
    answer = sync(up, "by-pattern", **asked)
    told = [(one["channel"], one.get("pattern"), one["payload"]) for one in answer["notifications"]]
    first = ("doors/1/open", "^doors/[^/]*/open$", 0), ("doors/1/open", "^doors/", 0)
    assert sorted(told, key=str) == sorted(first, key=str)
    sender.send("doors/2/open", 1)
    answer = sync(up, "by-pattern", **asked, cursor=answer["cursor"])
    assert payloads(answer) == [1, 1, 1], "by each registration once"
    assert payloads(sync(up, "by-pattern", **asked, cursor=answer["cursor"])) == []
    answer = sync(up, "by-pattern", patterns={"(": "now"}, cursor=answer["cursor"])
    assert answer["refused"]["("].startswith("pattern: expected a regular expression")

    with events(up, "doors/2/open", pattern="^doors/") as told_page:
        both = list(islice((one for one in told_page if "payload" in one[1]), 3))
    assert [(data["channel"], data["payload"]) for _, data in both] == [("doors/1/open", 0), *[("doors/2/open", 1)] * 2]
    with events(up, "doors/2/open", both[1][0], pattern="^doors/") as told_page:
        sender.send("doors/3/open", 2)
        again = list(islice((one for one in told_page if "payload" in one[1]), 2))
    assert [data["payload"] for _, data in again] == [1, 2], "the one that was told is not told again"

    shown = subprocess.run(
        [sys.executable, "-m", "coldnotify_cli.main", "watch", DOMAIN, GROUP, "by-hand", "--channels", "doors/",
         "--pattern", "^doors/1/", "--since", "oldest", "--once", "--gateway", ":".join(map(str, up.gateway))],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )  # fmt: skip
    lines = [line.partition("  ")[0] for line in shown.stdout.splitlines()]
    assert (shown.returncode, sorted(lines)) == (0, ["doors/1/open", *sorted(f"doors/{n}/open" for n in (1, 2, 3))]), (
        shown
    )


@contextmanager
def events(up: Up, channel: str, last: str | None = None, **more: str) -> Iterator[Iterator[tuple[str | None, Any]]]:
    """What a page is told, as (id, data)."""
    asked = urllib.parse.urlencode({"domain": DOMAIN, "group": GROUP, "channel": channel, "since": "oldest", **more})
    request = urllib.request.Request(
        f"{up.http_url}/v1/events?{asked}", headers={"Last-Event-ID": last} if last else {}
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as response:
        yield ((event.id, event.data) for event in events_of(response))


def test_a_page_goes_on_behind_the_last_event(up: Up, sender: Sender) -> None:
    sender.send("feed", "a", "b")
    with events(up, "feed") as told:
        (_, first), (second_id, second) = next(told), next(told)
        assert (first["payload"], second["payload"]) == ("a", "b")
        assert next(told) == (None, {})  # caught up
        sender.send("feed", "c")
        assert next(told)[1]["payload"] == "c"
    with events(up, "feed", second_id) as told:
        assert next(told)[1]["payload"] == "c"


def test_what_is_no_message_is_set_aside_and_stops_nothing(up: Up, sender: Sender, tmp_path: Path) -> None:
    sender.hand_over("nonsense", "x")
    sender.hand_over(None, "x")
    sender.send("odd", "bad header", expires_at="soon")
    sender.send("odd", "x" * 70_000)
    sender.send("odd", "good")
    with Unit(up, "careful", tmp_path / "state", "odd") as unit:
        unit.caught_up()
        wait_for(lambda: unit.payloads("odd")[-1:] == ["good"], "the good one")
        assert unit.payloads("odd") == ["good"]


def test_watched_from_the_command_line_and_judged(up: Up, tmp_path: Path) -> None:
    """What `send` and `watch` note is a history that is kept; without one message of it, it is not."""
    at, state = ":".join(map(str, up.gateway)), tmp_path / "state"
    sent, seen = tmp_path / "sent.jsonl", tmp_path / "seen.jsonl"

    def call(*argv: str) -> subprocess.CompletedProcess[str]:
        argv = (sys.executable, "-m", "coldnotify_cli.main", *argv)
        return subprocess.run(argv, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)

    def send(*more: str) -> None:
        run = call("send", DOMAIN, GROUP, "seen", *more, f"--kafka={up.kafka}", f"--topics-prefix={up.topics.prefix}",
                   f"--history={sent}")  # fmt: skip
        assert run.returncode == 0, run.stderr

    def watch(*more: str) -> list[str]:
        about = ("watch", DOMAIN, GROUP, "viewer", "--channel=seen", "--since=oldest", "--attribute=camera", "--once")
        options = (f"--gateway={at}", f"--state={state}", f"--history={seen}", f"--timeout-s={WAIT_S:g}")
        run = call(*about, *options, *more)
        assert run.returncode == 0, run.stderr
        return run.stdout.splitlines()

    send("--payload", '{"look": "north"}', "--id=first")
    send("--payload", "2", "--to=solar")
    send("--payload", "3", "--to=camera")
    assert [line.split("  ")[::2] for line in watch()] == [["seen", '{"look": "north"}'], ["seen", "3"]]
    send("--payload", "4", "--expires-at", "1")
    send("--payload", "5", "--id=last")
    missed, told = map(json.loads, watch("--json"))
    assert missed["missed"]["reason"] == "expired"
    assert (told["payload"], told["id"], told["previous"]) == (5, "last", missed["missed"]["before"] - 1)
    assert watch() == []
    check = call("check", str(sent), str(seen))
    assert check.returncode == 0, check.stdout
    seen.write_text("".join(line for line in seen.read_text().splitlines(True) if '"last"' not in line))
    check = call("check", str(sent), str(seen))
    assert check.returncode == 1
    assert "P8: " in check.stdout


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--since", "oldest", "object"], "--since and --attribute: need a --channel"),
        (["--channel", "c", "--since", "soon"], "--since: 'soon'"),
        (["--channel", "c", "--since", "2026-01-01T00:00:00"], "--since: "),
        (["--channel", "c", "--attribute", "a b"], "--attribute: 'a b'"),
        (["--channel", ""], "--channel: "),
    ],
)
def test_a_wrong_channel_to_watch_names_the_option(options: list[str], words: str) -> None:
    argv = [sys.executable, "-m", "coldnotify_cli.main", "watch", DOMAIN, GROUP, "c", *options]
    run = subprocess.run(argv, capture_output=True, text=True, timeout=2 * WAIT_S, check=False)
    assert run.returncode == 2, run.stderr
    assert words in run.stderr
