"""Descriptions written by real matchers to a real Kafka: none lost by another, none said to be durable that is not."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.request import Request

import pytest
from coldnotify_kafka.broker.freezing import freeze, thaw
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.fetching import FetchedAnswer, fetch
from coldnotify_testkit.matcher_process import (
    DOMAIN,
    GROUP,
    PARTITION,
    MatcherProcess,
    timed_records_of,
)
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

pytestmark = pytest.mark.kafka

KEY = f"describe:{DOMAIN}/{GROUP}/o".encode()


def ask(matcher: MatcherProcess, method: str, body: object = None, query: str = "") -> FetchedAnswer:
    path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o/description{query}"
    data = None if body is None else json.dumps(body).encode()
    return fetch(Request(f"http://127.0.0.1:{matcher.http_port}{path}", data, method=method))


def in_force(kafka: str) -> Any:
    """As any reader of the topic finds it: the highest timestamp, of equal ones the last."""
    records = [(at, value) for key, value, _, at in timed_records_of(kafka, TOPICS.objects, PARTITION) if key == KEY]
    highest = max(at for at, _ in records)
    return json.loads([value for at, value in records if at == highest][-1] or b"")["description"]


def test_patches_at_once_are_all_kept_and_durable_when_they_are_answered(bootstrap: str, tmp_path: Path) -> None:
    with MatcherProcess(bootstrap, tmp_path / "log") as matcher, ThreadPoolExecutor(16) as pool:
        matcher.wait_serving()
        answers = list(pool.map(lambda i: ask(matcher, "PATCH", {f"k{i}": i}), range(40)))
        assert [answer.status for answer in answers] == [200] * 40, [answer.text for answer in answers]
        whole = {f"k{i}": i for i in range(40)}
        assert in_force(bootstrap) == whole
        assert ask(matcher, "GET").json()["description"] == whole
        # The record is where the answer says it is.
        places = {answer.json()["offset"]: answer.json()["version"] for answer in answers}
        found = [at for key, _, _, at in timed_records_of(bootstrap, TOPICS.objects, PARTITION) if key == KEY]
        assert sorted(places.values()) == sorted(found)
        matcher.kill()
    with MatcherProcess(bootstrap, tmp_path / "log") as successor:
        successor.wait_serving()
        assert ask(successor, "GET").json()["description"] == whole


def test_a_matcher_that_does_not_know_that_it_was_replaced_undoes_nothing(bootstrap: str, tmp_path: Path) -> None:
    """It is stopped dead with changes under way, and goes on once its successor has answered others."""
    with (
        MatcherProcess(bootstrap, tmp_path / "a.log", matcher_id="a") as one,
        ThreadPoolExecutor(16) as pool,
    ):
        one.wait_serving()
        stopped = threading.Event()
        acknowledged: dict[str, int] = {}

        def change(worker: int) -> None:
            """Until it is thawed, and some more."""
            left = 20
            for number in range(1, 1_000_000):
                try:
                    answer = ask(one, "PATCH", {f"a{worker}": number})
                except OSError:
                    return  # of no use to whoever wants to know: it may be written
                if answer.status == 200:
                    acknowledged[f"a{worker}"] = number
                left -= stopped.is_set()
                if not left:
                    return

        changes = [pool.submit(change, worker) for worker in range(12)]
        wait_for(lambda: len(acknowledged) == 12, "changes of all")
        freeze(one.process.pid)
        try:
            with MatcherProcess(bootstrap, tmp_path / "b.log", matcher_id="b") as successor:
                wait_for(lambda: PARTITION in successor.owned(), "the successor's taking over")
                for number in range(20):
                    answer = ask(successor, "PATCH", {f"b{number}": number})
                    assert answer.status == 200, answer.text
                    acknowledged[f"b{number}"] = number
                stopped.set()
                thaw(one.process.pid)
                for future in changes:
                    future.result(100)
                answers: list[FetchedAnswer] = []

                def answered() -> bool:
                    """By whoever has the partition in the end."""
                    answers[:] = [answer for p in (successor, one) if (answer := ask(p, "GET")).status == 200]
                    return bool(answers) and one.ready and successor.ready

                wait_for(answered, "somebody who serves it")
                description = in_force(bootstrap)
                assert [answer.json()["description"] for answer in answers] == [description]
        finally:
            thaw(one.process.pid)
    lost = {key: number for key, number in acknowledged.items() if description.get(key, -1) < number}
    assert lost == {}, description
