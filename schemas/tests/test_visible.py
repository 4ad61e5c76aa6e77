"""What is printed for a person holds no character that steers, hides or turns; what is JSON says the same as before."""

import json
import sys
from unicodedata import category

import pytest
from coldnotify_schemas.visible import visible, visible_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("lamp/ü データ 🐧", "lamp/ü データ 🐧"),
        ("a\u00a0b\u3000c", "a\u00a0b\u3000c"),
        ("\x1b[2Jx", "\\x1b[2Jx"),
        ("a\nb\r\t", "a\\nb\\r\\t"),
        ("\u202eevil\u2066", "\\u202eevil\\u2066"),
        ("a\u2028b\x85c\x7f", "a\\u2028b\\u0085c\\u007f"),
        ("\U000e0041\ud800", "\\udb40\\udc41\\ud800"),
    ],
)
def test_control_characters_are_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_every_character_is_safe_after_escaping() -> None:
    shown = visible("".join(map(chr, range(sys.maxunicode + 1))))
    assert {category(one) for one in shown}.isdisjoint({"Cc", "Cf", "Cs", "Zl", "Zp"})


def test_escaped_json_keeps_its_meaning() -> None:
    said = {"object": "".join(map(chr, (*range(0x250), *range(0x2000, 0x2070), 0xFEFF, 0xE0001)))}
    assert json.loads(visible(json.dumps(said, ensure_ascii=False))) == said


def test_a_name_cannot_forge_a_line_of_a_log() -> None:
    assert visible_lines("one\nError: \x1b[1mtwo") == "one\n  Error: \\x1b[1mtwo"
