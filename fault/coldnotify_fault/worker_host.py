"""A worker: a process with a client in each group that has a share, killed and stopped at will.

Each client writes into its history what it has in hand, and what becomes of it: a line before it tells the library.
SIGTERM has it disconnect in order.
"""

import argparse
import logging
import signal
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

from coldnotify import Connection, LeasedMessage, LeaseLost, Missed, Notify, State
from coldnotify._clock import sleep_counting_clock
from coldnotify_checker.histories import now_us

from coldnotify_fault.device_host import state_file
from coldnotify_fault.history import HistoryFile
from coldnotify_fault.work_steps import PREFETCH, SHARE, SHARED, TASKS, conduct

_LOOK_S = 0.2
"""A client looks that often how long its leases last."""
_DISCONNECT_S = 10.0


class TaskFails(Exception):
    """Raised by a callback, as it was drawn."""


class SharedWorker:
    """One client, which is a member of its group's share."""

    def __init__(self, name: str, gateways: list[str], states: Path, history: HistoryFile, lease_s: int) -> None:
        """`name`: domain/group/client."""
        self._history = history
        self._lease_s = lease_s
        self._clock = sleep_counting_clock()
        self._lock = threading.Lock()
        """Held while a line is written: so no look comes behind the end of what it looked at."""
        self._running: dict[int, LeasedMessage] = {}
        """By offset: tasks whose callbacks run, whose leases are not lost."""
        domain, group, client = name.split("/")
        self._of = {"client": name, "channel": f"{domain}/{group}/{TASKS}", "share": SHARE}
        connection = Connection(
            gateways,
            connect_timeout_s=3,
            keepalive_s=2,
            silence_grace_s=2,
            request_timeout_s=5,
            backoff_min_s=0.1,
            backoff_max_s=1,
            address_rest_s=1,
        )
        state = State(state_file(states, name))
        self._notify = Notify(domain, group, client, state, connection, retry_min_s=0.1, retry_max_s=0.5)

    def start(self) -> None:
        """Becomes a member, and connects."""
        self._history.write("share_joined", since="oldest", **self._of)
        share = self._notify.channel(TASKS, share=SHARE, since="oldest", lease_s=self._lease_s, prefetch=PREFETCH)
        share.subscribe(self._work, on_missed=self._miss, on_lost=partial(self._end, "share_lease_lost"))
        self._notify.connect()

    def stop(self) -> None:
        """Disconnects in order: gives back what waits."""
        self._notify.disconnect(_DISCONNECT_S)

    def look(self) -> None:
        """Writes how long the leases of running tasks last."""
        with self._lock:
            for task in self._running.values():
                if not task.is_lost:
                    self._history.write("share_holding", until=self._until(task), **self._said(task))

    def _work(self, task: LeasedMessage) -> None:
        with self._lock:
            said: dict[str, Any] = {"attempts": task.attempts, "message": task.id, "payload": task.payload}
            if task.key is not None:
                said["key"] = task.key
            self._history.write("share_begun", until=self._until(task), **said, **self._said(task))
            self._running[task.offset] = task
        drawn = conduct(str(task.id), task.attempts)
        time.sleep(drawn.seconds)
        if drawn.ends == "raises":
            self._end("share_given_back", task, how="failed")
            raise TaskFails
        if drawn.ends == "retries":
            self._end("share_given_back", task, how="retry")
            task.retry(drawn.after_s)
        elif drawn.ends == "rejects":
            self._end("share_given_back", task, how="rejected")
            task.reject()
        else:
            self._end("share_settling", task)
            if drawn.ends == "done":
                self._be_done(task)

    def _be_done(self, task: LeasedMessage) -> None:
        try:
            task.done(2 * self._lease_s)
        except (LeaseLost, TimeoutError):
            return
        self._history.write("share_settled", **self._said(task))

    def _end(self, event: str, task: LeasedMessage, **more: Any) -> None:
        with self._lock:
            self._running.pop(task.offset, None)
            self._history.write(event, **more, **self._said(task))

    def _miss(self, missed: Missed) -> None:
        fields: dict[str, Any] = {"before": missed.before, "reason": missed.reason.value.lower()}
        if missed.after is not None:
            fields["after"] = missed.after
        self._history.write("share_missed", **fields, **self._of)

    def _said(self, task: LeasedMessage) -> dict[str, Any]:
        return {**self._of, "offset": task.offset, "hand_out": task.lease.hand_out}

    def _until(self, task: LeasedMessage) -> int:
        """Returns the end of its lease, as `t` of a history: not too late, if the process is stopped meanwhile."""
        t, ends_at = now_us(), float(task.lease.ends_at)
        return t + round((ends_at - self._clock()) * 1e6)


def main() -> None:
    """Until SIGTERM."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("--gateway", action="append", required=True)
    parser.add_argument("--states", type=Path, required=True)
    parser.add_argument("--history", type=Path, required=True)
    parser.add_argument("--lease-s", type=int, default=0, help="of all; 0: as of SHARED")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(threadName)s %(levelname)s %(message)s")
    history = HistoryFile(arguments.history)
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    given = arguments.gateway, arguments.states, history
    workers = [
        SharedWorker(f"{channel.rpartition('/')[0]}/{arguments.name}", *given, arguments.lease_s or lease_s)
        for channel, lease_s in SHARED.items()
    ]
    for worker in workers:
        worker.start()
    while not over.wait(_LOOK_S):
        for worker in workers:
            worker.look()
    for worker in workers:
        worker.stop()


if __name__ == "__main__":
    main()
