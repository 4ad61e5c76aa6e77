"""Connections to PostgreSQL: errors become reasons, and values have the same text in both ways of reading."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg2
import psycopg2.extras

from coldnotify_auto.source import SourceFailed

CONNECT_S = 10
_OPTIONS = (
    "-c datestyle=ISO -c intervalstyle=postgres -c timezone=UTC -c extra_float_digits=1 -c bytea_output=hex "
    "-c client_encoding=UTF8 -c statement_timeout=0 -c idle_in_transaction_session_timeout=0"
)
_FACTS: dict[str, Any] = {
    "connect_timeout": CONNECT_S,
    "options": _OPTIONS,
    "application_name": "coldnotify-auto",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
}


@contextmanager
def connected(connection: str) -> Iterator[Any]:
    """Yields a connection that commits each statement. Raises SourceFailed, also for any error of the database."""
    with _closing(lambda: psycopg2.connect(connection, **_FACTS)) as one:
        one.set_session(autocommit=True)
        yield one


@contextmanager
def replicating(connection: str) -> Iterator[Any]:
    """Yields a replication connection. Raises as `connected`."""
    kind = psycopg2.extras.LogicalReplicationConnection
    with _closing(lambda: psycopg2.connect(connection, connection_factory=kind, **_FACTS)) as one:
        yield one


@contextmanager
def _closing(connect: Any) -> Iterator[Any]:
    try:
        one = connect()
        try:
            yield one
        finally:
            one.close()
    except psycopg2.Error as error:
        raise SourceFailed(f"PostgreSQL: {words_of(error)}") from error


def words_of(error: Exception) -> str:
    """Returns an error's first line."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
