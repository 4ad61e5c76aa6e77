"""The engine as a whole: it begins with nothing, and all that it counts has a metric.

Stands for: engine, partition_state, outbox, object_records
"""

import re
from pathlib import Path

from coldnotify_matcher import engine, metrics
from coldnotify_matcher.engine import Engine
from coldnotify_testkit.engine_bench import EPOCH, PARTITION, PARTITIONS


def test_every_count_has_its_metric() -> None:
    names = set(_counted_names())

    labels = {*metrics.MESSAGE_OUTCOMES, *metrics.MESSAGE_WAYS}
    assert names <= {*metrics.EVENTS, *metrics.OTHER_EVENTS, *labels}


def _counted_names() -> list[str]:
    source = "".join(path.read_text() for path in sorted(Path(engine.__path__[0]).rglob("*.py")))
    names = re.findall(r'"([a-z_]+)"', "\n".join(re.findall(r"\.count\((.*)\)", source)))
    assert len(set(names)) > 15, "the calls look otherwise now"
    return names


def test_an_engine_begins_with_nothing() -> None:
    new = Engine(PARTITION, PARTITIONS, EPOCH)

    assert not new.take_step(0)
    assert new.state.position == 0
