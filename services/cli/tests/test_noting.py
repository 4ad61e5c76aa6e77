"""What `send` and `watch` note of channels, and what `coldnotify check` makes of it."""

from pathlib import Path

import pytest
from coldnotify import Message, Missed, MissedReason
from coldnotify.publisher import PublishError
from coldnotify_checker.histories import (
    Event,
    MessageTold,
    Published,
    Send,
    Subscribe,
    Unsubscribe,
    read_histories,
    read_lines,
)
from coldnotify_checker.judging import judge
from coldnotify_cli.noting import Notes, message_payload, noted_send

CHANNEL = "d/g/tasks"


def send(path: Path, message: str, said: object, offset: int) -> None:
    with noted_send(path, CHANNEL, message, said) as answer:
        answer(offset)


def watch(path: Path, *told: int, since: str = "oldest", attributes: tuple[str, ...] = ()) -> list[str]:
    with Notes(path, "d", "g", "c", (), keeps_state=True) as notes:
        dropped = notes.channels(["tasks"], attributes, since)
        notes.connecting()
        for offset in told:
            notes.message(Message("tasks", offset, offset, None, data=str(offset).encode(), id=f"m{offset}"))
        notes.caught_up()
        notes.stopped()
    return dropped


def events_of(path: Path, *kinds: type[Event]) -> list[Event]:
    return [event for event in read_lines(path) if isinstance(event, kinds)]


def test_undelivered_messages_are_found(tmp_path: Path) -> None:
    sent, seen = tmp_path / "sent", tmp_path / "seen"
    for told in ((0, 1), (2, 3)):
        for number in told:
            send(sent, f"m{number}", number, number)
        watch(seen, *told)
    events = read_histories([sent, seen])
    assert judge(events).clean
    (subscribed,) = events_of(seen, Subscribe)
    assert isinstance(subscribed, Subscribe)
    assert (subscribed.channel, subscribed.since) == (CHANNEL, "oldest")
    events = [event for event in events if not (isinstance(event, MessageTold) and event.offset == 2)]
    assert [violation.promise for violation in judge(events).violations] == ["P8"]


def test_other_attributes_are_another_subscription_and_begin_where_it_is(tmp_path: Path) -> None:
    watch(tmp_path / "seen")
    assert watch(tmp_path / "seen", attributes=("solar", "camera")) == []
    _, ended, begun = events_of(tmp_path / "seen", Subscribe, Unsubscribe)
    assert isinstance(ended, Unsubscribe)
    assert isinstance(begun, Subscribe)
    assert (begun.attributes, begun.since) == (["camera", "solar"], "now")


def test_a_channel_that_is_named_no_more_is_unsubscribed(tmp_path: Path) -> None:
    watch(tmp_path / "seen", since="00000001.17")
    with Notes(tmp_path / "seen", "d", "g", "c", (), keeps_state=True) as notes:
        assert notes.channels([], (), "now") == ["tasks"]
        notes.missed(Missed("tasks", 1, 5, MissedReason.EXPIRED))
    begun, ended = events_of(tmp_path / "seen", Subscribe, Unsubscribe)
    assert isinstance(begun, Subscribe)
    assert begun.since == 17
    assert isinstance(ended, Unsubscribe)
    assert '"reason":"expired"' in (tmp_path / "seen").read_text()


def test_a_send_that_fails_says_so(tmp_path: Path) -> None:
    with pytest.raises(PublishError), noted_send(tmp_path / "sent", CHANNEL, "m", b"\xff", to=["camera"]):
        raise PublishError("no", indeterminate=True)
    begun, answer = read_lines(tmp_path / "sent")
    assert isinstance(begun, Send)
    assert (begun.payload, begun.to) == ({"base64": "/w=="}, ["camera"])
    assert isinstance(answer, Published)
    assert answer.outcome == "unknown"


def test_no_file_is_no_history(tmp_path: Path) -> None:
    with noted_send(None, CHANNEL, "m", 1) as answer:
        answer(1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("data", "payload"), [(b"1.5", 1.5), (b"NaN", {"base64": "TmFO"}), (b"", {"base64": ""})])
def test_payloads_are_what_they_say(data: bytes, payload: object) -> None:
    assert message_payload(data) == payload
