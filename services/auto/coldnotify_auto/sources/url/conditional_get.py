"""Conditional GETs: bounded in size and time, with ETag and Last-Modified of the answer before."""

import http.client
import time
import urllib.error
import urllib.request
from typing import NamedTuple
from urllib.parse import urlsplit

_CHUNK_BYTES = 16 * 1024
_READ_S_MAX = 5.0
"""Limit on a single wait for the server, within the limit on the whole."""


class FetchFailed(Exception):
    """There is no usable answer; the message says why."""


class Fetched(NamedTuple):
    """An answer with a body."""

    body: bytes
    gone: bool
    """True for 410 Gone: there is nothing any more."""


def check_url(url: str) -> str:
    """Returns `url` if it can be asked. Raises ValueError with the fault."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("is not a URL with http or https")
    if parts.username or parts.password:
        raise ValueError("contains a user or a password")
    if any(ord(char) <= 32 or ord(char) == 127 for char in url):
        raise ValueError("contains a space or a control character")
    return url


class _OnlyHttp(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req, fp, code, msg, headers, newurl):  # type: ignore[no-untyped-def]
        try:
            check_url(newurl)
        except ValueError as error:
            raise FetchFailed(f"is redirected to {newurl[:200]!r}, which {error}") from None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


class ConditionalGet:
    """Asks one address again and again."""

    def __init__(self, url: str, *, timeout_s: float, bytes_max: int) -> None:
        """`timeout_s`: for a whole answer. `bytes_max`: the largest body."""
        self._url, self._timeout_s, self._bytes_max = url, timeout_s, bytes_max
        self._conditions: dict[str, str] = {}
        self._opener = urllib.request.build_opener(_OnlyHttp())

    def fetch(self) -> Fetched | None:
        """Returns the answer; None if it is the same as before (304). Raises FetchFailed."""
        deadline_s = time.monotonic() + self._timeout_s
        request = urllib.request.Request(self._url, headers={"User-Agent": "coldnotify-auto", **self._conditions})
        try:
            with self._opener.open(request, timeout=min(_READ_S_MAX, self._timeout_s)) as answer:
                if answer.status != 200:
                    raise FetchFailed(f"answered {answer.status}, expected 200")
                body = self._body(answer, deadline_s)
                tag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 304 and self._conditions:
                    return None
                if error.code == 410:
                    self._conditions = {}
                    return Fetched(b"", gone=True)
                raise FetchFailed(f"answered {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise FetchFailed(f"{type(error).__name__}: {error}") from None
        self._conditions = {
            **({"If-None-Match": tag} if tag else {}),
            **({"If-Modified-Since": modified} if modified else {}),
        }
        return Fetched(body, gone=False)

    def _body(self, answer: http.client.HTTPResponse, deadline_s: float) -> bytes:
        body = b""
        while chunk := answer.read1(_CHUNK_BYTES):
            body += chunk
            if len(body) > self._bytes_max:
                raise FetchFailed(f"answered more than {self._bytes_max} bytes")
            if time.monotonic() > deadline_s:
                raise FetchFailed(f"did not answer as a whole within {self._timeout_s:g} s")
        length = answer.headers.get("Content-Length")
        if length is not None and length.isdigit() and int(length) != len(body):
            raise FetchFailed(f"answered {len(body)} of {length} bytes")
        return body
