"""Asks the HTTP service; any node answers for all partitions."""

import json
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import click
from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX

from coldnotify_cli.asked_ports import why_no_answer
from coldnotify_cli.credentials import http_base, http_context, read_token
from coldnotify_cli.settings import HttpNodeSettings

_NOT_FOUND = 404


class NotKnown(click.ClickException):
    """The service knows nothing of this name."""


class HttpNode:
    """The HTTP service of `settings.http`."""

    def __init__(self, settings: HttpNodeSettings) -> None:
        if not settings.http.strip():
            raise click.UsageError("COLDNOTIFY_HTTP / --http: is empty, host:port is wanted")
        self._base = http_base(settings, settings.http)
        self._timeout_s = settings.http_timeout_s
        self._context = http_context(settings)
        token = read_token(settings)
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def get(self, *path: str, **query: object) -> Any:
        """Returns the JSON at /v1/path; query parameters of None are left out. Raises click.ClickException."""
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: object = None, **query: object) -> Any:
        """The same with another method; `body` is sent as JSON, unless it is None."""
        url = f"{self._base}/v1/" + "/".join(quote(part, safe="") for part in path)
        given = {name: value for name, value in query.items() if value is not None}
        if given:
            url += "?" + urlencode(given)
        data = None if body is None else json.dumps(body).encode()
        try:
            request = Request(url, data, self._headers, method=method)
            with urlopen(request, timeout=self._timeout_s, context=self._context) as response:
                return json.load(response)
        except HTTPError as error:
            with error:
                words = _error_words(error)
            kinds = {_NOT_FOUND: NotKnown, 400: click.UsageError}
            raise kinds.get(error.code, click.ClickException)(words) from None
        except (OSError, HTTPException, ValueError) as error:
            why = why_no_answer(error, url, self._timeout_s)
            raise click.ClickException(f"no HTTP service at {self._base} (--http): {why}") from None

    def pages(self, *path: str, limit: int | None, **query: object) -> Iterator[dict[str, Any]]:
        """The answers of a paged list, page after page, at most `limit` items in all."""
        after: str | None = None
        while True:
            wanted = ITEMS_PER_PAGE_MAX if limit is None else min(limit, ITEMS_PER_PAGE_MAX)
            page = self.get(*path, limit=wanted, after=after, **query)
            yield page
            after = page["next"]
            if limit is not None:
                limit -= len(page["items"])
            if after is None or limit == 0:
                return

    def items(self, *path: str, limit: int | None) -> Iterator[dict[str, Any]]:
        """The items of a paged list, page after page, at most `limit`."""
        for page in self.pages(*path, limit=limit):
            yield from page["items"]

    def of_matchers(self, path: str, body: object = None) -> dict[str, Any]:
        """Returns the rows of all matchers in `items`, and in `matchers` those that answered and those that did not.

        `body`: is sent with PATCH.
        """
        shown: dict[str, Any] = self.ask("GET" if body is None else "PATCH", path, body=body)
        return shown


def _error_words(error: HTTPError) -> str:
    try:
        answer = json.load(error)
        # Of a change it is said, too, whether it may have been made.
        outcome = f" ({answer['outcome']})" if "outcome" in answer else ""
        return f"{answer['error']}{outcome}"
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.code}"
