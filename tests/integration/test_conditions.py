"""Publishes with a condition: of those that name a version one is done, whatever dies meanwhile."""

import threading
from collections import Counter
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import msgspec
import pytest
from coldnotify.http_publisher import HttpPublisher, PublishError, VersionConflict
from coldnotify_testkit import stack
from coldnotify_testkit.stack import Recorder, Up, get_json, notify
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.stack
DOMAIN, GROUP = "animal.observer", "conditions"
WRITERS = 4
INCREMENTS = 150
"""Acknowledged ones of each writer."""


def newest(up: Up, name: str) -> dict[str, object] | None:
    path = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}"
    try:
        found: dict[str, object] = get_json(path)
    except HTTPError as error:
        if error.code == 404:
            return None
        raise
    return found


def post(up: Up, name: str, body: object, **headers: str) -> tuple[int, dict[str, object]]:
    path = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/{name}"
    request = Request(path, data=msgspec.json.encode(body), method="POST", headers=headers)
    try:
        with urlopen(request, timeout=60) as answer:
            return answer.status, msgspec.json.decode(answer.read())
    except HTTPError as error:
        return error.code, msgspec.json.decode(error.read())


def test_only_what_names_the_newest_version_is_published(up: Up) -> None:
    told = Recorder()
    publisher = HttpPublisher(up.http_url, timeout_s=60)
    with notify(up, "reader", None, group=GROUP) as ou:
        ou.register("door").subscribe(told)
        assert ou.wait_caught_up(60)
        first = publisher.publish(DOMAIN, GROUP, "door", "made", if_absent=True, version=1)
        assert first.version == 1
        assert publisher.publish(DOMAIN, GROUP, "door", "next", if_version=1).version == 2
        for condition in ({"if_version": 1}, {"if_absent": True}, {"if_version": 9}):
            with pytest.raises(VersionConflict) as refused:
                publisher.publish(DOMAIN, GROUP, "door", "refused", **condition)  # type: ignore[arg-type]
            assert refused.value.newest is not None
            assert refused.value.newest.version == 2
        assert publisher.publish(DOMAIN, GROUP, "door", "next", if_changed=True, version=8).version == 2
        last = publisher.publish(DOMAIN, GROUP, "door", "last", if_changed=True, version=8)
        assert last.applied_by(1.0, timeout_s=60) == (1, 0)
    assert told.versions("door") == [None, 1, 2, 8]


def test_headers_say_a_condition_and_repeats_get_the_first_outcome(up: Up) -> None:
    assert post(up, "lamp", {"version": 5}, **{"If-None-Match": "*"})[0] == 200
    status, answer = post(up, "lamp", {"id": "a", "payload": 1}, **{"If-Match": '"5"'})
    assert (status, answer["version"], answer["outcome"]) == (200, 6, "published")
    assert post(up, "lamp", {"version": 7, "if_version": 6})[0] == 200
    status, answer = post(up, "lamp", {"id": "a", "payload": 1}, **{"If-Match": "5"})
    assert (status, answer["version"], answer["outcome"]) == (200, 6, "published")
    status, answer = post(up, "lamp", {"if_version": 6})
    assert (status, answer["outcome"], answer["field"]) == (409, "refused", "if_version")
    assert answer["newest"]["version"] == 7  # type: ignore[index]
    status, answer = post(up, "nothing", {"if_version": 6})
    assert (status, answer["newest"]) == (409, None)
    for body, headers, field in (
        ({"if_version": 4}, {"If-Match": '"5"'}, "if_version"),
        ({"if_changed": True}, {"If-Match": '"5"'}, "if_changed"),
        ({}, {"If-Match": "*"}, "If-Match"),
        ({}, {"If-None-Match": '"5"'}, "If-None-Match"),
        ({"id": "a"}, {}, "id"),
    ):
        status, answer = post(up, "lamp", body, **headers)
        assert (status, answer["field"]) == (400, field)
    assert newest(up, "nothing") is None
    shown = newest(up, "lamp")
    assert shown is not None
    assert shown["version"] == 7


class Writer(threading.Thread):
    """Adds 1 to the number that an object's payload is, again and again."""

    def __init__(self, up: Up, stopping: threading.Event) -> None:
        super().__init__(daemon=True)
        self._up, self._stopping = up, stopping
        self._publisher = HttpPublisher(up.http_url, timeout_s=20)
        self.counts: Counter[str] = Counter()

    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                shown = newest(self._up, "counter")
            except (OSError, ValueError):
                self._stopping.wait(0.1)
                continue
            assert shown is not None
            if shown["version"] is None:
                continue
            number = int(str(shown["payload"])) + 1
            try:
                self._publisher.publish(DOMAIN, GROUP, "counter", payload=number, if_version=int(str(shown["version"])))
                self.counts["done"] += 1
            except VersionConflict:
                self.counts["refused"] += 1
            except PublishError as error:
                self.counts["unknown" if error.indeterminate else "not sent"] += 1


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stack.running(tmp_path_factory.mktemp("up")) as one:
        yield one


@pytest.mark.own_broker("kills Kafka beside the other parts")
def test_increments_add_up_whatever_is_killed(own: Up) -> None:
    told = Recorder()
    HttpPublisher(own.http_url, timeout_s=60).publish(DOMAIN, GROUP, "counter", payload=0, version=1)
    stopping = threading.Event()
    writers = [Writer(own, stopping) for _ in range(WRITERS)]

    def done() -> int:
        return sum(writer.counts["done"] for writer in writers)

    with notify(own, "reader", None, group=GROUP) as ou:
        ou.register("counter").subscribe(told)
        for writer in writers:
            writer.start()
        for part in ("matcher", "http", "broker", "matcher"):
            goal = done() + INCREMENTS
            wait_for(lambda goal=goal: done() >= goal, "increments go on")  # type: ignore[misc]
            pids = own.kill(part)
            own.wait_ready(other_than=pids)
        goal = done() + INCREMENTS
        wait_for(lambda: done() >= goal, "increments go on")
        stopping.set()
        for writer in writers:
            writer.join(60)
        counts = sum((writer.counts for writer in writers), Counter[str]())
        shown = newest(own, "counter")
        assert shown is not None
        value = int(str(shown["payload"]))
        wait_for(lambda: told.newest("counter") == shown["version"], "the reader has the newest")
    print(f"\n{value} after {dict(counts)}")
    assert counts["done"] <= value <= counts["done"] + counts["unknown"]
    versions = [one for one in told.versions("counter") if one is not None]
    assert versions == sorted(set(versions))
