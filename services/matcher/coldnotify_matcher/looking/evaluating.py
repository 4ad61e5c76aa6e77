"""Evaluates queries for the HTTP views: one look at a time, beside the worker, with rests, and not for long.

All threads of the matcher share one interpreter, and a query's cost depends on its author. So a look copies the state
that it needs under the worker's lock, and evaluates without it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from aiohttp import web
from coldnotify_schemas.descriptions import Description

from coldnotify_matcher.engine.clients.memberships import LookedMember
from coldnotify_matcher.engine.interests.by_query.deciding import deciding
from coldnotify_matcher.engine.interests.by_query.query import query_of

WORK_S = 0.0005
"""After this the worker's thread gets the interpreter, which a computing thread keeps for 5 ms otherwise."""
REST_S = 0.0002
PASS_S_MAX = 1.0
"""Maximum of one look. An HTTP node waits for 3 s by default."""
TURN_S_MAX = 1.5
"""Maximum that other looks wait for their turn."""
_one_at_a_time = threading.Lock()


class Evaluation:
    """The evaluation of one look. It is over once it has taken `pass_s`."""

    def __init__(self, pass_s: float = PASS_S_MAX, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._clock_s = clock_s
        self._rested_s = clock_s()
        self._until_s = self._rested_s + pass_s

    def goes_on(self) -> bool:
        """Rests between two evaluations, if it is time to. Returns false if the evaluation is over."""
        now_s = self._clock_s()
        if now_s - self._rested_s >= WORK_S:
            time.sleep(REST_S)
            self._rested_s = now_s = self._clock_s()
        return now_s < self._until_s


@contextmanager
def in_turn(turn_s: float = TURN_S_MAX) -> Iterator[None]:
    """Keeps other looks from evaluating within. 503 if theirs take longer than `turn_s`."""
    if not _one_at_a_time.acquire(timeout=turn_s):
        raise web.HTTPServiceUnavailable(text="other queries are being evaluated", headers={"Retry-After": "1"})
    try:
        yield
    finally:
        _one_at_a_time.release()


def why(looked: LookedMember, name: str, evaluation: Evaluation) -> list[tuple[str, bool | None, str]]:
    """Returns for each query: its text, whether it has the object, and the conditions that decide that.

    None: there is not enough time left to evaluate it.
    """
    found: list[tuple[str, bool | None, str]] = [(text, False, reason) for text, reason in looked.refused.items()]
    for text, member in looked.members.items():
        if looked.description is None:
            found.append((text, False, "there is no such object, or it is deleted"))
        elif evaluation.goes_on():
            found.append((text, *deciding(query_of(text), name, looked.description)))
        else:
            found.append((text, member, "not looked into: the others have taken the time that there is for one look"))
    return found


def fits(texts: Iterable[str], name: str, description: Description, evaluation: Evaluation) -> dict[str, bool]:
    """Returns by the text of each query whether it has the object. Raises HTTPServiceUnavailable if that takes too
    long."""
    found: dict[str, bool] = {}
    for text in texts:
        if not evaluation.goes_on():
            words = "queries of clients that are away are still to be held against the object, and take too long"
            raise web.HTTPServiceUnavailable(text=words)
        if text not in found:
            found[text] = query_of(text).matches(name, description)
    return found
