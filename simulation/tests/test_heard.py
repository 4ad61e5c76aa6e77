"""The judge of what sessions are sent: an answer that breaks off goes on in the client's next session, and a session
that moves has what the Hello beside it said.
"""

from types import SimpleNamespace
from typing import Any, cast

import pytest
from coldnotify_schemas.frames import encode
from coldnotify_schemas.interests import query_hash
from coldnotify_schemas.wire_pb2 import CaughtUp, GatewayFrame, Notification, PageEnd, Registered
from coldnotify_simulation.heard import Heard
from coldnotify_simulation.promises import Broken

QUERY = "Room = 1"
HASH = query_hash(QUERY)


def heard(*members: str) -> tuple[Heard, Any]:
    """A judge of one client, of whose query these are the members."""
    client = SimpleNamespace(key="d/g/c", name="c", queries={QUERY}, wanted=set(), driver=None)
    judge = Heard(
        cast("Any", SimpleNamespace(epoch=None)),
        cast("Any", SimpleNamespace(doubts=lambda *_: False)),
        cast("Any", SimpleNamespace(wrong=lambda _group, _text, told, _end: sorted(told ^ set(members)))),
    )
    judge._queries[client.key] = {}
    return judge, client


class Link:
    """A connection of a client."""

    def __init__(self, client: Any) -> None:
        self.client = client


def connect(judge: Heard, client: Any) -> Any:
    link = Link(client)
    judge.connects(client, cast("Any", link))
    return link


def entered(name: str) -> GatewayFrame:
    return GatewayFrame(notification=Notification(name=name, answer=True, entered=[HASH]))


def say(judge: Heard, client: Any, link: Any, *frames: GatewayFrame) -> None:
    judge.on_received(client, link, b"".join(map(encode, frames)))


@pytest.mark.parametrize("begins_again", [True, False])
def test_an_answer_in_two_sessions_keeps_nobody_who_has_left(*, begins_again: bool) -> None:
    judge, client = heard("a", "b")
    begun = GatewayFrame(registered=Registered(begun=[HASH]))
    answered = GatewayFrame(registered=Registered(answered=[HASH]))
    first = connect(judge, client)
    say(judge, client, first, begun, entered("a"), entered("gone"), answered)
    second = connect(judge, client)
    say(judge, client, second, begun, entered("a"), GatewayFrame(page_end=PageEnd(page=1, query=HASH, reached="a")))
    third = connect(judge, client)
    say(judge, client, third, *((begun, entered("a")) if begins_again else ()), entered("b"), answered)
    say(judge, client, third, GatewayFrame(caught_up=CaughtUp(complete=7)))

    with pytest.raises(Broken, match="P9"):
        say(judge, client, third, entered("stranger"), GatewayFrame(caught_up=CaughtUp(complete=8)))


def of_version(name: str) -> GatewayFrame:
    return GatewayFrame(notification=Notification(name=name, version=1))


def test_a_session_that_moves_is_sent_what_the_hello_beside_it_named() -> None:
    judge, client = heard()
    connect(judge, client)
    client.wanted = {"named"}
    judge.connects_beside(client)
    judge.registers(client, "since")
    client.wanted = set()
    link = Link(client)
    judge.moves(client, cast("Any", link))
    say(judge, client, link, of_version("named"), of_version("since"))
    with pytest.raises(Broken, match="P9"):
        say(judge, client, link, of_version("stranger"))

    link = connect(judge, client)
    with pytest.raises(Broken, match="P9"):
        say(judge, client, link, of_version("named"))


def test_a_session_that_moves_is_sent_members_of_the_queries_that_the_hello_beside_it_named() -> None:
    judge, client = heard()
    client.queries = {QUERY, "Room = 2"}
    say(judge, client, connect(judge, client), entered("member"))
    judge.connects_beside(client)
    client.queries = {"Room = 2"}
    link = Link(client)
    judge.moves(client, cast("Any", link))
    say(judge, client, link, of_version("member"))
    with pytest.raises(Broken, match="P9"):
        say(judge, client, link, of_version("stranger"))
