"""A publish's effect, and waiting until clients have applied it: asks the HTTP service, ever more rarely."""

import asyncio
import time
from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

from coldnotify._effect import REJECTED, STALE, UNKNOWN, Newest, Outcome
from coldnotify._http_requests import HttpRefusal, HttpRequests, HttpUnanswered, group_path
from coldnotify._publishing.published import WAIT_S, Published, check_wait

POLL_FIRST_S = 0.1
POLL_FACTOR = 1.6
POLL_MAX_S = 5.0
"""A look costs the matcher a pass over its clients, and what takes long is not known sooner by asking often."""
_ASK_TIMEOUT_S = 10.0
_ASK_S_MIN = 0.5
_NAMES_SHOWN = 10
OUTCOME_WAIT_S_MAX = 2.0
"""How long the matcher waits until it has read the record, before it answers that it has not."""
OFFSET_NOT_KNOWN = "Kafka did not say where the record is: its first acknowledgement was lost on the way"
_NOT_KNOWN_YET = 404


class _Counts(NamedTuple):
    applied: int
    lacking: int


class Applied(_Counts):
    """How many of the clients that are registered for an object have applied a version of it, or a newer one.

    `(applied, lacking)`: a client has applied it when its callbacks have returned.
    """

    counted: str = ""
    """Explains the counts in words: clients registered by a query, a newer version, and clients that can only report
    that they were told.
    """

    @property
    def registered(self) -> int:
        """All of them."""
        return self.applied + self.lacking


class NotApplied(TimeoutError):
    """Too few clients have applied a version in time; the message says how many lack it, and names some."""

    def __init__(self, message: str, applied: Applied | None) -> None:
        super().__init__(message)
        self.applied = applied
        """The last answer; None if there was none."""


class NeverApplied(NotApplied):
    """No client is ever told the version: it was stale or rejected when it was read. Waiting does not help."""

    def __init__(self, message: str, outcome: Outcome) -> None:
        super().__init__(message, None)
        self.outcome = outcome
        """`outcome.newest` is the newest version instead."""


class LedgerRefused(Exception):
    """The HTTP service does not answer such a question: not allowed, or no such address."""


class LedgerClient:
    """The HTTP service's ledger."""

    def __init__(self, requests: HttpRequests) -> None:
        self._requests = requests

    def ask(self, about: tuple[str, str, str], published: Published, timeout_s: float) -> dict[str, Any] | str:
        """Returns the clients that lack the version, or why they are not known. Raises LedgerRefused."""
        query: dict[str, object] = {"version": published.version, "limit": _NAMES_SHOWN}
        if published.offset >= 0:
            query |= {"partition": published.partition, "offset": published.offset}
        domain, group, object_ = about
        return self._get(group_path(domain, group, "objects", object_, "lacking"), timeout_s, query)

    def outcome(
        self, about: tuple[str, str, str], published: Published, incarnation: int | None, timeout_s: float
    ) -> Outcome:
        """Returns the publish's effect, `unknown` if the service cannot tell (yet). Raises LedgerRefused."""
        domain, group, object_ = about
        if not published.written:
            shown = self._get(group_path(domain, group, "objects", object_), timeout_s)
            if isinstance(shown, str) or shown["version"] is None:
                return Outcome.unknown(shown if isinstance(shown, str) else "the matcher has not read it")
            return Outcome.of_repeat(Newest.of(shown), published.version, incarnation)
        if published.offset < 0:
            return Outcome.unknown(OFFSET_NOT_KNOWN)
        wait_s = min(OUTCOME_WAIT_S_MAX, timeout_s / 2)
        query: dict[str, object] = {
            "partition": published.partition,
            "offsets": published.offset,
            "wait_s": f"{wait_s:.3f}",
        }
        shown = self._get(group_path(domain, group, "outcomes"), timeout_s, query)
        if isinstance(shown, str):
            return Outcome.unknown(shown)
        return Outcome.of(shown["items"][0], object_, published.version)

    def _get(self, path: str, timeout_s: float, query: Mapping[str, object] | None = None) -> dict[str, Any] | str:
        try:
            return self._requests.ask("GET", path, query=query or {}, timeout_s=timeout_s)
        except HttpRefusal as refusal:
            if refusal.status < 500 and refusal.status not in (_NOT_KNOWN_YET, 408, 429):
                raise LedgerRefused(f"{refusal.base}: {refusal}") from None
            return str(refusal)
        except HttpUnanswered as error:
            return str(error)


class Receipt(Published):
    """A version that Kafka has; its effect, and the clients that have it, can be asked for and waited for."""

    _ledger: LedgerClient | None
    _written: bool
    _about: tuple[str, str, str]
    _incarnation: int | None

    @classmethod
    def of(
        cls, published: Published, ledger: LedgerClient | None, about: tuple[str, str, str], incarnation: int | None
    ) -> "Receipt":
        """`about`: domain, group, object."""
        receipt = cls(*published)
        receipt._ledger, receipt._about, receipt._incarnation = ledger, about, incarnation
        receipt._written = published.written
        return receipt

    @property
    def written(self) -> bool:
        """False: the publisher's last publish of the object was the very same, and it was not written again."""
        return self._written

    def wait(self, timeout_s: float = WAIT_S) -> "Receipt":
        """Returns itself at once: Kafka has it. With an outbox: once it has."""
        check_wait(timeout_s)
        return self

    async def wait_async(self, timeout_s: float = WAIT_S) -> "Receipt":
        """wait() for asyncio."""
        return self.wait(timeout_s)

    def outcome(self, timeout_s: float = 5) -> Outcome:
        """Returns the publish's effect: published, repeated, altered, stale, rejected; `unknown` with the reason if
        that could not be determined in time.

        A Publisher needs `http`. Raises LedgerRefused; ValueError naming the argument; RuntimeError without `http`.
        """
        ask = self._ask_for_outcome(timeout_s)
        ledger = self._checked("outcome")
        answer: Outcome | None = None
        try:
            while True:
                pause_s, ask_s = ask.send(answer)  # type: ignore[arg-type]
                time.sleep(pause_s)
                answer = ledger.outcome(self._about, self, self._incarnation, ask_s)
        except StopIteration as done:
            outcome: Outcome = done.value
            return outcome

    async def outcome_async(self, timeout_s: float = 5) -> Outcome:
        """outcome() for asyncio."""
        ask = self._ask_for_outcome(timeout_s)
        ledger = self._checked("outcome")
        answer: Outcome | None = None
        while True:
            try:
                pause_s, ask_s = ask.send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                outcome: Outcome = done.value
                return outcome
            await asyncio.sleep(pause_s)
            answer = await asyncio.to_thread(ledger.outcome, self._about, self, self._incarnation, ask_s)

    def applied_by(self, clients: int | float, timeout_s: float = 60) -> Applied:
        """Waits until so many clients have applied this version or a newer one: an int is a count, a float from 0 to 1
        a fraction of those registered then (1.0: all; if none is registered, none).

        A client's acknowledgement is known a second or two later. A Publisher needs `http`. Raises NotApplied, which
        is a TimeoutError; NeverApplied, which is a NotApplied, at once if the version was stale or rejected, as far as
        the matcher remembers, because clients that applied a newer one did not get this one; LedgerRefused; ValueError
        naming the argument; RuntimeError without `http`.
        """
        poll = self._poll(clients, timeout_s)
        ledger = self._checked("applied_by")
        answer: dict[str, Any] | str | None = None
        try:
            while True:
                pause_s, ask_s = poll.send(answer)  # type: ignore[arg-type]
                time.sleep(pause_s)
                answer = ledger.ask(self._about, self, ask_s)
        except StopIteration as done:
            applied: Applied = done.value
            return applied

    async def applied_by_async(self, clients: int | float, timeout_s: float = 60) -> Applied:
        """applied_by() for asyncio."""
        poll = self._poll(clients, timeout_s)
        ledger = self._checked("applied_by")
        answer: dict[str, Any] | str | None = None
        while True:
            try:
                pause_s, ask_s = poll.send(answer)  # type: ignore[arg-type]
            except StopIteration as done:
                applied: Applied = done.value
                return applied
            await asyncio.sleep(pause_s)
            answer = await asyncio.to_thread(ledger.ask, self._about, self, ask_s)

    def _checked(self, method: str) -> LedgerClient:
        if self._ledger is None:
            raise RuntimeError(f"{method}: needs the HTTP service's address, as in Publisher(http='host:55002')")
        return self._ledger

    def _poll(
        self, clients: int | float, timeout_s: float
    ) -> Generator[tuple[float, float], dict[str, Any] | str, Applied]:
        """Yields (how long to wait, how long an answer may take), takes the answer; the waiting is the caller's."""
        _check_wanted(clients)
        check_wait(timeout_s)
        deadline_s = time.monotonic() + timeout_s
        pause_s = 0.0
        known: tuple[dict[str, Any] | str, Applied | None] | None = None
        while True:
            left_s = deadline_s - time.monotonic()
            answer = yield min(pause_s, max(left_s, 0.0)), max(_ASK_S_MIN, min(left_s - pause_s, _ASK_TIMEOUT_S))
            if not isinstance(answer, str):
                self._check_outcome(answer)
            applied = None if isinstance(answer, str) or not self._counts(answer) else _applied(answer)
            if applied is not None and _enough(applied, clients):
                return applied
            # The last ask may have no time left to be answered: then what was known before is said.
            if known is None or not isinstance(answer, str):
                known = answer, applied
            if time.monotonic() >= deadline_s:
                raise NotApplied(self._late(clients, timeout_s, *known), known[1])
            pause_s = min(POLL_MAX_S, pause_s * POLL_FACTOR or POLL_FIRST_S)

    def _ask_for_outcome(self, timeout_s: float) -> Generator[tuple[float, float], Outcome, Outcome]:
        """The same as _poll(), until the outcome is known, or the time is over."""
        check_wait(timeout_s)
        deadline_s = time.monotonic() + timeout_s
        pause_s = 0.0
        while True:
            left_s = deadline_s - time.monotonic()
            outcome = yield min(pause_s, max(left_s, 0.0)), max(_ASK_S_MIN, min(left_s - pause_s, _ASK_TIMEOUT_S))
            if outcome.outcome != UNKNOWN or self.offset < 0 or time.monotonic() >= deadline_s:
                return outcome
            pause_s = min(POLL_MAX_S, pause_s * POLL_FACTOR or POLL_FIRST_S)

    def _check_outcome(self, answer: dict[str, Any]) -> None:
        """Raises NeverApplied."""
        if answer.get("outcome") in (STALE, REJECTED):
            outcome = Outcome.of(answer, self._about[2], self.version)
            raise NeverApplied(f"{'/'.join(self._about)} version {self.version}: is {outcome}", outcome)

    def _counts(self, answer: dict[str, Any]) -> bool:
        """Returns true if the matcher had read this publish when it answered."""
        if answer["position"] <= self.offset or not answer["published"]:
            return False
        return self._incarnation is None or answer["incarnation"] >= self._incarnation

    def _late(
        self, clients: int | float, timeout_s: float, answer: dict[str, Any] | str, applied: Applied | None
    ) -> str:
        about = f"{'/'.join(self._about)} version {self.version}"
        if isinstance(answer, str):
            return f"{about}: how many have applied it is not known after {timeout_s:g} s: {answer}"
        if applied is None:
            return f"{about}: the matcher has not read it within {timeout_s:g} s"
        wanted = f"{clients:.0%} were" if isinstance(clients, float) else f"{clients} were"
        counted = f" ({applied.counted})" if applied.counted else ""
        names = [str(one["client"]) for one in answer["items"]]
        more = [f"{applied.lacking - len(names)} more"] if applied.lacking > len(names) else []
        who = f": {', '.join(names + more)}" if names else ""
        return (
            f"{about}: {applied.applied} of {applied.registered} registered clients have applied it after "
            f"{timeout_s:g} s ({wanted} wanted); {applied.lacking} lack it{who}{counted}"
        )


def _check_wanted(clients: int | float) -> None:
    fraction = isinstance(clients, float) and 0 <= clients <= 1
    count = isinstance(clients, int) and not isinstance(clients, bool) and clients >= 0
    if not fraction and not count:
        raise ValueError(f"clients: {clients!r} is neither a count (int) nor a fraction (float) from 0.0 to 1.0")


def _applied(answer: dict[str, Any]) -> Applied:
    applied = Applied(answer["applied"], answer["lacking"])
    said = []  # a matcher of release 0.1.0 says nothing of the first two
    if by_query := answer.get("by_query"):
        said.append(f"{by_query} of them registered by a query")
    if told := answer.get("told_at_least"):
        said.append(f"{told} of them cannot report callbacks, and count as applied once told")
    if answer.get("version") != answer.get("wanted_version"):
        said.append(f"a newer version counts, too: {answer['version']} is the newest")
    applied.counted = "; ".join(said)
    return applied


def _enough(applied: Applied, clients: int | float) -> bool:
    if isinstance(clients, float):
        if not applied.registered:
            return clients == 0  # of nobody no share is known to have it
        # Not applied / registered >= clients: 0.1 of 10 would be 1.0000000000000002 or less, as it happens.
        return applied.applied >= clients * applied.registered - 1e-9
    return applied.applied >= clients
