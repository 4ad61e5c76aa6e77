"""Finds the Opens of a batch that need no answer, because their clients have asked again meanwhile."""

from collections.abc import Iterable
from typing import NamedTuple

from coldnotify_schemas import internal_pb2


class _Open(NamedTuple):
    offset: int
    session: tuple[int, int]
    """(gateway, its session)."""
    again: bool


class SupersededOpens:
    """Clients have sent several Hellos while a matcher was away. The outcome is the same as of one after the other.

    Only Opens in a row supersede each other: if another request of the client is between them all are handled in turn.
    So are those of clients whose set is kept: a later one does not say what an earlier one forgot.
    """

    def __init__(self, requests: Iterable[tuple[int, internal_pb2.Request]]) -> None:
        self.superseded: set[int] = set()
        """Offsets of Opens that a later one supersedes."""
        self.first: set[int] = set()
        """Offsets of Opens with `again` that replace the first one of their session, which is superseded."""
        displaced: dict[tuple[int, int], int] = {}
        left: set[tuple[int, int]] = set()
        last: dict[tuple[str, str, str], _Open] = {}
        for offset, request in requests:
            kind = request.WhichOneof("body")
            client = request.domain, request.group, request.client
            session = request.gateway, request.session
            if kind == "leave":
                left.add(session)
            elif kind != "open" or request.open.HasField("kept"):
                last.pop(client, None)
            else:
                before = last.get(client)
                again = request.open.again
                if before is not None:
                    if before.session != session and again:
                        continue  # it is refused: the client has another session
                    self.superseded.add(before.offset)
                    if before.session != session:
                        displaced[before.session] = before.offset
                    elif not before.again and again:
                        again = False
                        self.first.add(offset)
                last[client] = _Open(offset, session, again)
        self.displaced = {offset for session, offset in displaced.items() if session not in left}
        """Superseded ones whose session has to hear so: another one has taken its place, and it has not left."""
