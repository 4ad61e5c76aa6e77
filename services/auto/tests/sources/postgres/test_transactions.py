"""What the rows of a transaction publish, whatever order they change in."""

from pathlib import Path

import pytest
from coldnotify_auto.auto_file import read_auto_file
from coldnotify_auto.sources.postgres.pgoutput import Begin, Column, Relation, RowChange, TransactionEnd, Values
from coldnotify_auto.sources.postgres.postgres_source import PostgresSource
from coldnotify_auto.sources.postgres.transactions import Transactions

FILE = """\
sources:
  plant:
    kind: postgres
    connection: host=db
    rules:
      - table: shelf
        domain: d
        group: g
        object: "{place}"
        payload: {what}
"""
SHELF = Relation(1, "public", "shelf", tuple(Column(name, 25, is_key=True) for name in ("place", "what")))


def row(place: str, what: str) -> Values:
    return {"place": place, "what": what}


def moved(what: str, before: str, after: str) -> RowChange:
    return RowChange(SHELF, row(after, what), row(before, what))


@pytest.fixture
def transactions(tmp_path: Path) -> Transactions:
    file = tmp_path / "auto.yaml"
    file.write_text(FILE)
    (source,) = read_auto_file(file)
    assert isinstance(source, PostgresSource)
    return Transactions(source._rules, 1, 0, lambda message, time_s: None, lambda position, reason: None)


def published(transactions: Transactions, *changes: RowChange) -> dict[str, bytes | None]:
    """Payload by object; None: it is deleted."""
    transactions.take(Begin(10, 0.0))
    for one in changes:
        transactions.take(one)
    done = transactions.take(TransactionEnd(20))
    assert done is not None
    return {put.key.object: None if put.deleted else put.payload for put in done.puts}


def test_a_row_takes_the_name_of_one_that_moves_later(transactions: Transactions) -> None:
    shifted = published(transactions, moved("x", "1", "2"), moved("y", "2", "3"))
    assert shifted == {"1": None, "2": b'{"what":"x"}', "3": b'{"what":"y"}'}
    swapped = published(transactions, moved("x", "2", "3"), moved("y", "3", "2"))
    assert swapped == {"3": b'{"what":"x"}', "2": b'{"what":"y"}'}
    replaced = published(transactions, moved("x", "3", "2"), RowChange(SHELF, None, row("2", "y")))
    assert replaced == {"3": None, "2": b'{"what":"x"}'}


def test_a_row_that_moves_twice_leaves_nothing_behind(transactions: Transactions) -> None:
    assert published(transactions, moved("x", "1", "2"), moved("x", "2", "3")) == {
        "1": None,
        "2": None,
        "3": b'{"what":"x"}',
    }


def test_a_row_whose_name_becomes_valid_is_published(transactions: Transactions) -> None:
    assert published(transactions, moved("x", "", "1")) == {"1": b'{"what":"x"}'}
