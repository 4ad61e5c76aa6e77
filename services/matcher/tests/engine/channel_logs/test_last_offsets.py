"""The last offsets of channels, by bucket."""

from coldnotify_matcher.engine.channel_logs.last_offsets import LastOffsets
from coldnotify_schemas.matcher_state import CHANNEL_BUCKETS


def test_a_channel_that_never_had_a_message_is_told_from_one_that_is_forgotten() -> None:
    last = LastOffsets()
    last.note("d/g/a", 5)
    for index in range(CHANNEL_BUCKETS):
        last.forget_below(6, index)

    assert last.known("d/g/a") is None
    assert last.of("d/g/a") == 5
    assert last.of("d/g/b") == -1


def test_what_was_written_is_loaded() -> None:
    last, again = LastOffsets(), LastOffsets()
    for number in range(5000):
        last.note(f"d/g/{number}", number)
    for index in last.take_changed():
        again.load(index, *last.bucket(index))

    assert [again.of(f"d/g/{number}") for number in range(5000)] == list(range(5000))
    assert not last.take_changed()


def test_where_nothing_is_known_any_channel_may_have_had_messages() -> None:
    last = LastOffsets()
    last.know_nothing_below(9)
    last.note("d/g/a", 12)

    assert (last.of("d/g/a"), last.of("d/g/b")) == (12, 8)
    assert len(last.take_changed()) == CHANNEL_BUCKETS
