"""How answers to registrations by query go on behind what their client has reached, and when they begin anew."""

import pytest
from coldnotify_matcher.engine.telling import paging
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.interests import query_hash
from coldnotify_testkit.engine_bench import EPOCH, EngineBench, pages, query_interest

TEXT = "has a"
HASH = query_hash(TEXT)
NAMES = [f"o{number}" for number in range(6)]


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> EngineBench:
    """A page has room for two members."""
    monkeypatch.setattr(paging, "_PAGE_BYTES_MIN", 40)
    bench = EngineBench()
    for name in NAMES:
        bench.describe(name, b'{"description":{"a":1}}', timestamp_ms=1)
    return bench


def opens(
    bench: EngineBench,
    session: int,
    *queries: wire_pb2.Interest,
    epoch: int = EPOCH,
    cursor: int | None = None,
    digest: int = HASH,
) -> internal_pb2.Page:
    """The client's next session. Returns its first page."""
    said = internal_pb2.Open(digest=digest, interests=queries, epoch=epoch, cursor=cursor, ask=session, page_bytes=40)
    bench.request(session, open=said)
    return last_page(bench)


def registers(bench: EngineBench, session: int, query: wire_pb2.Interest) -> None:
    bench.request(session, register=wire_pb2.Register(request=1, interests=[query]))


def last_page(bench: EngineBench) -> internal_pb2.Page:
    bench.settle()
    return pages(bench.items())[-1]


def rest(bench: EngineBench, page: internal_pb2.Page, *, cursor: int | None = None) -> list[internal_pb2.Page]:
    """This page and all that follow it, each taken at once."""
    found = [page]
    while not found[-1].last:
        said = internal_pb2.CatchUp(
            ask=page.ask, page=found[-1].page, paging=found[-1].paging, epoch=EPOCH, page_bytes=40, cursor=cursor
        )
        bench.request(page.session, catch_up=said)
        found.append(last_page(bench))
    return found


def told(found: list[internal_pb2.Page]) -> list[str]:
    return [newest.name for page in found for newest in page.newest if newest.answer]


def reached(page: internal_pb2.Page) -> wire_pb2.Interest:
    """What a client that has got this page says of its query."""
    assert page.query == HASH
    return query_interest(TEXT, reached=page.reached, reached_at=page.reached_at)


def test_an_answer_goes_on_in_the_next_session(bench: EngineBench) -> None:
    first = opens(bench, 1, query_interest(TEXT))
    assert list(first.begun) == [HASH]
    found = rest(bench, opens(bench, 2, reached(first)))
    assert not any(page.begun for page in found)
    assert (told(found), list(found[-1].answered)) == (NAMES[len(first.newest) :], [HASH])


def test_what_was_reached_before_the_answer_has_begun_in_this_session_does_not_count(bench: EngineBench) -> None:
    """A session without a cursor is answered unasked; its client may register before it hears that."""
    said = reached(rest(bench, opens(bench, 1, query_interest(TEXT)))[1])
    page = opens(bench, 2)
    assert list(page.begun) == [HASH]
    registers(bench, 2, said)
    found = rest(bench, page)
    assert (told(found[1:]), list(found[1].begun)) == (NAMES, [HASH])


def test_what_is_registered_later_without_a_cursor_begins_anew(bench: EngineBench) -> None:
    """The answer may have been begun by a predecessor of this matcher."""
    said = reached(opens(bench, 1, query_interest(TEXT)))
    other = query_interest("has  a")
    digest = (HASH + query_hash(other.text)) % MODULUS
    page = opens(bench, 2, other, digest=digest)
    registers(bench, 2, said)
    found = rest(bench, page)
    assert [list(one.begun) for one in found].count([HASH]) == 1
    assert told(found) == [*NAMES, *NAMES]


@pytest.mark.parametrize("cursor", [None, 0])
def test_what_was_reached_in_another_epoch_does_not_count(bench: EngineBench, cursor: int | None) -> None:
    said = reached(opens(bench, 1, query_interest(TEXT)))
    found = rest(bench, opens(bench, 2, said, epoch=EPOCH + 1, cursor=cursor))
    assert (told(found), list(found[0].begun)) == (NAMES, [HASH])


def test_what_was_reached_below_the_cursor_does_not_count(bench: EngineBench) -> None:
    """The answer's end settles the registration: what has left below the cursor would come too late."""
    said = reached(opens(bench, 1, query_interest(TEXT)))
    bench.describe(NAMES[0], b'{"description":{"b":1}}', timestamp_ms=2)
    cursor = bench.describe("other", b'{"description":{"b":1}}', timestamp_ms=1)
    bench.settle()
    found = rest(bench, opens(bench, 2, said, cursor=cursor), cursor=cursor)
    assert (told(found), list(found[0].begun)) == (NAMES[1:], [HASH])
