"""Shares in a sync: what a request may say of them, and how they are told.

Stands for: sync_since
"""

import json
from typing import Any

import msgspec
import pytest
from coldnotify_common.http.web import BadRequest
from coldnotify_common.played.agent import Agent, PlayedDevice
from coldnotify_common.played.agent_shares import LeaseName
from coldnotify_gateway.listeners.web.portion import Portion
from coldnotify_gateway.listeners.web.sync_body import cursor_of, parse
from coldnotify_gateway.listeners.web.sync_shares import SHARES_MAX, show_shares
from coldnotify_schemas.interests import by_share
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.wire_pb2 import (
    HELD_BACK,
    HELD_BEGUN,
    HELD_DONE,
    HELD_REJECTED,
    HELD_WAITS,
    KINDS_SHARES,
    RETENTION,
    SINCE_OLDEST,
    CaughtUp,
    GatewayFrame,
    Leases,
    LostLeases,
    Message,
    Missed,
    Notification,
    Refusal,
    Welcome,
)

pytestmark = pytest.mark.pure

SHARE = by_share("workers", "tasks", ["a", "b"]).hash
TASKS = {"channel": "tasks", "share": "workers", "attributes": ["b", "a"], "since": "oldest"}


def device(*shares: object, **more: Any) -> PlayedDevice:
    body = {"domain": "d", "group": "g", "client": "c", "registrations": ["o"], "shares": shares, **more}
    steps = list(parse(msgspec.json.encode(body), wait_s_max=60))
    assert steps[-1] is not None
    return steps[-1].device


def agent(*held: object, **more: Any) -> Agent:
    found = Agent(device({**TASKS, "held": held, **more}))
    found.begin()
    say(found, welcome=Welcome(in_sync=True, epoch=7, kinds=KINDS_SHARES | 4))
    assert found.shares.next_hold(100.0)
    return found


def say(to: Agent, **frame: Any) -> None:
    to.receive([GatewayFrame(**frame)])


def shown(of: Agent, now: float = 100.0) -> Any:
    (share,) = json.loads(b"{" + show_shares(of.shares, now)[1:] + b"}")["shares"]
    return share


def test_a_request_names_its_leases_and_what_has_become_of_them() -> None:
    states = ["waits", "begun", "done", "failed", "back", "rejected"]
    held: list[dict[str, Any]] = [{"lease": f"{at}.2.45", "state": state} for at, state in enumerate(states)]
    held += [{"lease": "9.1.30"}, {"lease": "10.1.30", "state": "failed", "after_s": 86_400}]
    (share,) = device({**TASKS, "lease_s": 45, "prefetch": 9, "held": held}).shares.values()
    assert (share.interest.since, list(share.interest.attributes), share.interest.share) == (
        SINCE_OLDEST, ["a", "b"], "workers"
    )  # fmt: skip
    assert (share.lease_s, share.prefetch) == (45, 9)
    assert share.held[0].name == LeaseName(0, 2, 45)
    assert [(one.state, one.failed, one.after_s) for one in share.held] == [
        (HELD_WAITS, False, 0), (HELD_BEGUN, False, 0), (HELD_DONE, False, 0), (HELD_BACK, True, 0),
        (HELD_BACK, False, 0), (HELD_REJECTED, False, 0), (HELD_WAITS, False, 0), (HELD_BACK, True, 86_400),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"lease_s": 2}, "lease_s"),
        ({"lease_s": 43_201}, "lease_s"),
        ({"lease_s": 10**40}, "lease_s"),
        ({"prefetch": -1}, "prefetch"),
        ({"prefetch": 1_001}, "prefetch"),
        ({"since": "yesterday"}, "since"),
        ({"attributes": ["no/name"]}, "attributes"),
        ({"share": "no/name"}, "share"),
        ({"share": "x" * 45}, "share"),
        ({"channel": ""}, "channel"),
        ({"channel": "a\0b"}, "channel"),
        ({"held": [{"lease": "41"}]}, "lease"),
        ({"held": [{"lease": 41}]}, "shares[0].held[0].lease"),
        ({"held": [{"lease": "41.1.30", "state": "lost"}]}, "state"),
        ({"held": [{"lease": "41.1.30", "state": "back", "after_s": 86_401}]}, "after_s"),
        ({"held": [{"lease": "41.1.30", "state": "done", "after_s": 1}]}, "after_s"),
        ({"held": [{"lease": "41.1.30"}, {"lease": "41.2.30"}]}, "held"),
        ({"held": [{"lease": f"{at}.1.30"} for at in range(1_001)]}, "held"),
        ({"leases": 30}, "shares[0]"),
    ],
)
def test_a_wrong_field_is_named(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises((BadRequest, InvalidName)) as error:
        device({**TASKS, **wrong})
    assert str(error.value).startswith(f"{field}: "), error.value


def test_a_wrong_list_is_named() -> None:
    for shares, field in (
        ([TASKS, {**TASKS, "attributes": []}], "shares"),
        ([{**TASKS, "channel": f"c-{at}"} for at in range(SHARES_MAX + 1)], "shares"),
        ([{**TASKS, "channel": f"c-{at}", "prefetch": 501} for at in range(2)], "prefetch"),
    ):
        with pytest.raises(BadRequest) as error:
            device(*shares)
        assert error.value.field == field
    assert len(device(*({**TASKS, "channel": f"c-{at}"} for at in range(SHARES_MAX))).shares) == SHARES_MAX


def test_a_share_of_which_as_much_is_held_as_may_be_is_parsed() -> None:
    held = [{"lease": f"{(1 << 63) - 1 - at}.4294967295.43200", "state": "rejected"} for at in range(1_000)]
    objects = ["," * 200 for _ in range(200)]  # so many commas are counted before anything is looked at
    (share,) = device({**TASKS, "held": held}, registrations=objects).shares.values()
    assert len(share.held) == 1_000


def test_a_cursor_is_of_the_shares_too() -> None:
    one = agent()
    say(one, caught_up=CaughtUp(complete=41))
    cursor = cursor_of(one)
    assert device(TASKS, cursor=cursor).cursor == 41
    assert device({**TASKS, "lease_s": 60}, cursor=cursor).cursor == 41
    assert device({**TASKS, "share": "others"}, cursor=cursor).cursor is None


def test_hand_outs_are_told_with_the_seconds_that_they_have() -> None:
    one = agent()
    more: dict[str, Any] = {"id": "m", "source": "s", "key": "k", "published_ms": 9}
    message = Message(channel=SHARE, offset=1 << 60, hand_out=2, hold=1, attempts=3, payload=b'{"a": 1}', **more)
    say(one, message=message)
    say(one, message=Message(channel=SHARE, offset=6, hand_out=1, hold=1, payload=b"\xff"))
    say(one, missed=Missed(channel=SHARE, after=6, before=9, hand_out=1, hold=1, reason=RETENTION))
    found = shown(one, 102.54)
    assert found["handed"] == [
        {
            "lease": f"{1 << 60}.2.30", "ends_in_s": 25.9, "attempts": 3, "offset": 1 << 60,
            "offset_text": str(1 << 60), "payload": {"a": 1}, "id": "m", "source": "s", "published_ms": 9, "key": "k",
        },
        {"lease": "6.1.30", "ends_in_s": 25.9, "attempts": 0, "offset": 6, "payload_base64": "/w=="},
        {"lease": "7.1.30", "ends_in_s": 25.9, "missed": {"after": 6, "before": 9, "reason": "retention"}},
    ]  # fmt: skip
    assert found["held"] == {f"{1 << 60}.2.30": 25.9, "6.1.30": 25.9, "7.1.30": 25.9}
    assert (shown(one, 300)["held"]["6.1.30"], found["settled"], found["lost"]) == (0, [], [])
    assert show_shares(Agent(PlayedDevice("d", "g", "c")).shares, 100.0) == b""


def test_settled_and_lost_leases_are_told_by_their_names() -> None:
    said = [{"lease": f"{at}.1.30", "state": state} for at, state in enumerate(("done", "done", "waits", "begun"))]
    one = agent(*said)
    say(one, leases=Leases(number=1, lost=[LostLeases(share=SHARE, offsets=[1, 3])]))
    assert shown(one) == {
        "channel": "tasks", "share": "workers", "handed": [], "held": {"2.1.30": 28.5}, "settled": ["0.1.30"],
        "lost": ["1.1.30", "3.1.30"],
    }  # fmt: skip


def test_a_refused_share_has_a_reason_alone() -> None:
    one = Agent(device(TASKS))
    say(one, welcome=Welcome(in_sync=True, refused=[Refusal(interest=SHARE, reason="share: no room")]))
    assert shown(one) == {"channel": "tasks", "share": "workers", "refused": "share: no room"}


def hand_outs(*sizes: int) -> list[GatewayFrame]:
    return [
        GatewayFrame(message=Message(channel=SHARE, offset=at, hand_out=1, hold=1, payload=b"1" * size))
        for at, size in enumerate(sizes)
    ]


@pytest.mark.parametrize("bytes_max", [2_000, None])
def test_a_hand_out_that_has_no_room_is_given_back_and_the_first_always_has(bytes_max: int | None) -> None:
    one = agent(prefetch=9)
    size = 700 if bytes_max else 1 << 21
    Portion(one, bytes_max).receive(hand_outs(size, size, size, size))
    kept = 2 if bytes_max else 1
    assert [lease.name.offset for lease in one.shares.handed] == list(range(kept))
    assert one.shares.hold_at < 0, "it closes at once"
    alone = agent(prefetch=9)
    Portion(alone, bytes_max).receive(hand_outs(1 << 23))
    assert len(alone.shares.handed) == 1


def test_a_full_answer_still_hears_of_its_leases() -> None:
    one = agent({"lease": "5.1.30", "state": "done"})
    portion = Portion(one, 1_024)
    told = [Notification(name="o", version=1, offset=at, payload=b"1" * 900) for at in (10, 11)]
    portion.receive([GatewayFrame(notification=notification) for notification in told])
    assert portion.full
    portion.receive([*hand_outs(500), GatewayFrame(leases=Leases(number=1))])
    assert (len(one.found), shown(one)["settled"], shown(one)["handed"]) == (1, ["5.1.30"], [])
