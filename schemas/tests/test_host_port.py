"""An address is written as it is read, of IPv6 too; what is none says why."""

import pytest
from coldnotify_schemas.host_port import host_port, parse_host_port


@pytest.mark.parametrize(
    ("host", "port", "text"),
    [
        ("h", 1, "h:1"),
        ("127.0.0.1", 65535, "127.0.0.1:65535"),
        ("::1", 9092, "[::1]:9092"),
        ("fe80::1%lo", 2, "[fe80::1%lo]:2"),
    ],
)
def test_a_written_address_is_read_back(host: str, port: int, text: str) -> None:
    assert host_port(host, port) == text
    assert parse_host_port(text) == (host, port)


@pytest.mark.parametrize(
    ("text", "host"), [("h", "h"), ("[::1]", "::1"), ("::1", "::1"), ("h:7", "h"), ("127.0.0.1", "127.0.0.1")]
)
def test_a_missing_port_is_the_default_one(text: str, host: str) -> None:
    assert parse_host_port(text, 7) == (host, 7)


@pytest.mark.parametrize("text", ["", "h", ":1", "[]:1", "[::1", "[::1]", "[::1]x", "[::1]x:1", "::1", "a b:1", "a]:1"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_host_port(text)


@pytest.mark.parametrize(
    "text", ["h:0", "h:65536", "h:", "h:x", "h:+1", "h:1_0", "h:²", "h:٣", f"h:{'9' * 5000}", "[::1]:"]
)
def test_an_invalid_port_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="has no port from 1 to 65535"):
        parse_host_port(text)
    with pytest.raises(ValueError, match="has no port from 1 to 65535"):
        parse_host_port(text, 7)
