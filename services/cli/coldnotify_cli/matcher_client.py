"""Asks what matchers know: through the HTTP service, or at their own ports, each for some partitions."""

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
from coldnotify_cli.credentials import InsideWay
from coldnotify_cli.http_node import HttpNode, NotKnown
from coldnotify_cli.settings import LookSettings

_NOT_FOUND, _NOT_NOW, _NOT_HERE = 404, 409, 503


def matchers_of(settings: LookSettings) -> "HttpNode | Matchers":
    """Returns the HTTP service, or with --matcher the matchers themselves. Raises SettingError, click.UsageError."""
    return Matchers(settings) if settings.matcher else HttpNode(settings)


class Matchers:
    """The matchers of `settings.matcher`."""

    def __init__(self, settings: LookSettings) -> None:
        """Raises SettingError."""
        self._addresses = [address.strip() for address in settings.matcher.split(",") if address.strip()]
        if not self._addresses:
            raise click.UsageError("COLDNOTIFY_MATCHER / --matcher: is empty, expected host:port")
        self._timeout_s = settings.matcher_timeout_s
        self._way = InsideWay(settings, settings.matcher_timeout_s)

    def get(self, *path: str, **query: object) -> Any:
        """The answer of the first matcher that has one. Raises NotKnown, click.ClickException."""
        failures = []
        for address in self._addresses:
            try:
                return self._ask(address, path, query)
            except _NoAnswer as error:
                failures.append(str(error))
        raise click.ClickException("; ".join(failures))

    def of_matchers(self, path: str, body: object = None) -> dict[str, Any]:
        """Returns what `HttpNode.of_matchers` does. Raises NotKnown, click.ClickException if none answers."""
        rows: list[dict[str, Any]] = []
        matchers: list[dict[str, Any]] = []
        for address in self._addresses:
            try:
                answer = self._ask(address, (path,), {}, body)
            except NotKnown:
                raise
            except (_NoAnswer, click.ClickException) as error:
                matchers.append({"address": address, "error": str(error)})
                continue
            rows += [{"matcher": address, **row} for row in answer.pop("items")]
            matchers.append({"address": address, "error": None, **answer})
        if all(one["error"] for one in matchers):
            raise click.ClickException("; ".join(one["error"] for one in matchers))
        return {"items": rows, "matchers": matchers}

    def items(self, *path: str, limit: int | None) -> Iterator[dict[str, Any]]:
        """The items of a paged list, page after page, at most `limit`."""
        after: str | None = None
        while limit is None or limit > 0:
            wanted = ITEMS_PER_PAGE_MAX if limit is None else min(limit, ITEMS_PER_PAGE_MAX)
            query: dict[str, object] = {"limit": wanted} | ({} if after is None else {"after": after})
            page = self.get(*path, **query)
            yield from page["items"]
            after = page["next"]
            if after is None:
                return
            if limit is not None:
                limit -= len(page["items"])

    def _ask(self, address: str, path: tuple[str, ...], query: dict[str, object], body: object = None) -> Any:
        base, context = self._way.to(address)
        url = f"{base}/v1/" + "/".join(quote(part, safe="") for part in path)
        if query:
            url += "?" + urlencode(query)
        asked: str | Request = url
        if body is not None:
            asked = Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="PATCH")
        try:
            with urlopen(asked, timeout=self._timeout_s, context=context) as response:
                return json.load(response)
        except HTTPError as error:
            with error:
                words = _error_words(error)
            if error.code == _NOT_FOUND:
                raise NotKnown(words) from None
            if error.code == _NOT_HERE:
                raise _NoAnswer(f"matcher {address}: {words}") from None
            if error.code == _NOT_NOW:
                raise click.ClickException(f"matcher {address}: {words}") from None
            if error.code < 500:
                raise click.UsageError(words) from None
            raise click.ClickException(f"matcher {address}: {words}") from None
        except (OSError, HTTPException, ValueError) as error:
            why = why_no_answer(error, url, self._timeout_s)
            raise _NoAnswer(f"matcher {address} (--matcher): {why}") from None


class _NoAnswer(Exception):
    """This matcher cannot answer; another may."""


def _error_words(error: HTTPError) -> str:
    try:
        return str(json.load(error)["error"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP status {error.code}"
