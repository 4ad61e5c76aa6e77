"""What a sync may ask, and how it is told."""

import json

import msgspec
import pytest
from coldnotify_common.http.web import BadRequest
from coldnotify_common.played.agent import Agent, PlayedDevice
from coldnotify_gateway.listeners.web import sync_body
from coldnotify_gateway.listeners.web.sync_body import cursor_of, show, show_end, show_line
from coldnotify_gateway.listeners.web.sync_body import parse as steps_of
from coldnotify_schemas.interests import by_channel
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.wire_pb2 import (
    RETENTION,
    SINCE_OLDEST,
    SINCE_POSITION,
    SINCE_TIME,
    CaughtUp,
    GatewayFrame,
    Message,
    Missed,
    Notification,
    Registered,
    Stream,
    Welcome,
)


def parse(said, **more):
    asked = list(steps_of(said, **more))[-1]
    return asked.device, asked.wait_s


WHO = {"domain": "d", "group": "g", "client": "c"}
AGENT = Agent(PlayedDevice("d", "g", "c", queries=("Room = 1", "has Room")))
HASHES = list(AGENT.queries)


def body(**fields):
    return msgspec.json.encode({**WHO, "registrations": ["a"], **fields})


def test_a_cursor_is_good_for_the_set_it_was_told_about_only():
    asked, _ = parse(body(), wait_s_max=60)
    agent = Agent(asked)
    assert cursor_of(agent) is None  # no epoch yet
    agent.epoch, agent.cursor = 0xABC, 41
    cursor = cursor_of(agent)
    again, wait_s = parse(body(registrations=["a", "a"], cursor=cursor, wait_s=1.5), wait_s_max=60)
    assert (again.registrations, again.epoch, again.cursor, wait_s) == (["a"], 0xABC, 41, 1.5)
    changed, _ = parse(body(registrations=["a", "b"], cursor=cursor), wait_s_max=60)
    assert (changed.epoch, changed.cursor) == (0xABC, None)
    agent.cursor = None  # the partition is empty
    empty, _ = parse(body(cursor=cursor_of(agent)), wait_s_max=60)
    assert (empty.epoch, empty.cursor) == (0xABC, None)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b"", "body: "),
        (b"[" * 100_000, "body: "),
        (b'"\xff"', "body: "),
        (msgspec.json.encode({"domain": "d"}), "group"),
        (body(registrations="a"), "registrations: "),
        (body(registrations=["a", 1]), "registrations"),
        (body(registrations=["x" * 256]), "object: "),
        (body(domain="no/name"), "domain: "),
        (body(cursor="1.2"), "cursor: "),
        (body(cursor="fffffffff.1.1"), "cursor: "),
        (body(queries="x"), "queries: "),
        (body(queries=[""]), "query: has 0 bytes"),
        (body(queries=["x" * 4097]), "query: has 4097 bytes"),
        (body(queries=[str(number) for number in range(65)]), "queries: more than 64 of them, at most 64 are taken"),
        (body(wait_s=61), "wait_s: 61 is not from 0 to 60"),
        (body(wait_s=-1), "wait_s: "),
        (body(bytes_max=1000), "bytes_max: 1000 is not from 1024 to 4194304"),
        (body(curser="x"), "curser"),
    ],
)
def test_what_is_wrong_is_named(said, words):
    with pytest.raises((BadRequest, InvalidName)) as error:
        parse(said, wait_s_max=60)
    assert words in str(error.value)


def test_what_was_found_as_json():
    assert json.loads(show(Notification(name="a/b", version=2**62, payload=b'{"fps": 5}', offset=7), AGENT)) == {
        "object": "a/b",
        "version": 2**62,
        "version_text": str(2**62),
        "payload": {"fps": 5},
    }
    assert json.loads(show(Notification(name="a", version=0, incarnation=2, deleted=True), AGENT)) == {
        "object": "a",
        "version": 0,
        "incarnation": 2,
        "deleted": True,
    }
    assert json.loads(show(Notification(name="a", answer=True), AGENT)) == {"object": "a", "version": None}
    agent = Agent(parse(body(), wait_s_max=60)[0])
    agent.refused["a"] = "no room"
    assert json.loads(b"{" + show_end(agent, 3, None, more=False) + b"}") == {
        "cursor": None,
        "in_sync": False,
        "held_s": 3,
        "age_s": None,
        "refused": {"a": "no room"},
    }


def test_on_one_line_whatever_line_breaks_a_payload_has():
    payload = b'{\r\n\n  "words": "two\\nlines",\r "a": [1,\n2]}'
    line = show_line(Notification(name="a", version=1, payload=payload), AGENT)
    assert line.splitlines() == [line]
    assert json.loads(line)["payload"] == {"words": "two\nlines", "a": [1, 2]}


def test_what_enters_and_leaves_is_said_by_the_texts():
    entered = Notification(name="a", version=3, offset=7, entered=[HASHES[0], 12345])
    assert json.loads(show(entered, AGENT)) == {"object": "a", "version": 3, "entered": ["Room = 1"]}
    left = Notification(name="a", offset=7, left=HASHES)
    assert json.loads(show(left, AGENT)) == {"object": "a", "left": ["Room = 1", "has Room"]}
    unknown = Notification(name="a", offset=7, entered=HASHES[:1])
    assert json.loads(show(unknown, AGENT)) == {"object": "a", "version": None, "entered": ["Room = 1"]}
    ends = Registered(begun=HASHES[:1], answered=HASHES[1:])
    assert json.loads(show(ends, AGENT)) == {"begun": ["Room = 1"], "answered": ["has Room"]}


def test_a_cursor_is_of_the_queries_too():
    asked, _ = parse(body(queries=["Room = 1", "Room = 1"]), wait_s_max=60)
    assert asked.queries == ["Room = 1"]
    agent = Agent(asked)
    agent.epoch, agent.cursor = 0xABC, 41
    cursor = cursor_of(agent)
    again, _ = parse(body(queries=["Room = 1"], cursor=cursor), wait_s_max=60)
    assert again.cursor == 41
    changed, _ = parse(body(queries=["Room = 2"], cursor=cursor), wait_s_max=60)
    assert changed.cursor is None


def test_channels_are_parsed_and_told():
    channels = {"tasks": "oldest", "logs": {"since": 17, "attributes": ["b", "a"]}, "old": "2026-01-31T12:00:00Z"}
    device, _ = parse(body(channels=channels), wait_s_max=60)
    found = {one.text: (one.since, one.at, list(one.attributes)) for one in device.channels.values()}
    assert found == {
        "tasks": (SINCE_OLDEST, 0, []),
        "logs": (SINCE_POSITION, 17, ["a", "b"]),
        "old": (SINCE_TIME, 1769860800000, []),
    }
    agent = Agent(device)
    tasks = by_channel("tasks").hash
    message = Message(channel=tasks, offset=5, payload=b'{"a": 1}', id="m", source="s", published_ms=9)
    assert msgspec.json.decode(show(message, agent)) == {
        "channel": "tasks", "offset": 5, "payload": {"a": 1}, "id": "m", "source": "s", "published_ms": 9,
    }  # fmt: skip
    binary = Message(channel=tasks, offset=6, payload=b"\xff")
    assert msgspec.json.decode(show(binary, agent))["payload_base64"] == "/w=="
    missed = Missed(channel=tasks, after=6, before=9, reason=RETENTION)
    shown = msgspec.json.decode(show(missed, agent))
    assert shown == {"channel": "tasks", "missed": {"after": 6, "before": 9, "reason": "retention"}}


def test_a_cursor_with_channels_comes_back_as_it_was():
    channels = {"tasks": "oldest"}
    device, _ = parse(body(channels=channels), wait_s_max=60)
    agent = Agent(device)
    agent.receive([GatewayFrame(welcome=Welcome(in_sync=True, epoch=7, streams=[Stream(epoch=9)]))])
    agent.receive([GatewayFrame(caught_up=CaughtUp(complete=3, streams=[Stream(complete=40)]))])
    again, _ = parse(body(channels=channels, cursor=cursor_of(agent)), wait_s_max=60)
    assert (again.epoch, again.cursor) == (7, 3)
    assert again.mark == agent.channels.mark()


@pytest.mark.parametrize(
    ("channels", "field"),
    [
        ({"tasks": "yesterday"}, "since"),
        ({"tasks": "2026-01-31T12:00:00"}, "since"),
        ({"tasks": -1}, "since"),
        ({"tasks": "²"}, "since"),
        ({"tasks": "٣"}, "since"),
        ({"tasks": "9" * 5000}, "since"),
        ({"tasks": str(1 << 63)}, "since"),
        ({"tasks": 1 << 63}, "since"),
        ({"tasks": {"since": "now", "attribute": []}}, "channels"),
        ({"tasks": {"attributes": ["a b"]}}, "attributes"),
        ({str(n): "now" for n in range(1001)}, "channels"),
        ({"": "now"}, "channel"),
    ],
)
def test_wrong_channels_are_named(channels, field):
    with pytest.raises((BadRequest, InvalidName), match=field):
        parse(body(channels=channels), wait_s_max=60)


@pytest.mark.parametrize("cursor", [f"1.{1 << 63}.0", f"1.2.0.1.{1 << 63}.", f"1.2.0.1.3.00000000@{1 << 63}"])
def test_a_cursor_beyond_all_offsets_is_none(cursor):
    with pytest.raises(BadRequest, match=r"^cursor: .* is none of the cursors that were told"):
        parse(body(channels={"tasks": "now"}, cursor=cursor), wait_s_max=60)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (body(registrations=["a"] * 590_000), "registrations: with queries and channels they are more than"),
        (json.dumps({**WHO, "registrations": ["a"] * 590_000}).encode(), "registrations: with queries and channels"),
        (body(registrations=["a"] * 59_000), "registrations: more than 10000 of them"),
        (body(registrations=[","] * 10_001), "registrations: more than 10000 of them"),
        (body(registrations=["a"] * 10_001), "registrations: more than 10000 of them"),
        (body(queries=["a"] * 59_000), "queries: more than 64 of them"),
        (body(channels={str(number): "now" for number in range(50_000)}), "channels: more than 1000 of them"),
        (body(channels={"c": {"since": "now", "attributes": ["a"] * 50_000}}), "channels: has more than 131072 bytes"),
        (body(channels={"c": {"attributes": ["a"] * 17_000}, "d": {"attributes": ["a"] * 17_000}}), "attributes: "),
    ],
)
def test_what_is_too_much_is_counted_and_not_looked_at(said, words, monkeypatch):
    """590,000 names took 4 s of a gateway's event loop, from anybody."""
    looked_at = []
    monkeypatch.setattr("coldnotify_gateway.listeners.web.sync_body.check_object", looked_at.append)
    if said.count(b",") > 33_760:
        monkeypatch.setattr("coldnotify_gateway.listeners.web.sync_body.msgspec.json.decode", pytest.fail)
    with pytest.raises(BadRequest) as error:
        parse(said, wait_s_max=60)
    assert words in str(error.value)
    assert looked_at == []


def test_names_may_have_as_many_commas_as_they_like():
    for end in (",", '",', '","'):
        names = [f"{number:05},{',' * 200}{end}" for number in range(10_000)]
        asked, _ = parse(body(registrations=names), wait_s_max=60)
        assert asked.registrations == names


def test_the_work_is_done_in_steps():
    steps = list(steps_of(body(registrations=[str(number) for number in range(10_000)]), wait_s_max=60))
    assert len(steps) > 10_000
    assert set(steps[:-1]) == {None}


def test_the_text_of_a_value_is_made_once_for_all_devices_unless_it_names_queries(monkeypatch):
    made = []
    real = sync_body._newest
    monkeypatch.setattr(sync_body, "_newest", lambda *args: made.append(args) or real(*args))
    frame = GatewayFrame(notification=Notification(name="a", version=1, payload=b"{}"))
    shown = {show(frame.notification, Agent(PlayedDevice("d", "g", client, ["a"]))) for client in "abc"}
    assert (len(made), len(shown)) == (1, 1)
    entered = Notification(name="a", version=1, entered=HASHES[:1])
    assert b"entered" in show(entered, AGENT)
    assert b"entered" not in show(entered, Agent(PlayedDevice("d", "g", "other", queries=("has Floor",))))
    others = [Notification(name="a", version=version) for version in range(200)]
    assert [json.loads(show(other, AGENT))["version"] for other in others] == list(range(200))
    assert len(sync_body._texts_made) <= sync_body._TEXTS_MADE_MAX
