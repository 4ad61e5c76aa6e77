"""Of a client's Opens in a row only the last is answered, and the outcome is that of one after the other."""

import pytest
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_testkit.engine_bench import GATEWAY, OTHER_GATEWAY, PREFIX, EngineBench, closed, kinds, opened
from hypothesis import given
from hypothesis import strategies as st


def test_only_the_last_hello_of_a_client_is_answered() -> None:
    bench = EngineBench()
    bench.opened("a", session=9)
    for session in (1, 2, 3):
        bench.open(["a"], session=session)
        bench.leave(session=session)
    bench.open(["a"], session=4)
    bench.open(["b"], register=["b"], session=1, client="client-2", gateway=OTHER_GATEWAY)

    items = bench.items()

    assert [told.session for told in opened(items)] == [4]
    assert closed(items) == [(9, CloseCode.DISPLACED)], "the others have left"
    assert kinds(bench.told[OTHER_GATEWAY].items) == ["opened", "page"]


def test_one_that_has_not_left_is_told_that_it_is_displaced() -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"], session=1)
    bench.open(["a"], register=["a"], session=2)

    items = bench.items()

    assert closed(items) == [(1, CloseCode.DISPLACED)]
    assert [told.session for told in opened(items)] == [2]


@pytest.mark.parametrize("in_a_row", [True, False])
def test_one_that_was_displaced_does_not_come_back_once_the_other_has_left(*, in_a_row: bool) -> None:
    """Its Hello is outdated: its registrations, and its report of all that is unsettled."""
    bench = EngineBench()
    bench.open(session=1)
    if not in_a_row:
        bench.settle()
    bench.open(["a"], register=["a"], session=2, gateway=OTHER_GATEWAY)
    bench.leave(session=2, gateway=OTHER_GATEWAY)
    bench.settle()
    bench.told.clear()
    bench.open(session=1, again=True)

    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]


def test_a_hello_asked_again_while_the_matcher_was_away_still_displaces_the_session_of_before() -> None:
    bench = EngineBench()
    bench.opened("a", session=1)
    bench.open(["a"], session=2, gateway=OTHER_GATEWAY)
    bench.open(["a"], session=2, gateway=OTHER_GATEWAY, again=True)

    assert closed(bench.items()) == [(1, CloseCode.DISPLACED)]
    assert [(told.session, told.ask) for told in opened(bench.told[OTHER_GATEWAY].items)] == [(2, 2)]


def test_an_open_again_does_not_supersede_another_sessions_hello() -> None:
    bench = EngineBench()
    bench.open(["a"], register=["a"], session=2, gateway=OTHER_GATEWAY)
    bench.open(["a"], register=["a"], session=1, again=True)

    assert closed(bench.items()) == [(1, CloseCode.UNKNOWN_SESSION)]
    assert [told.session for told in opened(bench.told[OTHER_GATEWAY].items)] == [2]


def test_a_request_between_two_opens_is_handled_in_turn() -> None:
    bench = EngineBench()
    bench.open()
    bench.register("a")
    bench.open(["a"], again=True)

    assert kinds(bench.items()) == ["opened", "page", "answered", "opened", "page"]


opens = st.lists(st.tuples(st.sampled_from([GATEWAY, OTHER_GATEWAY]), st.integers(1, 2), st.booleans()), max_size=6)


@given(opens, st.booleans())
def test_the_outcome_is_that_of_one_after_the_other(history: list[tuple[int, int, bool]], online: bool) -> None:
    def play(*, at_once: bool) -> tuple[int, int] | None:
        bench = EngineBench()
        if online:
            bench.opened("a", session=7)
        seen = set()
        for gateway, session, again in history:
            # The first Open of a session never says `again`, all others do.
            bench.open(["a"], register=["a"], session=session, gateway=gateway, again=(gateway, session) in seen)
            seen.add((gateway, session))
            if not at_once:
                bench.settle()
            if again:
                bench.beat(gateway=gateway)
        bench.settle()
        client = bench.engine.state.clients.get(f"{PREFIX}client-1")
        session_now = client.session if client is not None else None
        return None if session_now is None else (session_now.gateway.id, session_now.number)

    assert play(at_once=True) == play(at_once=False)
