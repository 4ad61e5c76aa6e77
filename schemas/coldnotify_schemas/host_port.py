"""host:port, the form of addresses that is read and written everywhere. An IPv6 address has
brackets before its port.
"""

from coldnotify_schemas.whole_numbers import whole_number

_PORT_MAX = 65_535


def host_port(host: str, port: int) -> str:
    """The text of a host and its port."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_host_port(text: str, port: int | None = None) -> tuple[str, int]:
    """Returns the host, without brackets, and the port of host:port or [v6]:port.

    `port`: the default; with it the text may be a host alone, [v6], or an IPv6 address without brackets. Raises
    ValueError with words that follow the text.
    """
    host, colon, number = text.rpartition(":")
    if text.startswith("["):
        host, bracket, number = text[1:].partition("]")
        colon, number = number[:1], number[1:]
        if not bracket or colon not in ("", ":"):
            host = ""
    elif text.count(":") != 1:
        host, colon, number = text, "", ""
    if not host or any(c.isspace() or c in "[]" for c in host) or (port is None and not colon):
        raise ValueError("is not host:port" if port is None else "is not host or host:port")
    if colon:
        port = whole_number(number, _PORT_MAX, minimum=1)
    if port is None:
        raise ValueError(f"has no port from 1 to {_PORT_MAX} after the colon")
    return host, port
