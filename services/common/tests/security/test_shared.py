"""What is taken of a bounded thing: nobody has all of it, and who cannot be told from others has no share."""

from coldnotify_common.security.shared import Full, Shared


def test_one_has_a_share_and_all_together_have_what_there_is() -> None:
    shared = Shared(5, of_one=3)
    assert [shared.take("a") for _ in range(4)] == [None, None, None, Full.OF_ONE]
    assert shared.take("b", 2) is None
    assert shared.take("c") is Full.OF_ALL
    assert (shared.taken, shared.of("a"), shared.of("b"), shared.of("c")) == (5, 3, 2, 0)
    shared.give_back("a", 2)
    assert shared.take("c", 3) is Full.OF_ALL
    assert shared.take("c", 2) is None


def test_who_cannot_be_told_from_others_may_have_all() -> None:
    shared = Shared(3, of_one=1)
    assert [shared.take(None) for _ in range(4)] == [None, None, None, Full.OF_ALL]


def test_a_part_is_given_back_behind_its_block_and_only_if_it_was_taken() -> None:
    shared = Shared(2, of_one=1)
    with shared.part("a") as none, shared.part("a") as full:
        assert (none, full, shared.taken) == (None, Full.OF_ONE, 1)
    assert (shared.taken, shared.of("a")) == (0, 0)
