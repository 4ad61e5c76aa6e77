"""Requests about a group as bytes, and answers that are read field by field."""

import pytest
from coldnotify_common.kafka.group_protocol import (
    KafkaAnswer,
    MalformedAnswer,
    StaticMember,
    describe_group,
    find_coordinator,
    leave_group,
    list_nodes,
    sasl_authenticate,
    sasl_handshake,
)

MEMBERS = (
    b"\0\0\0\0"  # not throttled
    b"\0\0\0\1"  # one group
    b"\0\0\0\1g\0\6Stable\0\10consumer\0\1s"
    b"\0\0\0\2"
    b"\0\3a-1\0\1a\0\1c\0\6/1.2.3\0\0\0\2xy\0\0\0\0"
    b"\0\1d\xff\xff\0\1c\0\6/1.2.4\xff\xff\xff\xff\xff\xff\xff\xff"
    b"\x80\0\0\0"
)


def test_a_request_has_its_length_kind_version_and_number_before_it() -> None:
    framed = leave_group("g", "a", "a-1").framed(7)
    assert framed == (
        b"\0\0\0\x29" + b"\0\x0d\0\3\0\0\0\7" + b"\0\x10coldnotify-group" + b"\0\1g" + b"\0\0\0\1" + b"\0\3a-1\0\1a"
    )
    assert len(framed) == 4 + 0x29


def test_only_static_members_are_described() -> None:
    found = describe_group("g").read(KafkaAnswer(MEMBERS))
    assert found == (0, {"a": StaticMember("a-1", "1.2.3")})


@pytest.mark.parametrize("end", range(len(MEMBERS)))
def test_an_answer_that_is_cut_off_is_malformed(end: int) -> None:
    with pytest.raises(MalformedAnswer):
        describe_group("g").read(KafkaAnswer(MEMBERS[:end]))


def test_an_array_that_is_longer_than_its_answer_ends_with_it() -> None:
    with pytest.raises(MalformedAnswer):
        describe_group("g").read(KafkaAnswer(b"\0\0\0\0\x7f\xff\xff\xff" + b"\0" * 100))


def test_a_coordinator_is_read() -> None:
    answer = KafkaAnswer(b"\0\0\0\0" + b"\0\x0f" + b"\xff\xff" + b"\0\0\0\1" + b"\0\4host" + b"\0\0\x23\x84")
    assert find_coordinator("g").read(answer) == (15, "host", 9092)


def test_the_nodes_of_the_cluster_are_read() -> None:
    listed = b"\0\0\0\2" + b"\0\0\0\1\0\1a\0\0\x23\x84\0\1r" + b"\0\0\0\2\0\1b\0\0\x23\x85\xff\xff"
    answer = KafkaAnswer(b"\0\0\0\0" + listed + b"\0\1c\0\0\0\1\0\0\0\0")
    assert list_nodes().read(answer) == [("a", 9092), ("b", 9093)]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"\0\0\0\0\0\0\0\0\0\1\0\3a-1\0\1a\0\0", 0),
        (b"\0\0\0\0\0\0\0\0\0\1\0\3a-1\0\1a\0\x52", 82),
        (b"\0\0\0\0\0\x10\0\0\0\0", 16),
    ],
)
def test_the_answer_to_leaving_is_an_error_of_the_member_or_of_all(answer: bytes, error: int) -> None:
    assert leave_group("g", "a", "a-1").read(KafkaAnswer(answer)) == error


def test_steps_of_sasl_are_read() -> None:
    assert sasl_handshake("X").read(KafkaAnswer(b"\0\x21\0\0\0\2\0\5PLAIN\0\1Y")) == (33, "PLAIN, Y", b"")
    assert sasl_authenticate(b"\0").read(KafkaAnswer(b"\0\x3a\0\2no\0\0\0\1x" + b"\0" * 8)) == (58, "no", b"x")
