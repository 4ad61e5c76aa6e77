"""Who empties the outbox: in order, again after failures, around what is refused for ever, and after any kill."""

import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._outbox import outbox_delivery
from coldnotify._outbox.outbox_base import RejectedRecord
from coldnotify._outbox.outbox_delivery import NotYet, OutboxDelivery, Outcome, RejectedForEver
from coldnotify._outbox.outbox_directory import OutboxDirectory
from coldnotify_testkit.killed_writers import write_though_killed

WAIT_S = 120

CHILD = """
import sys
from coldnotify._core.publishing.outgoing import Outgoing
from coldnotify._outbox.outbox_directory import OutboxDirectory
directory = OutboxDirectory(sys.argv[1])
for number in range(int(sys.argv[2]), 1000):
    message = Outgoing("d", "g", "c", is_message=True, payload=bytes(number % 700), id=str(number))
    directory.accept([message, Outgoing("d", "g", f"o{number % 7}", version=number)])
    print(number, flush=True)
"""


class Service:
    """A carrier that does what the test says, and keeps what it was brought."""

    def __init__(self) -> None:
        self.brought: list[Outgoing] = []
        self.failures: list[NotYet] = []
        self.refused: set[str] = set()
        self.let_through = threading.Event()
        self.let_through.set()
        self.asked = threading.Event()
        self.stopped = False

    def carry(self, batch: Sequence[Outgoing]) -> list[Outcome]:
        self.asked.set()
        self.let_through.wait(WAIT_S)
        outcomes: list[Outcome] = []
        for outgoing in batch:
            if self.stopped:
                break
            if self.failures:
                outcomes.append(self.failures.pop(0))
                break
            if outgoing.id in self.refused:
                outcomes.append(RejectedForEver("payload: is odd"))
                continue
            self.brought.append(outgoing)
            outcomes.append((3, len(self.brought)))
        return outcomes

    def stop(self) -> None:
        self.stopped = True
        self.let_through.set()

    def close(self) -> None:
        pass


def message(number: int) -> Outgoing:
    return Outgoing("d", "g", "c", is_message=True, payload=b"x", id=str(number))


def test_it_is_sent_in_order_and_receipts_are_told(tmp_path: Path):
    service = Service()
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), service, None)
    accepted = [delivery.accept([message(number)])[0] for number in range(5)]
    assert [receipt.result(WAIT_S).offset for _, receipt in accepted] == [1, 2, 3, 4, 5]
    assert delivery.flush(WAIT_S) == 0
    assert [one.id for one in service.brought] == list("01234")
    delivery.close(WAIT_S)


def test_an_indeterminate_publish_is_sent_again_before_the_rest(tmp_path: Path):
    service = Service()
    service.failures = [NotYet("away"), NotYet("too much", 0.2), NotYet("away")]
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), service, None)
    for number in range(5):
        delivery.accept([message(number)])
    assert delivery.flush(WAIT_S) == 0
    assert [one.id for one in service.brought] == list("01234")
    delivery.close(WAIT_S)


def test_retry_after_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(outbox_delivery, "RETRY_MIN_S", 0.001)
    waits: list[float] = []
    service = Service()
    service.failures = [NotYet("too much", 0.7)]
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), service, None)
    wait_for = delivery._changed.wait_for

    def wait_shortly(until: Callable[[], bool], timeout_s: float) -> bool:
        waits.append(timeout_s)
        return wait_for(until, 0.01)

    monkeypatch.setattr(delivery._changed, "wait_for", wait_shortly)
    delivery.accept([message(1)])
    assert delivery.flush(WAIT_S) == 0
    assert waits == [0.7]
    delivery.close(WAIT_S)


def test_a_permanently_refused_publish_is_set_aside_and_blocks_nothing(tmp_path: Path):
    service = Service()
    service.refused = {"1"}
    told: list[RejectedRecord] = []
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), service, told.append)
    accepted = [delivery.accept([message(number)])[0] for number in range(3)]
    with pytest.raises(RejectedForEver, match="odd"):
        accepted[1][1].result(WAIT_S)
    assert delivery.flush(WAIT_S) == 0
    delivery.close(WAIT_S)
    assert [one.id for one in service.brought] == ["0", "2"]
    assert [(one.channel, one.id, one.reason) for one in told] == [("c", "1", "payload: is odd")]
    assert "payload: is odd" in (tmp_path / "rejected.jsonl").read_text()


def test_a_waiter_for_a_replaced_version_receives_the_newer_one(tmp_path: Path):
    service = Service()
    service.let_through.clear()
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), service, None)
    delivery.accept([message(0)])
    assert service.asked.wait(WAIT_S)  # it is under way; what comes now waits
    old, new = (delivery.accept([Outgoing("d", "g", "o", version=number)])[0][1] for number in (1, 2))
    service.let_through.set()
    assert old.result(WAIT_S) == new.result(WAIT_S)
    assert new.result().version == 2
    delivery.close(WAIT_S)
    assert [one.version for one in service.brought] == [None, 2]


def test_unsent_publishes_are_sent_after_the_next_start(tmp_path: Path):
    service = Service()
    service.let_through.clear()
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), service, None)
    (_, receipt), _ = delivery.accept([message(1), message(2)])
    delivery.close(0)
    with pytest.raises(NotYet, match="closed"):
        receipt.result(WAIT_S)
    again = Service()
    delivery = OutboxDelivery(OutboxDirectory(tmp_path), again, None)
    assert delivery.flush(WAIT_S) == 0
    delivery.close(WAIT_S)
    assert [one.id for one in again.brought] == ["1", "2"]


@pytest.mark.timeout(600)
def test_killed_at_any_moment_everything_accepted_is_sent_once_in_order(tmp_path: Path):
    """A process that accepts 1,000 messages and 1,000 versions is killed five times by SIGKILL, then a service comes.

    What was accepted and not said, when the kill came between the two, may be there.
    """
    command = [sys.executable, "-c", CHILD, str(tmp_path / "out")]
    write_though_killed(command, 1000, kills=5, seed=20261122, timeout_s=WAIT_S)
    service = Service()
    delivery = OutboxDelivery(OutboxDirectory(tmp_path / "out"), service, None)
    assert delivery.flush(WAIT_S) == 0
    delivery.close(WAIT_S)
    ids = [int(one.id) for one in service.brought if one.is_message]
    # One that was killed before it could say so begins with the same one again: the same id, so it is hidden.
    assert list(dict.fromkeys(ids)) == list(range(1000))
    assert ids == sorted(ids)
    assert len(ids) <= 1000 + 5
    versions = [one.version or 0 for one in service.brought if not one.is_message]
    assert versions == sorted(versions) == list(range(993, 1000))
