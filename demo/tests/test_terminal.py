"""Colours are for people only."""

import io

import pytest
from coldnotify_demo.terminal import Terminal


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(stream: io.StringIO) -> str:
    terminal = Terminal(stream)
    terminal.line("ou-1", "one\ntwo")
    terminal.outcome("a promise", kept=True)
    terminal.outcome("another", kept=False)
    return stream.getvalue()


def test_output_is_plain_without_a_terminal() -> None:
    assert written(io.StringIO()) == (
        "ou-1       | one\nou-1       | two\n           = ok: a promise\n           = FAILED: another\n"
    )


def test_output_is_coloured_on_a_terminal_unless_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[" in written(Tty())
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in written(Tty())
