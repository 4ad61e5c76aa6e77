"""Tallies and their judgement."""

from dataclasses import replace

from coldnotify_load.bench_topics import BenchTopics
from coldnotify_load.mark_tally import BenchVerdict, MarkedPublishes, MarkTally, judge, published_by
from coldnotify_load.marks import Mark

TOPICS = BenchTopics(topics=2)
"""Two clients: each has one of them."""
FIRST, SECOND = 0, 1


def mark(topic: int, seq: int, version: int = 0, run: str = "a") -> Mark:
    """A mark whose version is 100 + seq, or as said."""
    return Mark("boot", run, topic, seq, version or 100 + seq, 1)


def tally(topics: BenchTopics = TOPICS) -> MarkTally:
    """Both clients, from version 100 to 199."""
    made = MarkTally(topics)
    for device in (FIRST, SECOND):
        made.add(device)
    made.measure(100, 200)
    return made


def judged(
    made: MarkTally, topics: BenchTopics = TOPICS, published: dict[int, MarkedPublishes] | None = None
) -> BenchVerdict:
    return judge(topics, {0: made.all()}, {0: 2}, published if published is not None else published_by([made.all()]))


def test_repeats_and_other_times_do_not_count() -> None:
    made = tally()
    assert not made.told(FIRST, mark(0, 1, version=99))
    assert made.told(FIRST, mark(0, 2))
    assert not made.told(FIRST, mark(0, 2))
    assert not made.told(FIRST, mark(0, 90, version=200))
    assert not made.told(FIRST, mark(1, 3)), "it has not this topic"
    assert made.all().strays == 1
    assert judged(made) == BenchVerdict(1, 1, 0, 0)


def test_a_version_between_was_outdone_and_the_newest_is_owed() -> None:
    made = tally()
    for seq in (1, 2, 5):
        made.told(FIRST, mark(0, seq))
    assert judged(made) == BenchVerdict(5, 3, 2, 0)
    published = {0: MarkedPublishes(6, 106), 1: MarkedPublishes(2, 102)}
    assert judged(made, published=published) == BenchVerdict(8, 3, 3, 2)


def test_a_later_version_outdoes_the_last_one_of_the_time() -> None:
    made = tally()
    made.told(FIRST, mark(0, 1))
    made.told(FIRST, mark(0, 3, version=250))
    assert judged(made, published={0: MarkedPublishes(2, 102)}) == BenchVerdict(2, 1, 1, 0)


def test_every_message_of_a_channel_is_owed() -> None:
    channels = replace(TOPICS, channels=True)
    made = tally(channels)
    for seq in (1, 2, 5):
        made.told(FIRST, mark(0, seq))
    assert judged(made, channels) == BenchVerdict(5, 3, 0, 2)


def test_clients_that_share_a_topic_know_what_the_other_one_lacks() -> None:
    shared = BenchTopics(topics=1)
    made = tally(shared)
    made.told(FIRST, mark(0, 1))
    assert judged(made, shared) == BenchVerdict(2, 1, 0, 1)


def test_devices_of_a_process_that_is_gone_were_told_nothing() -> None:
    published = {0: MarkedPublishes(1, 101), 1: MarkedPublishes(1, 101)}
    assert judge(TOPICS, {}, {0: 2}, published) == BenchVerdict(2, 0, 0, 2)


def test_publishes_are_counted_over_runs_and_processes() -> None:
    one, other = tally(), tally()
    one.told(FIRST, mark(0, 4))
    other.told(FIRST, mark(0, 6))
    other.told(FIRST, mark(0, 1, version=120, run="b"))
    assert published_by([one.all(), other.all()]) == {0: MarkedPublishes(3 + 1, 120)}


def test_the_time_may_end_sooner() -> None:
    made = tally()
    made.end(102)
    assert made.told(FIRST, mark(0, 1))
    assert not made.told(FIRST, mark(0, 2))
