"""A publisher's repeats: what is known to be there already is not written again, and nothing else is left out."""

import time

import pytest
from coldnotify.publisher import Publisher
from coldnotify_testkit.kafka import reset_topics
from coldnotify_testkit.object_records import written

DOMAIN, GROUP = "animal.observer", "region-1"


@pytest.mark.kafka
def test_an_exact_repeat_is_not_written_again(bootstrap: str, publisher: Publisher) -> None:
    first = publisher.publish(DOMAIN, GROUP, "o", {"a": 1}, version=7, incarnation=0)
    again = publisher.publish(DOMAIN, GROUP, "o", {"a": 1}, version=7, incarnation=0)
    assert (again, first.written, again.written) == (first, True, False)
    assert len(written(bootstrap)) == 1


@pytest.mark.kafka
def test_an_apparent_repeat_is_written(bootstrap: str, publisher: Publisher) -> None:
    for version, payload, incarnation in [
        (7, 1, 0),
        (7, 2, 0),  # another payload
        (7, 1, 0),  # the first again, but not the last any more
        (7, 1, 1),  # another incarnation
        (7, 1, None),  # the one in force, which others may have changed
        (7, 1, None),
        (None, 1, 1),  # each time another version
        (None, 1, 1),
    ]:
        publisher.publish(DOMAIN, GROUP, "o", payload, version=version, incarnation=incarnation)
    assert len(written(bootstrap)) == 8


@pytest.mark.kafka
def test_a_sole_publishers_repeats_need_no_incarnation(bootstrap: str) -> None:
    with Publisher(bootstrap, timeout_s=60, sole_publisher=True) as publisher:
        first = publisher.publish(DOMAIN, GROUP, "o", version=7)
        assert publisher.publish(DOMAIN, GROUP, "o", version=7) == first
        assert publisher.publish(DOMAIN, GROUP, "p", version=7) != first
        publisher.publish(DOMAIN, GROUP, "o", version=1, incarnation=1)
        publisher.publish(DOMAIN, GROUP, "o", version=7)
    assert len(written(bootstrap)) == 4


@pytest.mark.kafka
def test_a_repeat_is_written_again_where_the_topic_is_a_new_one(
    bootstrap: str, publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coldnotify._publishing.sender.REPEAT_TRUST_S", 0.2)
    publisher.publish(DOMAIN, GROUP, "o", {"a": 1}, version=7, incarnation=0)
    reset_topics(bootstrap)
    time.sleep(0.2)
    publisher.publish(DOMAIN, GROUP, "o", {"a": 1}, version=7, incarnation=0)
    assert len(written(bootstrap)) == 1
