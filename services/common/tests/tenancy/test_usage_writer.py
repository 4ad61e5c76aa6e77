"""The writer of usage records without a Kafka: nothing waits for it. With one: test_reader."""

from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.usage_writer import UsageWriter


def test_without_a_kafka_nothing_is_taken_and_nothing_waits() -> None:
    taken: list[int] = []

    def take(at_ms: int, partitions: int) -> list[tuple[int, bytes]]:
        taken.append(partitions)
        return []

    writer = UsageWriter(ServiceSettings(kafka="127.0.0.1:1"), take)
    writer.start()
    writer.stop()
    assert taken == [], "what is counted stands in a later record"
    assert writer.written == 0
