"""What is stored of clients: written again where another wrote over it, and always with its generation."""

import msgspec
import pytest
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import (
    PREFIX,
    EngineBench,
)

TOPICS = TopicNames()


@pytest.mark.parametrize("topic", [TOPICS.registrations, TOPICS.sessions])
@pytest.mark.parametrize("by", ["null", "zombie"])
def test_what_a_zombie_or_a_null_overwrote_is_written_again(topic: str, by: str) -> None:
    bench = EngineBench()
    bench.opened("a")
    bench.load()
    before = bench.latest(topic)
    key, value = next((key, value) for key, value in before.items() if key.startswith(PREFIX))
    zombies = None if by == "null" else value.replace(b'"generation":2', b'"generation":1')
    bench.log.append(topic, key.encode(), zombies)
    bench.settle()

    after = bench.latest(topic)

    if topic == TOPICS.registrations:
        assert b'"a"' in after[key]
    assert b'"generation":2' in after[key]


def test_a_zombies_bucket_of_a_client_that_is_not_known_any_more_is_removed() -> None:
    bench = EngineBench()
    bench.load()
    key = f"{PREFIX}gone/0"
    bench.log.append(TOPICS.registrations, key.encode(), b'{"format":1,"generation":1,"applied":0,"objects":["a"]}')
    bench.settle()

    assert key not in bench.latest(TOPICS.registrations)


def test_every_state_record_says_its_generation() -> None:
    bench = EngineBench()
    for session in (1, 2):
        bench.opened("a", session=session)
        bench.load()
    bench.opened("a", session=3)

    for topic in (TOPICS.registrations, TOPICS.sessions):
        generations = [msgspec.json.decode(record.value or b"")["generation"] for record in bench.log.records[topic]]
        assert generations == sorted(generations)
        assert generations[-1] == (3 if topic == TOPICS.sessions else 1)
