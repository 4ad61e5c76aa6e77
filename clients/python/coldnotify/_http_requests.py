"""`HttpRequests` asks the HTTP service; whoever asks it from Python does so here."""

import json
import math
import ssl
from collections.abc import Callable, Iterator, Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

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

    def __init__(self, status: int, answer: dict[str, Any], retry_after: str | None) -> None:
        super().__init__(str(answer.get("error", f"HTTP status {status}")))
        self.status = status
        self.answer = answer
        """The JSON object of its body; empty: it has none, as that of a balancer."""
        self.retry_after_s = _seconds(answer.get("retry_after_s", retry_after))
        """After so long the request may be sent again; None: the answer has not said."""


class HttpRequests:
    """One service, and one identity. Safe to use from many threads."""

    def __init__(self, url: str, token: str | None, context: ssl.SSLContext | None, *, argument: str = "url") -> None:
        """`url`: host:port or a URL. Raises ValueError that names the argument."""
        base = url.strip().rstrip("/")
        self.base = base if base.startswith(("http://", "https://")) else f"http://{base}"
        if self.base == "http://":
            raise ValueError(f"{argument}: {url!r} is neither host:port nor a URL")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._context = context

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
        url = self.base + path + (f"?{urlencode(given)}" if given else "")
        try:
            request = Request(url, body, self._headers, method=method)
            with urlopen(request, timeout=timeout_s, context=self._context) as response:
                answer = json.load(response)
        except HTTPError as error:
            with error:
                raise HttpRefusal(error.code, _answer_of(error), error.headers.get("Retry-After")) from None
        except (OSError, HTTPException, ValueError) as error:
            unsent = isinstance(error, URLError) and isinstance(error.reason, ConnectionRefusedError)
            raise HttpUnanswered(self.base, error, unsent=unsent) from None
        if not isinstance(answer, dict):
            raise HttpUnanswered(self.base, ValueError("its answer is not a JSON object"), unsent=False)
        return answer


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
