"""Shares through a matcher's process over a real Kafka: a lease outlives its matcher and its member's session, and then
another member has the message.

Stands for: stored_state, matcher_partition
"""

import time
from itertools import count
from pathlib import Path

import msgspec
import pytest
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.share_state import HandOutState, ShareRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import HELD_DONE, INTEREST_SHARE
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, Player, records_of
from coldnotify_testkit.shares_bench import HASH
from coldnotify_testkit.waiting import WAIT_S
from confluent_kafka import Producer

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka
LEASE_S = 3
_HOLD_EVERY_S = 0.5
_sessions = count(1)


class Member:
    """A member of the share `workers` of the channel `tasks`, whose gateway forgets nothing."""

    def __init__(self, player: Player, name: str) -> None:
        self._player = player
        self.name = name
        self.sessions: list[int] = []
        self._number = 0
        self._said_s = 0.0
        self._takeovers = -1

    def live(self, *done: tuple[int, int]) -> None:
        """It says a Hold now and then, which settles these; and it opens another session if the last one is over, or
        another matcher has come."""
        takeovers = len({record.generation for record in self._player.notices})
        over = any(item.closed.session in self.sessions[-1:] for item in self._player.items)
        if over or takeovers != self._takeovers:
            self._takeovers, self._number = takeovers, 0
            self.sessions.append(next(_sessions))
            share = wire_pb2.Interest(kind=INTEREST_SHARE, share="workers", text="tasks")
            body = internal_pb2.Open(digest=HASH % MODULUS, ask=1, interests=[share], shares=True)
            self._player.request(self.sessions[-1], self.name, open=body)
        elif time.monotonic() - self._said_s < _HOLD_EVERY_S:
            return
        self._number += 1
        first = self._number == 1
        said = wire_pb2.HeldShare(share=HASH, prefetch=1 if first else 0, lease_s=LEASE_S if first else 0)
        for offset, hand_out in done:
            said.messages.add(offset=offset, hand_out=hand_out, state=HELD_DONE)
        hold = wire_pb2.Hold(number=self._number, all=first, shares=[said])
        self._player.request(self.sessions[-1], self.name, hold=hold)
        self._said_s = time.monotonic()

    @property
    def handed(self) -> list[wire_pb2.Message]:
        """All messages that it was handed."""
        of_it = [item.handed for item in self._player.items if item.handed.session in self.sessions]
        return [entry.message for handed in of_it for entry in handed.entries]


def share_record(bootstrap: str) -> ShareRecord:
    """Returns the share's last record."""
    key = f"{DOMAIN}/{GROUP}/workers/tasks".encode()
    found = [value for one, value, _ in records_of(bootstrap, TOPICS.shares, PARTITION) if one == key]
    return msgspec.json.decode(found[-1] or b"", type=ShareRecord)


def test_another_member_has_what_a_dead_one_held_after_its_lease_though_the_matcher_died_too(
    bootstrap: str, player: Player, tmp_path: Path
) -> None:
    first, second = Member(player, "a"), Member(player, "b")
    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()

        def is_handed(member: Member) -> object:
            member.live()
            return member.handed

        def is_there() -> bool:
            first.live()
            return any(item.HasField("handed") for item in player.items)

        player.wait(lambda _: is_there(), "its session")
        producer = Producer({"bootstrap.servers": bootstrap})
        producer.produce(TOPICS.channels_1d, b"task", f"{DOMAIN}/{GROUP}/tasks".encode(), PARTITION)
        assert producer.flush(WAIT_S) == 0
        player.wait(lambda _: is_handed(first), "the first hand-out")
        offset = first.handed[0].offset
        (stored,) = share_record(bootstrap).handed_out
        assert (stored.offset, stored.state) == (offset, HandOutState.HELD)
        process.kill()

    with MatcherProcess(bootstrap, tmp_path / "log") as process:
        process.wait_serving()
        player.wait(lambda _: is_handed(second), "the second hand-out")
        assert second.handed[0].payload == b"task"
        assert second.handed[0].hand_out > first.handed[-1].hand_out

        def is_settled() -> bool:
            second.live(*((one.offset, one.hand_out) for one in second.handed[-1:]))
            return share_record(bootstrap).base == offset

        player.wait(lambda _: is_settled(), "its settlement")
    assert share_record(bootstrap).handed_out == []
