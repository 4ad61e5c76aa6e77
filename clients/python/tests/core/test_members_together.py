"""Members of a set are taken in with the last one that the client is sent.

Stands for: members_together
"""

from coldnotify._core.session.members_together import WAITING_MAX, MembersTogether
from coldnotify_schemas import wire_pb2 as wire


def frame(name: str, offset: int, behind: int = 0, *, more: bool = False, answer: bool = False) -> wire.Notification:
    return wire.Notification(name=name, version=1, offset=offset, behind=behind, more=more, answer=answer)


def names(*frames: wire.Notification) -> list[str]:
    """The names that are taken in with each of these frames."""
    together = MembersTogether()
    return ["".join(one.name for one in together.take(each)) for each in frames]


def test_members_wait_for_the_last_one() -> None:
    assert names(frame("a", 4), frame("b", 5, 1, more=True), frame("c", 5, 1, more=True), frame("d", 5)) == [
        "a",
        "",
        "",
        "bcd",
    ]


def test_an_older_floor_of_the_partition_changes_nothing() -> None:
    assert names(frame("a", 9, 7, more=True), frame("b", 9, 7), frame("c", 10, 8)) == ["", "ab", "c"]


def test_a_higher_complete_ends_the_wait() -> None:
    assert names(frame("a", 5, 1, more=True), frame("b", 6)) == ["", "ab"]
    assert names(frame("a", 5, 1, more=True), frame("b", 7, 1, more=True), frame("c", 7)) == ["", "a", "bc"]
    together = MembersTogether()
    together.take(frame("a", 5, 1, more=True))
    assert not together.release(4)
    assert [one.name for one in together.release(5)] == ["a"]
    assert not together.release(9)


def test_urgent_frames_and_answers_do_not_end_it() -> None:
    assert names(frame("a", 5, 1, more=True), frame("u", 8, 6), frame("x", 0, answer=True), frame("b", 5)) == [
        "",
        "u",
        "x",
        "ab",
    ]


def test_a_gateway_that_says_more_for_ever_is_not_waited_for() -> None:
    together = MembersTogether()
    for number in range(WAITING_MAX):
        assert not together.take(frame(str(number), 5, 1, more=True))
    assert len(together.take(frame("last", 5, 1, more=True))) == WAITING_MAX + 1
