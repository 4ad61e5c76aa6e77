"""`HttpRequests` asks the HTTP service; whoever asks it from Python does so here."""

import json
import math
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from random import Random
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify._core.session.address_book import AddressBook
from coldnotify._http_addresses import REST_S, HttpAddresses, base_of, bases_of, is_unsent, opener

_UNAVAILABLE = 503
_LEFT_S_MIN = 0.1
"""A node is given this time at least, although others have used up what there was."""
_NO_QUERY: Mapping[str, object] = {}


class HttpUnanswered(Exception):
    """The service has not answered: nobody is there, or not in time, or what came is not JSON."""

    def __init__(self, base: str, cause: Exception, *, unsent: bool) -> None:
        self.reason = str(getattr(cause, "reason", None) or cause) or type(cause).__name__
        super().__init__(f"{base}: {self.reason}")
        self.cause = cause
        self.unsent = unsent
        """True: the request has not left this machine."""


class HttpRefusal(Exception):
    """The service has answered with an error; `str()` has its words."""

    def __init__(self, base: str, status: int, answer: dict[str, Any], retry_after: str | None) -> None:
        super().__init__(str(answer.get("error", f"HTTP status {status}")))
        self.base = base
        """The node's URL."""
        self.status = status
        self.answer = answer
        """The JSON object of its body; empty: it has none, as that of a balancer."""
        self.retry_after_s = _seconds(answer.get("retry_after_s", retry_after))
        """After so long the request may be sent again; None: the answer has not said."""


class HttpRequests:
    """One service, and one identity. Safe to use from many threads.

    Of several nodes one is asked as long as it answers. The next one is asked if it cannot be reached, or answers 503
    with Retry-After and has done nothing; and, for a GET, if it does not answer.
    """

    def __init__(
        self,
        url: HttpAddresses,
        token: str | None,
        context: ssl.SSLContext | None,
        *,
        argument: str = "url",
        home: str | None = None,
    ) -> None:
        """`url`: nodes of the service. `home`: one that is asked before others. Raises ValueError that names the
        argument.
        """
        bases = bases_of(url, argument)
        first = None if home is None else base_of(home, "home")
        self._nodes = AddressBook(bases, REST_S, Random(), first)
        self._lock = threading.Lock()
        named = [*([first] if first else []), *(base for base, _ in bases if base != first)]
        self.base = ", ".join(named)
        """The service in words: the URLs of its nodes."""
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._context = context
        self._opener = opener(context) if len(named) > 1 else None

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        query: Mapping[str, object] = _NO_QUERY,
        timeout_s: float,
    ) -> dict[str, Any]:
        """Returns the JSON object of the answer; parts of the query that are None are left out. Raises HttpUnanswered,
        HttpRefusal."""
        given = {name: value for name, value in query.items() if value is not None}
        target = path + (f"?{urlencode(given)}" if given else "")
        if self._opener is None:
            return self._ask(self.base, method, target, body, timeout_s)
        tried: set[str] = set()
        deadline_s = time.monotonic() + timeout_s
        while True:
            base = self._next(time.monotonic())
            try:
                return self._ask(base, method, target, body, max(_LEFT_S_MIN, deadline_s - time.monotonic()))
            except HttpUnanswered as error:
                self._failed(base)
                tried.add(base)
                if not (error.unsent or method == "GET") or self._tried(tried, deadline_s):
                    raise
            except HttpRefusal as refusal:
                if not _is_for_another(method, refusal):
                    raise
                self._failed(base, refusal.retry_after_s or 0.0)
                tried.add(base)
                if self._tried(tried, deadline_s):
                    raise

    def _failed(self, base: str, rest_s: float = 0.0) -> None:
        with self._lock:
            self._nodes.failed(base, time.monotonic(), rest_s)

    def _tried(self, tried: set[str], deadline_s: float) -> bool:
        """Returns true if the next node was tried, too, or the time is over."""
        now_s = time.monotonic()
        return now_s >= deadline_s or self._next(now_s) in tried

    def _next(self, now_s: float) -> str:
        with self._lock:
            base = self._nodes.next(now_s)
        assert base is not None  # there is no directory that would have to be asked first
        return base

    def _ask(self, base: str, method: str, target: str, body: bytes | None, timeout_s: float) -> dict[str, Any]:
        try:
            request = Request(base + target, body, self._headers, method=method)
            with self._open(request, timeout_s) as response:
                answer = json.load(response)
        except HTTPError as error:
            with error:
                raise HttpRefusal(base, error.code, _answer_of(error), error.headers.get("Retry-After")) from None
        except (OSError, HTTPException, ValueError) as error:
            raise HttpUnanswered(base, error, unsent=isinstance(error, URLError) and is_unsent(error.reason)) from None
        if not isinstance(answer, dict):
            raise HttpUnanswered(base, ValueError("its answer is not a JSON object"), unsent=False)
        return answer

    def _open(self, request: Request, timeout_s: float) -> Any:
        if self._opener is None:
            return urlopen(request, timeout=timeout_s, context=self._context)
        return self._opener.open(request, timeout=timeout_s)


def _is_for_another(method: str, refusal: HttpRefusal) -> bool:
    """Returns true if this node has done nothing, and another one may do it now."""
    if refusal.status != _UNAVAILABLE or refusal.retry_after_s is None:
        return False
    return method == "GET" or str(refusal.answer.get("outcome", "")).startswith("not ")


def pages_of(ask: Callable[[Mapping[str, object]], dict[str, Any]], limit: int | None) -> Iterator[dict[str, Any]]:
    """Yields the answers of a paged list, page after page, at most `limit` items in all; None: all.

    `ask` returns one page; it is passed the parts of the query that choose it.
    """
    after: str | None = None
    while True:
        wanted = ITEMS_PER_PAGE_MAX if limit is None else min(limit, ITEMS_PER_PAGE_MAX)
        page = ask({"limit": wanted, "after": after})
        yield page
        after = page["next"]
        limit = None if limit is None else limit - len(page["items"])
        if after is None or limit == 0:
            return


def _seconds(said: Any) -> float | None:
    try:
        seconds = float(said)
    except (TypeError, ValueError, OverflowError):  # a date, too: nobody here says one
        return None
    return seconds if math.isfinite(seconds) else None


def path_of(*parts: str) -> str:
    """Returns the path below /v1 of these parts; each becomes one segment."""
    return "/v1/" + "/".join(quote(part, safe="") for part in parts)


def group_path(domain: str, group: str, *parts: str) -> str:
    """Returns the path of a group, or of these parts below it."""
    return path_of("domains", domain, "groups", group, *parts)


def _answer_of(error: HTTPError) -> dict[str, Any]:
    try:
        answer = json.load(error)
    except (OSError, HTTPException, ValueError):
        return {}
    return answer if isinstance(answer, dict) and "error" in answer else {}
