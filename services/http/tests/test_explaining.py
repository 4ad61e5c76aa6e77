"""Every verdict, from what a matcher and a gateway would say."""

from typing import Any

import pytest
from coldnotify_http.explaining import VERDICTS, AtGateway, explain

CLIENT = {
    "client": "c",
    "online": True,
    "gateway": "ab",
    "session": 7,
    "session_state": "live",
    "registered": 3,
    "cursor": 3,
    "last_seen_ms": 5,
    "gateway_heard_ms": 6,
}
OBJECT = {
    "object": "o",
    "version": 9,
    "incarnation": 0,
    "offset": 4,
    "published_ms": 4,
    "source": None,
    "held": False,
    "client_registered": True,
    "client_applied": False,
    "client_is_source": False,
    "client_tells_callbacks": True,
    "client_callbacks": None,
    "since_ms": 4,
}
CALLBACKS = {"state": "pending", "since_ms": 4, "failures": 0, "error": None}
SESSION = {"session": 7, "state": "live", "complete": 3, "since_ms": 2, "address": "10.0.0.1:5"}
ASLEEP = {"online": False, "gateway": None, "session": None, "session_state": None, "gateway_heard_ms": None}


def explained(
    client: dict[str, Any] | None = None,
    obj: dict[str, Any] | None = None,
    session: dict[str, Any] | None = None,
    *,
    at: str = "ab",
    object_name: str | None = "o",
    **known: Any,
) -> Any:
    base = {"partition": 1, "generation": 2, "position": 5, "requests_waiting": 0, "now_ms": 9, "rejected": []}
    lacking = [{"object": "o", "version": 9, "since_ms": 4}]
    matcher = {**base, "lacking": lacking, "client": CLIENT | (client or {}), "object": OBJECT | (obj or {}), **known}
    return explain(matcher, [AtGateway("h:1", at, SESSION | (session or {}))], object_name=object_name)


CASES: dict[str, dict[str, Any]] = {
    "applied": {"obj": {"client_applied": True}},
    "told": {"obj": {"client_applied": True, "client_tells_callbacks": False}},
    "too_large": {"obj": {"client_applied": True, "client_too_large": True}},
    "pending": {"client": {"cursor": 4}, "obj": {"client_callbacks": CALLBACKS}},
    "failing": {"obj": {"client_callbacks": CALLBACKS | {"failures": 2, "error": "OSError: disk"}}},
    "parked": {"obj": {"client_callbacks": CALLBACKS | {"state": "parked", "failures": 10}}},
    "complete": {"object_name": None, "object": None, "lacking": []},
    "unknown_client": {"matcher_client": None},
    "unknown_object": {"object": None},
    "not_registered": {"obj": {"client_registered": False}},
    "members_unknown": {"object_name": None, "object": None, "lacking": [], "queries_unknown": 2},
    "never_published": {"obj": {"version": None, "offset": None, "published_ms": None}},
    "asleep": {"client": ASLEEP},
    "refused": {"client": ASLEEP, "refused": {"when_ms": 8, "reason": "clients_max is 5"}},
    "unsynced": {"client": {"session_state": "unsynced"}},
    "held": {"obj": {"held": True}},
    "catching_up": {"client": {"session_state": "catching"}},
    "slow": {"session": {"state": "slow"}},
    "sent": {"session": {"complete": 4}},
    "on_its_way": {},
    "gateway_silent": {"at": "cd"},
}


@pytest.mark.parametrize(
    ("will", "due_ms", "words"),
    [
        ("gone", None, "its will to gone is published if its session ends otherwise than by its word"),
        ("gone", 77, "its will to gone is due then"),
        (None, None, None),
    ],
)
def test_a_will_and_when_it_is_due_are_in_the_timeline(will: str | None, due_ms: int | None, words: str | None) -> None:
    timeline = explained(client={"will": will, "will_due_ms": due_ms})["timeline"]
    found = [(one["when_ms"], one["text"]) for one in timeline if one["step"] == "will"]
    assert found == ([] if words is None else [(due_ms, words)])


@pytest.mark.parametrize("verdict", VERDICTS)
def test_every_verdict_is_reached(verdict: str) -> None:
    case = dict(CASES[verdict])
    if "matcher_client" in case:
        case = {"known": None}
        matcher = {
            "partition": 1, "generation": 2, "position": 5, "requests_waiting": 0, "now_ms": 9, "rejected": [],
            "client": None, "object": OBJECT,
        }  # fmt: skip
        shown = explain(matcher, [], object_name="o")
    else:
        shown = explained(**case)

    assert shown["verdict"] == verdict
    assert shown["words"].startswith(VERDICTS[verdict])
    assert all(event["text"] for event in shown["timeline"])


def test_nothing_lacks_and_nothing_is_known_of_queries_differ() -> None:
    known: dict[str, Any] = {"object_name": None, "object": None, "lacking": []}
    assert explained(**known, queries_unknown=0, queries_missed=False)["verdict"] == "complete"
    assert explained(**known, queries_unknown=0, queries_missed=True)["verdict"] == "on_its_way"
    away = explained(ASLEEP, **known, queries_unknown=1, queries_missed=True)
    assert (away["verdict"], away["words"].endswith("when it connects")) == ("members_unknown", True)
    assert any("1 of its queries" in one["text"] for one in away["timeline"])
    queries = [{"query": "HAS a", "member": None, "why": "not looked into"}]
    asked = explained(None, {"client_registered": False, "client_queries": queries})
    assert (asked["verdict"], asked["words"].endswith("being evaluated")) == ("members_unknown", True)


def test_a_session_that_is_not_the_one_that_counts_is_about_to_be_displaced() -> None:
    (event,) = [one for one in explained(session={"session": 8})["timeline"] if "displaced" in one["text"]]
    assert event["step"] == "gateway"


def test_a_refused_client_is_explained_with_time_and_reason() -> None:
    refused: dict[str, Any] = {"when_ms": 8, "reason": "tenant acme is above its agreement: clients_max is 5"}
    unknown = {"partition": 1, "generation": 2, "position": 5, "requests_waiting": 0, "now_ms": 9, "object": None}
    for client in (CLIENT | ASLEEP, None):
        shown = explain({**unknown, "client": client, "lacking": [1], "refused": refused}, [], object_name=None)
        assert shown["verdict"] == "refused"
        assert [one["when_ms"] for one in shown["timeline"] if refused["reason"] in one["text"]] == [8]
    assert explained(refused=refused)["verdict"] == "on_its_way", "it is connected by now"


def test_a_record_that_was_rejected_later_is_said() -> None:
    rejected = [{"offset": 8, "timestamp_ms": 7, "reason": "record: unknown field"}]
    shown = explained({}, {"client_applied": True}, rejected=rejected)
    assert shown["verdict"] == "applied"
    assert "a later record of the object was rejected" in shown["words"]
    assert (shown["timeline"][0]["step"], shown["timeline"][0]["when_ms"]) == ("rejected", 7)


def test_all_that_a_client_lacks_is_told_where_no_object_is_named() -> None:
    shown = explained(ASLEEP, object_name=None, object=None)
    assert (shown["verdict"], len(shown["lacking"])) == ("asleep", 1)
    assert any("has 3 registrations and lacks 1" in one["text"] for one in shown["timeline"])
