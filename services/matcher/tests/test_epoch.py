"""The epoch changes with all that makes cursors worthless, and with nothing else."""

from coldnotify_matcher.epoch import epoch_of


def test_it_is_32_bits_and_the_same_everywhere() -> None:
    assert epoch_of("AAAAAAAAAAAAAAAAAAAAAA", 8, 0) == 0xBD31D390
    assert 0 < epoch_of("id", 8, 0) < 1 << 32
    assert epoch_of("id", 8, 0) == epoch_of("id", 8, 0)


def test_topic_id_partition_count_and_counter_change_it() -> None:
    epochs = {epoch_of(id_, partitions, counter) for id_ in ("a", "b") for partitions in (8, 9) for counter in (0, 1)}

    assert len(epochs) == 8


def test_it_is_never_0_which_would_mean_none() -> None:
    assert all(epoch_of(str(i), 8, 0) for i in range(1000))
