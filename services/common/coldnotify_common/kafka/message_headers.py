"""Reads a message's headers safely: `headers_of` returns None if the client cannot read them. Use nothing else to read
headers."""

from operator import methodcaller

from confluent_kafka import Message

Headers = list[tuple[str, str | bytes | None]]

_headers = methodcaller("headers")
"""Calls `message.headers()` by methodcaller, never directly. For a name that is not UTF-8, the client returns a list
with NULL in the header's place, and leaves its exception pending. The interpreter checks the result of this call, and
raises SystemError. It does not check a method call in Python code: the exception appears lines later, anywhere, or the
process dies."""


def headers_of(message: Message) -> Headers | None:
    """Returns the headers, empty if there are none; None if they cannot be read, because a name is not UTF-8.

    After None, no code may read this message's headers again, because the client has kept its broken list.
    """
    try:
        return _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return None
