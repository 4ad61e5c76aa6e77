"""Sets as records, and decisions about them as headers: what is written is read, and nothing else is."""

import pytest
from coldnotify_schemas.atomic_sets import (
    DECIDED_SET_HEADER,
    MEMBERS_MAX,
    SET_BYTES_MAX,
    DecidedSet,
    InvalidSet,
    decided_set_header,
    decided_set_of,
    encode_set,
    has_condition,
    parse_set,
    set_key,
)
from coldnotify_schemas.decisions import ConditionVerdict
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.records import InvalidRecord, parse_objects_record

EPOCH = 77


def test_a_set_is_read_as_it_was_written() -> None:
    value = (
        b'{"set":[{"object":"a/b","version":4,"payload":{"x":1}},{"object":"b","deleted":true,"if_version":0},'
        b'{"object":"c","expires_at":9,"if_absent":true,"payload_base64":"/w=="},{"object":"d","source":"s"}]}'
    )
    said = parse_set(value)
    assert encode_set(said) == value.replace(b'"deleted":true,"if_version":0', b'"deleted":true,"if_version":0')
    assert parse_set(encode_set(said)) == said
    assert [one.object for one in said.members] == ["a/b", "b", "c", "d"]
    assert [has_condition(one.said) for one in said.members] == [False, True, True, False]
    assert said.members[2].said.payload_bytes == b"\xff"


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "set: is not"),
        (b'{"set":{}}', "set: is not"),
        (b'{"set":[],"id":"1"}', "set: is not"),
        (b'{"set":[]}', "set: has 0 objects"),
        (b'{"set":[%b]}' % b",".join(b'{"object":"%d"}' % i for i in range(MEMBERS_MAX + 1)), "set: has 101 objects"),
        (b'{"set":[{"object":"a"}%b]}' % (b" " * SET_BYTES_MAX), "set: has 614"),
        (b'{"set":[{"object":""}]}', r"set\[0\].object: "),
        (b'{"set":[{"object":7}]}', r"set\[0\].object: is not text"),
        (b'{"set":[{"object":"a"},{"object":"b"},{"object":"a"}]}', r"set\[2\].object: 'a' is in set\[0\], too"),
        (b'{"set":[{"object":"a","incarnation":1}]}', r"set\[0\].incarnation: "),
        (b'{"set":[{"object":"a","if_version":1,"priority":"high"}]}', r"set\[0\].priority: "),
        (b'{"set":[{"object":"a","if_version":1,"if_changed":true}]}', r"set\[0\].if_changed: "),
        (b'{"set":[{"object":"a","if_version":1,"id":"1"}]}', r"set\[0\].id: "),
    ],
)
def test_nothing_else_is_a_set(value: bytes, words: str) -> None:
    with pytest.raises(InvalidSet, match=words):
        parse_set(value)


def test_release_0_1_0_refuses_the_value() -> None:
    with pytest.raises(InvalidRecord, match="unknown field `set`"):
        parse_objects_record(b'{"set":[{"object":"a"}]}')


def test_a_key_has_the_id() -> None:
    assert set_key("d", "g", "a/1") == "set:d/g/a/1"
    for bad in (("d:", "g", "1"), ("d", "g", ""), ("d", "g", "x" * 65)):
        with pytest.raises(InvalidName):
            set_key(*bad)


@pytest.mark.parametrize(
    ("decided", "words"),
    [
        (DecidedSet(4, ConditionVerdict.WON, ((6, 1), (7, 0))), b"won 6 1 7 0"),
        (DecidedSet(4, ConditionVerdict.WON, ((6, 1),), again=True), b"won 6 1 again"),
        (DecidedSet(4, ConditionVerdict.LOST, (), (0, 3)), b"lost 0 3"),
        (DecidedSet(4, ConditionVerdict.UNKNOWN, (), (2,), again=True), b"unknown 2 again"),
    ],
)
def test_a_decision_is_read_as_it_was_written(decided: DecidedSet, words: bytes) -> None:
    name, value = decided_set_header(EPOCH, decided)
    assert (name, value) == (DECIDED_SET_HEADER, b"0000004d/4 " + words)
    assert decided_set_of(value, EPOCH, 4) == decided
    assert decided_set_of(value, EPOCH, 3) is None
    assert decided_set_of(value, EPOCH + 1, 4) is None


@pytest.mark.parametrize(
    "words", [b"", b"won", b"won 6", b"won 6 x", b"won -1 0", b"lost", b"same 1", b"\xff", b"won " * 300]
)
def test_nothing_else_is_a_decision(words: bytes) -> None:
    assert decided_set_of(b"0000004d/4 " + words, EPOCH, 9) is None
