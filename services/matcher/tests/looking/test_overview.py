"""The overview and a group's matrix, over a real port."""

import json
import threading
import time
import urllib.request
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from coldnotify_matcher.looking import overview, state_endpoints
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, PARTITION, EngineBench
from coldnotify_testkit.served_routes import served_in_a_thread

MATRIX = f"/v1/domains/{DOMAIN}/groups/{GROUP}/matrix"


@pytest.fixture
def port(bench: EngineBench) -> Iterator[int]:
    worker: Any = SimpleNamespace(partitions={PARTITION: bench.partition}, followed={}, lock=threading.RLock())
    shown = overview.routes(SimpleNamespace(worker=worker))
    with served_in_a_thread(shown) as port:
        yield port


def get(port: int, path: str) -> Any:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as response:
        return json.loads(response.read())


@pytest.mark.parametrize("locked_s", [0, 60])
def test_groups_clients_and_objects_that_wait(
    bench: EngineBench, port: int, monkeypatch: pytest.MonkeyPatch, locked_s: float
) -> None:
    monkeypatch.setattr(state_endpoints, "LOCKED_S", locked_s)
    monkeypatch.setattr(overview, "RECENT_MS", 1 << 50)
    body = get(port, "/v1/overview")

    (group,) = body["groups"]
    assert (group["domain"], group["group"], group["objects"], group["clients"]) == (DOMAIN, GROUP, 2, 3)
    assert (group["online"], group["lacking"], group["overdue"], group["oldest_since_ms"]) == (2, 2, 2, 2000)
    assert group["publishes"] == 3
    assert [(one["client"], one["state"], one["since_ms"], one["lacking"]) for one in body["slowest"]] == [
        ("c3", "asleep", 2000, 1),
        ("c1", "live", 3000, 1),
    ]
    (waiting,) = body["oldest"]
    assert (waiting["object"], waiting["since_ms"], waiting["lacking"], waiting["asleep"]) == ("b", 2000, 2, 1)
    assert (body["clients"], body["online"], body["partial"]) == (3, 2, False)
    assert (body["partitions"], body["partitions_count"]) == ([PARTITION], bench.partition.engine.state.partitions)
    sums = {"clients": 3, "online": 2, "lacking": 2, "overdue": 2, "objects": 2, "groups_count": 1}
    sums |= {"seen_1h": 2, "seen_1d": 2, "seen_7d": 2}
    assert body["domains"] == {DOMAIN: sums}


def test_who_only_wakes_is_seen_within_an_hour_a_day_a_week_or_longer_ago(bench: EngineBench, port: int) -> None:
    client = next(one for one in bench.partition.engine.state.clients.values() if one.name == "c3")
    hour_ms = 3_600_000
    for ago_ms, seen in (
        (1000, (3, 3, 3)),
        (2 * hour_ms, (2, 3, 3)),
        (48 * hour_ms, (2, 2, 3)),
        (200 * hour_ms, (2, 2, 2)),
    ):
        client.last_seen_ms = time.time_ns() // 1_000_000 - ago_ms
        (group,) = get(port, "/v1/overview")["groups"]
        assert (group["seen_1h"], group["seen_1d"], group["seen_7d"]) == seen


def test_what_is_overdue_is_for_the_one_who_asks_to_say(port: int) -> None:
    assert get(port, "/v1/overview?overdue_s=999999999")["overdue"] == 2
    with pytest.raises(urllib.request.HTTPError, match="400"):
        get(port, "/v1/overview?overdue_s=x")


def test_a_pass_that_takes_too_long_ends_and_says_so(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overview, "PASS_S_MAX", -1)
    assert get(port, "/v1/overview")["partial"] is True


def test_a_groups_matrix(port: int) -> None:
    body = get(port, f"{MATRIX}?limit=2")

    assert [(one["object"], one["version"]) for one in body["objects"]] == [("b", 2), ("a", 1)]
    assert [(one["client"], one["cells"]) for one in body["items"]] == [("c1", ["lacks", "told"]), ("c2", ["", "told"])]
    (last,) = get(port, f"{MATRIX}?limit=2&after={body['next']}")["items"]
    assert (last["client"], last["cells"], last["state"], last["since_ms"]) == ("c3", ["lacks", ""], "asleep", 2000)
    assert (body["clients_count"], body["objects_count"]) == (3, 2)


def test_of_a_groups_matrix_those_that_lack_something_and_older_objects(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lacking(query: str) -> tuple[list[str], str | None]:
        body = get(port, f"{MATRIX}?lacking=yes&{query}")
        assert body["clients_count"] == 3
        return [one["client"] for one in body["items"]], body["next"]

    assert lacking("limit=9") == (["c1", "c3"], None)
    assert lacking("limit=1") == (["c1"], "c1")
    assert lacking("limit=1&after=c1") == (["c3"], None)
    monkeypatch.setattr(overview, "MATRIX_SCANNED_MAX", 1)
    assert lacking("limit=9&after=c1") == ([], "c2"), "one request looks at so many"
    body = get(port, f"{MATRIX}?objects_from=1")
    assert ([one["object"] for one in body["objects"]], body["objects_count"]) == (["a"], 2)
    assert [one["cells"] for one in body["items"]] == [["told"], ["told"], [""]]
    for wrong in ("lacking=maybe", "objects_from=-1", "objects_from=x"):
        with pytest.raises(urllib.request.HTTPError, match="400"):
            get(port, f"{MATRIX}?{wrong}")
