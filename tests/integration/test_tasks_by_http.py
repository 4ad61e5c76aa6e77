"""Work queues as people meet them: tasks sent by HTTP, workers over the Python client, each task with one of them."""

from contextlib import ExitStack

import pytest
from coldnotify import Connection, LeasedMessage, Notify, State
from coldnotify.http_publisher import HttpPublisher
from coldnotify_testkit.stack import Up
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "queues.test", "region-1"
TASKS = [f"task-{number}" for number in range(20)]


def member(up: Up, name: str) -> Notify:
    """An application, which tries again at once what it has failed with."""
    return Notify(DOMAIN, GROUP, name, State(None), Connection(*up.gateway, backoff_max_s=2), retry_min_s=0.0)


def test_each_task_is_with_one_worker_and_a_poisonous_one_ends_as_a_dead_letter(up: Up) -> None:
    told: list[str] = []
    letters: list[object] = []

    def work(message: LeasedMessage) -> None:
        told.append(message.payload)
        if message.payload == "poison":
            raise ValueError(message.payload)

    publisher = HttpPublisher(up.http_url)
    with ExitStack() as stack:
        for name in ("worker-1", "worker-2"):
            worker = member(up, name)
            worker.channel("tasks", share="workers").subscribe(work)
            stack.enter_context(worker)
        watcher = member(up, "watcher")
        watcher.channel("tasks.workers.dead", since="oldest").subscribe(lambda one: letters.append(one.payload))
        stack.enter_context(watcher)
        wait_for(lambda: publisher.send(DOMAIN, GROUP, "tasks", "first") and told, "a worker")
        for number, task in enumerate(TASKS):
            publisher.send(DOMAIN, GROUP, "tasks", task, key=f"key-{number % 3}")
        publisher.send(DOMAIN, GROUP, "tasks", "poison")

        wait_for(lambda: set(TASKS) <= set(told), "all tasks")
        wait_for(lambda: "poison" in letters, "the dead letter")
    assert letters == ["poison"]
    assert told.count("poison") >= 10
    for key in range(3):
        of_key = TASKS[key::3]
        assert sorted(of_key, key=told.index) == of_key
