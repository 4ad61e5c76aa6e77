"""Makes strangers' names safe to display: escapes characters that control a terminal, hide text or reverse it.

A name may contain any characters: an escape sequence that rewrites the screen, a line break that forges a line of a
log, an override of the direction in which all that follows is read.
"""

from unicodedata import category

_SPACES = "Zs"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}


def visible(text: str) -> str:
    r"""Returns the text as one line, with \n, \x1b, \u202e in place of characters that cannot be seen.

    The escapes of all but the first 32 are those of JSON, whose texts never contain those 32 unescaped: so JSON stays
    JSON with the same meaning.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or category(one) == _SPACES else _escaped(one) for one in text)


def visible_lines(text: str) -> str:
    """The same for what may be of several lines: all but the first are indented, so none can pass for another text."""
    return "\n  ".join(map(visible, text.split("\n")))


def _escaped(one: str) -> str:
    if one < " ":
        return _SHORT.get(one) or f"\\x{ord(one):02x}"
    units = one.encode("utf-16-be", errors="surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))
