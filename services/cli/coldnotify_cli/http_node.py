"""Asks the HTTP service; any node answers for all partitions."""

import json
from collections.abc import Iterator
from typing import Any

import click

from coldnotify_cli.asked_ports import why_no_answer
from coldnotify_cli.credentials import http_base, http_context, read_token
from coldnotify_cli.settings import HttpNodeSettings

_NOT_FOUND = 404


class NotKnown(click.ClickException):
    """The service knows nothing of this name."""


class HttpNode:
    """The HTTP service of `settings.http`."""

    def __init__(self, settings: HttpNodeSettings, *, timeout_s: float = 0.0) -> None:
        """`timeout_s`: an answer may take so long, even if the setting is lower."""
        if not settings.http.strip():
            raise click.UsageError("COLDNOTIFY_HTTP / --http: is empty, expected host:port")
        # Here, because the command's own start does not wait for the client's package.
        from coldnotify._http_requests import HttpRequests

        base, token = http_base(settings, settings.http), read_token(settings) or None
        self._requests = HttpRequests(base, token, http_context(settings))
        self._timeout_s = max(settings.http_timeout_s, timeout_s)

    def get(self, *path: str, **query: object) -> Any:
        """Returns the JSON at /v1/path; query parameters of None are left out. Raises click.ClickException."""
        return self.ask("GET", *path, **query)

    def ask(self, method: str, *path: str, body: object = None, **query: object) -> Any:
        """The same with another method; `body` is sent as JSON, unless it is None."""
        from coldnotify._http_requests import HttpRefusal, HttpUnanswered, path_of

        data = None if body is None else json.dumps(body).encode()
        asked = path_of(*path)
        try:
            return self._requests.ask(method, asked, data, query=query, timeout_s=self._timeout_s)
        except HttpRefusal as refusal:
            # Of a change it is said, too, whether it may have been made.
            outcome = f" ({refusal.answer['outcome']})" if "outcome" in refusal.answer else ""
            kinds = {_NOT_FOUND: NotKnown, 400: click.UsageError}
            raise kinds.get(refusal.status, click.ClickException)(f"{refusal}{outcome}") from None
        except HttpUnanswered as error:
            base = self._requests.base
            why = why_no_answer(error.cause, base + asked, self._timeout_s)
            raise click.ClickException(f"no HTTP service at {base} (--http): {why}") from None

    def pages(self, *path: str, limit: int | None, **query: object) -> Iterator[dict[str, Any]]:
        """The answers of a paged list, page after page, at most `limit` items in all."""
        from coldnotify._http_requests import pages_of

        yield from pages_of(lambda part: self.get(*path, **query, **part), limit)

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
