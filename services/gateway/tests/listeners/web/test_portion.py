"""What fits into one answer of a sync."""

import pytest
from coldnotify_common.played.agent import Agent, PlayedDevice
from coldnotify_gateway.listeners.web.portion import Portion
from coldnotify_gateway.listeners.web.sync_body import cursor_of
from coldnotify_schemas.wire_pb2 import CaughtUp, GatewayFrame, Notification, Welcome

pytestmark = pytest.mark.pure


def frames(count: int, offset: int = 10) -> list[GatewayFrame]:
    told = [Notification(name=f"n-{at}", version=1, offset=at, payload=b"1") for at in range(offset, offset + count)]
    welcome = GatewayFrame(welcome=Welcome(in_sync=True, epoch=0xABC))
    end = GatewayFrame(caught_up=CaughtUp(complete=99))
    return [welcome, *(GatewayFrame(notification=one) for one in told), end]


def portion(bytes_max: int | None, *, queries: tuple[str, ...] = ()) -> Portion:
    agent = Agent(PlayedDevice("d", "g", "c", registrations=["n-1"], queries=queries))
    agent.begin()
    return Portion(agent, bytes_max)


def test_it_ends_where_the_next_would_not_fit_and_the_cursor_says_so() -> None:
    one = portion(130)
    one.receive(frames(9))
    assert (one.full, one.agent.caught_up) == (True, False)
    assert one.show().count(b'"object"') == 3
    assert (cursor_of(one.agent) or "").startswith("abc.12.")


def test_the_first_is_taken_however_long_and_what_comes_later_is_dropped() -> None:
    one = portion(10)
    one.receive(frames(2))
    one.receive(frames(2, offset=50))
    assert (one.full, one.show().count(b'"object"'), one.agent.cursor) == (True, 1, 10)


def test_all_of_it_is_taken_where_nothing_else_was_asked_for_or_with_queries() -> None:
    for one in (portion(None), portion(10, queries=("Room = 1",))):
        one.receive(frames(9))
        assert (one.full, one.show().count(b'"object"')) == (False, 9)
