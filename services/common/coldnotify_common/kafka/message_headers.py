"""A message's headers as Kafka's client hands them out, or None where it cannot: `headers_of`. Never read them else."""

from operator import methodcaller

from confluent_kafka import Message

Headers = list[tuple[str, str | bytes | None]]

_headers = methodcaller("headers")
"""Called so, and never as `message.headers()`. Of a name that is not UTF-8 the client returns a list with nothing in
the header's place, and leaves its exception pending. The interpreter checks what this call returns, and raises
SystemError. A method call in code is not checked: the exception comes lines later, anywhere, or the process dies."""


def headers_of(message: Message) -> Headers | None:
    """The headers, empty if there are none; None: they cannot be read, as a name is not UTF-8.

    Behind None nobody may touch this message's headers again: the client has kept its broken list.
    """
    try:
        return _headers(message) or []
    except (SystemError, UnicodeDecodeError):
        return None
