"""A link of 50 kbit/s with a large backlog: the newest is what it carries, and keepalive survives."""

from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_cli.testing_slow_link import SlowLink, needed_bytes
from coldnotify_cli.testing_up import Recorder, Up, notify, wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
NAMES = [f"slow-{i}" for i in range(80)]
PAYLOAD = "x" * 700
BITS_PER_S = 50_000
VERSIONS = 10
"""Of each object while it is away, and as many again while it catches up."""
SENT_PER_NEEDED_MAX = 8
"""Sending every version would be 20. What is outdone while it waits in a page or a socket's buffer is sent all the
same: 64 KiB of each, and the kernel doubles its own."""


def test_a_backlog_comes_as_the_newest_of_each_and_pongs_come_in_between(up: Up, tmp_path: Path) -> None:
    first, told = Recorder(), Recorder()
    state = tmp_path / "state"
    with notify(up, "slow", state) as ou:
        for name in NAMES:
            ou.register(name).subscribe(first)
        wait_for(lambda: len({one.object_id for one in first.seen}) == len(NAMES), "registered")
    with SlowLink(*up.gateway, bits_per_s=BITS_PER_S) as link, Publisher(kafka=up.kafka) as publisher:
        for version in range(1, VERSIONS + 1):
            for name in NAMES:
                publisher.publish(DOMAIN, GROUP, name, version=version, payload=PAYLOAD)
        publisher.flush(60)
        connection = Connection(address="127.0.0.1", port=link.port, keepalive_s=2)
        slow = Notify(
            domain=DOMAIN, group_id=GROUP, client_id="slow", state=State(filename=str(state)), connection=connection
        )
        with slow as ou:
            for name in NAMES:
                ou.register(name).subscribe(told)
            wait_for(lambda: told.seen, "it makes progress")
            # It is behind by more than the link carries in seconds, and more is published all the time.
            for version in range(VERSIONS + 1, 2 * VERSIONS + 1):
                for name in NAMES:
                    publisher.publish(DOMAIN, GROUP, name, version=version, payload=PAYLOAD)
                publisher.flush(60)
            wait_for(lambda: all(told.newest(name) == 2 * VERSIONS for name in NAMES), "caught up", timeout_s=240)
            assert ou.status.last_problem is None, "the connection held"
            wait_for(lambda: link.times_of("pong"), "a Ping was answered")
        assert len(link.times_of("welcome")) == 1, "all on one connection"
        needed = needed_bytes(NAMES, PAYLOAD, 2 * VERSIONS)
        assert link.down_bytes / needed < SENT_PER_NEEDED_MAX, (link.down_bytes, needed)
        for name in NAMES:
            versions = told.versions(name)
            assert versions == sorted(versions, key=lambda v: v or 0), "never backwards"
