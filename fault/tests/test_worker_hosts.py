"""Workers as processes: what they have in hand, and what becomes of it, is in their histories, whatever befalls them.

Stands for: worker_hosts, worker_host
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coldnotify.testing import FakeService
from coldnotify_checker import judge, read_histories
from coldnotify_checker.histories import Event, Record
from coldnotify_checker.share_lines import (
    ShareBegun,
    ShareGivenBack,
    ShareHolding,
    ShareJoined,
    ShareLeaseLost,
    ShareMissed,
    ShareSettled,
    ShareSettling,
)
from coldnotify_fault.senders import right_partition
from coldnotify_fault.work_steps import PREFETCH, SHARE, SHARED, TASKS, conduct
from coldnotify_fault.worker_hosts import WorkerHosts, undone
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.proxy import Network
from coldnotify_testkit.waiting import wait_for

NAMES = TopicNames()
CHANNEL = next(iter(SHARED))
DOMAIN, GROUP = CHANNEL.split("/")[:2]


def tasks(ends: str, *, slow: bool = False) -> Iterator[str]:
    """Yields ids of tasks whose first callback goes that way."""
    for number in range(10_000):
        drawn = conduct(f"t{number}", 0)
        if drawn.ends == ends and (drawn.seconds > 1) is slow:
            yield f"t{number}"


class Hall:
    """Workers, and a service for tests that they connect to."""

    def __init__(self, workers: WorkerHosts, service: FakeService) -> None:
        self.workers, self.service = workers, service

    def send(self, task: str) -> None:
        self.service.send(DOMAIN, GROUP, TASKS, {"task": task}, id=task)

    def events(self) -> list[Event]:
        return read_histories(self.workers.histories())

    def of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.events() if isinstance(one, kind)]

    def wrong(self) -> list[str]:
        return [one.what for one in judge(self.events()).of("P13")]

    def wait(self, kind: type[Any], number: int = 1) -> None:
        wait_for(lambda: len(self.of(kind)) >= number, f"{number} lines of {kind.__name__}")


@contextmanager
def hall(directory: Path, *names: str, lease_s: int = 0) -> Iterator[Hall]:
    (directory / "states").mkdir()
    with FakeService() as service, Network() as network:
        workers = WorkerHosts(directory, names, network, [f"127.0.0.1:{service.port}"], lease_s)
        workers.start_all()
        try:
            found = Hall(workers, service)
            found.wait(ShareJoined, len(SHARED) * len(names))
            yield found
            assert workers.ended() == []
        finally:
            workers.stop()


def test_each_end_of_a_callback_is_a_line(tmp_path: Path) -> None:
    with hall(tmp_path, "worker-1", "worker-2") as here:
        for ends in ("returns", "done", "raises", "retries", "rejects"):
            here.send(next(tasks(ends)))
        here.wait(ShareSettling, 4)
        here.wait(ShareSettled)
        wait_for(lambda: {one.how for one in here.of(ShareGivenBack)} >= {"failed", "retry", "rejected"})
    begun = here.of(ShareBegun)
    assert len({(one.client, one.offset, one.hand_out) for one in begun}) == len(begun)
    assert all(one.until > one.t for one in begun)
    assert {one.attempts for one in begun} >= {0, 1}, "what failed is tried again"
    assert not here.wrong()


def test_a_lease_that_is_lost_ends_the_looks_at_it(tmp_path: Path) -> None:
    with hall(tmp_path, "worker-1") as here:
        here.send(next(tasks("returns", slow=True)))
        here.wait(ShareHolding, 2)
        here.service.expire_leases(DOMAIN, GROUP)
        here.wait(ShareLeaseLost)
        (lost,) = here.of(ShareLeaseLost)
        here.wait(ShareSettling)
        assert all(one.t <= lost.t for one in here.of(ShareHolding) if one.hand_out == lost.hand_out)
        assert not here.wrong()


def test_a_service_that_ends_a_killed_workers_lease_early_is_found(tmp_path: Path) -> None:
    with hall(tmp_path, "worker-1", lease_s=600) as here:
        worker = here.workers.workers["worker-1"]
        here.send(next(tasks("returns", slow=True)))
        here.wait(ShareBegun)
        worker.kill()
        here.service.expire_leases(DOMAIN, GROUP)
        worker.start()
        here.wait(ShareBegun, 2)
        (found,) = here.wrong()
        assert "worker-1 has the message at 0" in found


def test_a_killed_worker_and_a_stopped_one_come_back(tmp_path: Path) -> None:
    with hall(tmp_path, "worker-1") as here:
        worker = here.workers.workers["worker-1"]
        here.send(next(tasks("returns", slow=True)))
        here.wait(ShareBegun)
        worker.freeze()
        worker.kill()
        worker.start()
        here.wait(ShareJoined, 2 * len(SHARED))
        worker.cut(silent=True)
        worker.freeze()
        here.workers.start_all()
        here.send(next(tasks("done")))
        here.wait(ShareSettled)
        worker.leave()
        worker.start()
        here.wait(ShareJoined, 3 * len(SHARED))


def test_a_missing_task_is_a_line(tmp_path: Path) -> None:
    with hall(tmp_path, "worker-1") as here:
        slow = tasks("returns", slow=True)
        for _ in range(PREFETCH):
            here.send(next(slow))
        here.wait(ShareBegun)
        here.send("t1")
        with here.service.lock:
            here.service.service.expire(DOMAIN, GROUP, PREFETCH)
        here.wait(ShareMissed)
        (missed,) = here.of(ShareMissed)
        assert (missed.reason, missed.after, missed.before) == ("expired", PREFETCH - 1, PREFETCH + 1)


def task(offset: int, timestamp: int = 5) -> Record:
    return Record(
        topic="coldnotify.channels.1h",
        partition=right_partition(CHANNEL),
        offset=offset,
        timestamp=timestamp,
        key=CHANNEL,
    )


def state(base: int, settled: tuple[int, ...] = (), handed: tuple[list[int], ...] = (), timestamp: int = 9) -> Record:
    value = {"base": base, "settled": list(settled), "handed_out": list(handed), "members": ["w"]}
    key = f"{DOMAIN}/{GROUP}/{SHARE}/{TASKS}"
    return Record(topic=NAMES.shares, partition=0, offset=timestamp, timestamp=timestamp, key=key, value=value)


@pytest.mark.parametrize(
    ("records", "words"),
    [
        ([task(0), task(1)], ["2 tasks are not settled, first [0]"]),
        ([task(0), task(1), state(1)], []),
        ([task(0), task(1), state(-1, (0, 1))], []),
        ([task(0), task(1), state(0)], ["1 tasks are not settled, first [1]"]),
        ([task(0), task(1), state(5, timestamp=3)], ["2 tasks are not settled"]),
        ([task(0), state(-1, (), ([0, 1, 0, 1, 0, 4, 0, -1],))], ["handed out are [0]"]),
        ([], []),
    ],
)
def test_tasks_are_undone_until_a_later_record_settles_them(records: list[Record], words: list[str]) -> None:
    found = list(undone(NAMES, records))
    assert len(found) == len(words)
    assert all(word in one for word, one in zip(words, found, strict=True))
