"""Kafka compacts between a decision and a takeover: the winner stays one, and the loser is none.

Stands for: decisions
"""

from pathlib import Path
from typing import Any

import pytest
from coldnotify.publisher import Publisher, make_record
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.decisions import DECIDED_HEADER
from coldnotify_testkit.kafka import compact_soon
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, TOPICS, MatcherProcess, records_of
from coldnotify_testkit.stack import get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka
LIMIT_S = 200.0


def version(matcher: MatcherProcess, name: str) -> Any:
    path = f"http://127.0.0.1:{matcher.http_port}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}"
    return get_json(path)["version"]


def test_a_takeover_behind_a_compaction_keeps_what_was_decided(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> None:
    kafka = fresh_kafka.bootstrap
    won, lost = make_record(6, "won", if_version=5), make_record(9, "lost", if_version=4)

    def values(name: str) -> list[bytes | None]:
        key = f"{DOMAIN}/{GROUP}/{name}".encode()
        return [value for one, value, _ in records_of(kafka, TOPICS.objects, PARTITION) if one == key]

    with Publisher(kafka) as publisher:
        with MatcherProcess(kafka, tmp_path / "first.log") as first:
            first.wait_serving()
            for name, record in (("winner", won), ("loser", lost)):
                publisher.publish(DOMAIN, GROUP, name, version=5)
                publisher.publish_record(DOMAIN, GROUP, name, record)
            wait_for(lambda: len(values("winner")) == len(values("loser")) == 3, "both are decided")
            assert (version(first, "winner"), version(first, "loser")) == (6, 5)
        compact_soon(kafka, TOPICS.objects)

        def compacted() -> bool:
            publisher.publish(DOMAIN, GROUP, "filler")
            return len(values("winner")) == len(values("loser")) == 1

        wait_for(compacted, "the conditional records are compacted away with what they name", LIMIT_S)
        said = [headers for _, _, headers in records_of(kafka, TOPICS.objects, PARTITION) if DECIDED_HEADER in headers]
        assert len(said) == 2
        with MatcherProcess(kafka, tmp_path / "second.log") as second:
            second.wait_serving()
            assert (version(second, "winner"), version(second, "loser")) == (6, 5)
