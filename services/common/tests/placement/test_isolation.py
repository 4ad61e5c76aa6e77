"""A gateway asks others only after Kafka's silence, and believes itself alone only if Kafka answers another."""

from coldnotify_common.placement.isolation import ASK_EVERY_S, Isolation

AFTER_S = 15.0


def silent(isolation: Isolation, seconds: float, begin_s: float = 0.0, heard_s: float = 0.0) -> list[float]:
    """Lets time pass by ticks without an answer of Kafka's. Returns when the others were asked."""
    asked = []
    for step in range(1, int(seconds * 4) + 1):
        now_s = begin_s + step / 4
        if isolation.tick(now_s, heard_s):
            asked.append(now_s)
    return asked


def test_others_are_asked_after_the_silence_and_every_few_seconds() -> None:
    isolation = Isolation(AFTER_S)
    isolation.tick(0.0, 0.0)
    asked = silent(isolation, 26)
    assert asked == [AFTER_S, AFTER_S + ASK_EVERY_S, AFTER_S + 2 * ASK_EVERY_S]
    assert isolation.silent
    assert not isolation.alone


def test_one_that_kafka_answers_makes_it_alone_until_kafka_answers_here() -> None:
    isolation = Isolation(AFTER_S)
    isolation.tick(0.0, 0.0)
    silent(isolation, 16)
    said = []
    for ready in (True, False, True):
        isolation.answered(ready=ready)
        said.append(isolation.alone)
    assert said == [True, False, True], "it may answer nobody by now"
    isolation.tick(16.25, 16.1)
    assert (isolation.alone, isolation.silent) == (False, False)


def test_an_answer_that_came_too_late_counts_for_nothing() -> None:
    isolation = Isolation(AFTER_S)
    isolation.tick(0.0, 0.0)
    silent(isolation, 16)
    isolation.tick(16.25, 16.2)
    isolation.answered(ready=True)
    assert not isolation.alone


def test_a_gateway_that_stood_still_has_not_listened() -> None:
    isolation = Isolation(AFTER_S)
    isolation.tick(0.0, 0.0)
    assert not isolation.tick(3600.0, 0.0)
    assert isolation.silence_s <= 1.0


def test_never() -> None:
    isolation = Isolation(0)
    isolation.tick(0.0, 0.0)
    assert silent(isolation, 60) == []
    isolation.answered(ready=True)
    assert not isolation.alone
