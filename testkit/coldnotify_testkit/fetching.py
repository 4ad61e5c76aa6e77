"""For tests: what an HTTP port answers, whatever the status."""

import json
import ssl
from email.message import Message
from typing import Any, NamedTuple
from urllib.error import HTTPError
from urllib.request import Request, urlopen

TIMEOUT_S = 100.0
"""Nothing here needs so long but a machine that others keep busy."""


class FetchedAnswer(NamedTuple):
    """All of it, read to its end."""

    status: int
    body: bytes
    headers: Message

    @property
    def text(self) -> str:
        """The body."""
        return self.body.decode()

    def json(self) -> Any:
        """The body."""
        return json.loads(self.body)


def fetch(request: str | Request, timeout_s: float = TIMEOUT_S, context: ssl.SSLContext | None = None) -> FetchedAnswer:
    """GET of an address, or a request. Raises OSError if nobody answers."""
    try:
        with urlopen(request, timeout=timeout_s, context=context) as answer:
            return FetchedAnswer(answer.status, answer.read(), answer.headers)
    except HTTPError as error:
        with error:  # it holds the connection
            return FetchedAnswer(error.code, error.read(), error.headers)
