"""Clients that share a connection, by histories: each is judged by itself, so a link that mixes them up is found."""

from typing import Any

from coldnotify_checker import judge
from coldnotify_checker.histories import End, Event, Publish, Published, Register, Started, Told

GROUPS = ("d/north", "d/east", "d/west")


def broken(told: dict[str, Any]) -> set[str]:
    """Returns the promises that are broken if the client of each group was told the payload that `told` names; the
    payload of an object is its group."""
    events: list[Event] = []
    for group in GROUPS:
        client, object_ = f"{group}/linked", f"{group}/config"
        events += [Started(client=client), Register(client=client, object=object_)]
        call: dict[str, Any] = {"publisher": "p", "id": group}
        events += [Publish(**call, object=object_, version=1, payload=group), Published(**call, outcome="acknowledged")]
        if group in told:
            events.append(Told(client=client, object=object_, version=1, payload=told[group]))
    events.append(End(connected=[f"{group}/linked" for group in GROUPS]))
    timed = [
        type(one)(**{f: getattr(one, f) for f in one.__struct_fields__} | {"t": t}) for t, one in enumerate(events, 1)
    ]
    return {one.promise for one in judge(timed).violations}


def test_each_client_of_a_link_is_told_its_own() -> None:
    assert broken({group: group for group in GROUPS}) == set()


def test_a_link_that_confuses_two_sessions_is_found() -> None:
    assert "P4" in broken({"d/north": "d/east", "d/east": "d/north", "d/west": "d/west"})


def test_a_link_that_forgets_a_session_is_found() -> None:
    assert broken({"d/north": "d/north", "d/west": "d/west"}) == {"P2"}
