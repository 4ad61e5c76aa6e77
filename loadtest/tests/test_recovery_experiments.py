"""Experiments in which a process stays away, or a client is behind a slow link or does not read, tiny.

Stands for: recovery, takeover, horizontal, home, home_clients, kills, backlog, pipeline, priority, partitions, copying
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest.bench import BenchRun, Progress
from coldnotify_loadtest.experiments import EXPERIMENTS
from coldnotify_testkit.networks import makes_networks

RowsOf = Callable[..., list[dict[str, Any]]]
"""The fixture's."""


@pytest.mark.kafka
def test_a_process_that_stays_away(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="cases: unknown value 'nobody'"):
        EXPERIMENTS["takeover"].run(BenchRun({"cases": ("nobody",)}, tmp_path, Progress(1, "")))
    (row,) = rows_of("takeover", "cases=matcher")
    assert row["published_s"] < row["all_reached_s"]
    assert row["takeover_s"] > 0
    assert row["half_reached_s"] <= row["all_reached_s"]


@pytest.mark.kafka
def test_clients_of_a_gateway_that_goes_are_complete_at_the_others(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="cases: unknown value 'nobody'"):
        EXPERIMENTS["horizontal"].run(BenchRun({"cases": ("nobody",)}, tmp_path, Progress(1, "")))
    cases = ["killed", "stopped", *(["silent"] if makes_networks() else [])]
    rows = rows_of("horizontal", f"cases={','.join(cases)}", "keepalives=4")
    assert [row["case"].partition(",")[0] for row in rows] == cases
    assert (rows[0]["shares_before"], rows[0]["lost"]) == ("20 / 20 / 20", 20)
    for row in rows:
        assert sum(map(int, row["shares_after"].split(" / "))) == row["clients"]
        assert 0 < row["half_complete_s"] <= row["all_complete_s"]
        assert (row["behind"], row["newest_at"]) == (0, row["clients"])
    assert min(row["all_complete_s"] for row in rows[1:]) > 4, "a silent gateway is given up after a keepalive"


@pytest.mark.kafka
def test_clients_are_home_again_once_it_serves(rows_of: RowsOf) -> None:
    (row,) = rows_of("home")
    assert row["lost"] == 4
    assert row["half_elsewhere_s"] <= row["all_elsewhere_s"]
    assert row["half_home_s"] <= row["all_home_s"]
    assert (row["behind"], row["disordered"]) == (0, 0)


@pytest.mark.kafka
@pytest.mark.own_broker("serves two numbers of partitions at once")
@pytest.mark.usefixtures("_a_kafka_for_each_server")
def test_few_and_many_partitions_rest_beside_each_other(rows_of: RowsOf) -> None:
    few, many = rows_of("partitions")
    assert (few["partitions"], many["partitions"]) == (2, 4)
    assert min(few["together"], many["together"]) > 0


@pytest.mark.kafka
def test_a_killed_matcher_is_removed_and_kafkas_pauses_remove_nobody(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="cases: unknown value 'nobody'"):
        EXPERIMENTS["kills"].run(BenchRun({"cases": ("nobody",)}, tmp_path, Progress(1, "")))
    killed, paused = rows_of("kills")
    assert killed["removed"] == paused["removed"] == 1
    assert killed["all_reached_since_kill_s"] > 0
    assert (paused["removed_by_mistake"], paused["pauses"] > 0) == (0, True)


@pytest.mark.kafka
def test_a_client_behind_a_slow_link_is_sent_the_newest(rows_of: RowsOf) -> None:
    (row,) = rows_of("slow-link")
    assert (row["objects"], row["missed"]) == (20, 40)
    assert row["told"] >= row["objects"]
    assert row["newest_versions_bytes"] < row["sent_bytes"]


@pytest.mark.kafka
def test_alarms_of_high_priority_overtake_a_backlog(tmp_path: Path, rows_of: RowsOf) -> None:
    with pytest.raises(ValueError, match="cases: unknown value 'a message'"):
        EXPERIMENTS["priority"].run(BenchRun({"cases": ("a message",)}, tmp_path, Progress(1, "")))
    rows = rows_of("priority", "timeout_s=120")
    assert [row["case"] for row in rows] == [
        "an object among objects",
        "a channel among channels",
        "a channel among objects",
    ]
    for row in rows:
        assert (row["alarms"], row["told"], row["in_order"]) == (2, 2, True)
        assert 0 < row["median_s"] <= row["longest_s"]


@pytest.mark.kafka
def test_beside_clients_that_never_read_a_reader_has_the_newest(rows_of: RowsOf) -> None:
    first, *_, last = rows_of("stuck")
    assert min(first["gateway"], last["matcher"]) > 0
    assert last["newest_at_reader_s"] > 0


@pytest.mark.kafka
@pytest.mark.own_broker("serves two numbers of partitions at once")
def test_clients_and_publishers_move_to_copied_topics(rows_of: RowsOf) -> None:
    (row,) = rows_of("copy")
    assert row["publishes"] > 0
    assert row["switch_s"] < row["services_ready_s"] < row["all_reached_since_switch_s"]
    assert row["publishers_paused_s"] >= row["switch_s"] / 2
    assert row["behind"] == 0
