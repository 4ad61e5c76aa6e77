"""A matcher of `coldnotify up` dies: up removes it from its group, though no other matcher could watch it."""

from pathlib import Path

import pytest
from coldnotify_cli.dead_matchers import remove_dead_matcher
from coldnotify_kafka.broker import free_port
from coldnotify_testkit.stack import Stacks
from coldnotify_testkit.waiting import wait_for
from structlog.testing import capture_logs

REMOVED = "a matcher died: removed from its group"


@pytest.mark.kafka
def test_a_matcher_of_up_that_is_killed_is_removed_by_up(stacks: Stacks, tmp_path: Path) -> None:
    # They cannot watch each other: an address at which nobody listens.
    alone = {"node_addresses": "inside=127.0.0.1:1", "matcher_session_timeout_ms": "60000"}
    with stacks.running(tmp_path, "--matchers=2", **alone) as up:
        before = up.kill("matcher-2")
        wait_for(lambda: any(REMOVED in line for line in up.log_lines()), "its removal")
        up.wait_ready(other_than=before)


def test_without_kafka_the_reason_is_told() -> None:
    with capture_logs() as said:
        remove_dead_matcher(f"127.0.0.1:{free_port()}", "", "some-group", "matcher-1")
    (line,) = said
    assert line["event"] == "a matcher died, and its group notices it by its session timeout"
    assert "some-group" in line["reason"]
