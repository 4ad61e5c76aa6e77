"""Decisions as headers: what is written is read, and nothing else is."""

import pytest
from coldnotify_schemas.decisions import DECIDED_HEADER, ConditionVerdict, Decided, decided_header, decided_of

EPOCH = 77


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        (Decided(4, ConditionVerdict.WON, 6, 1), b"won 6 1"),
        (Decided(4, ConditionVerdict.WON, 6, 0, again=True), b"won 6 0 again"),
        (Decided(4, ConditionVerdict.LOST), b"lost"),
        (Decided(4, ConditionVerdict.LOST, again=True), b"lost again"),
        (Decided(4, ConditionVerdict.SAME), b"same"),
        (Decided(4, ConditionVerdict.UNKNOWN), b"unknown"),
    ],
)
def test_a_decision_is_read_as_it_was_written(decided: Decided, words: bytes) -> None:
    name, value = decided_header(EPOCH, decided)
    assert (name, value) == (DECIDED_HEADER, b"0000004d/4 " + words)
    assert decided_of(value, EPOCH, 4) == decided
    assert decided_of(value, EPOCH, 3) is None
    assert decided_of(value, EPOCH + 1, 4) is None


@pytest.mark.parametrize(
    "words", [b"", b"won", b"won 6", b"won 6 x", b"won -1 0", b"won 6 0 1", b"lost 6 0", b"again", b"Won 6 0", b"\xff"]
)
def test_nothing_else_is_a_decision(words: bytes) -> None:
    assert decided_of(b"0000004d/4 " + words, EPOCH, 9) is None
