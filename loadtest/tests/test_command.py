"""The command and an experiment run through it, tiny.

Stands for: command, bench, provenance, rates, growth, recovery, takeover, wire, backlog, pipeline, scale, peers
Stands for: query_values, query_changes, query_system, described_load, usage, channels, channel_devices, channel_sending
Stands for: channel_catch_up, priority, flood, isolation
"""

import json
from pathlib import Path
from typing import Any

import pytest
from coldnotify_loadtest.bench import Bench, Progress, chosen
from coldnotify_loadtest.command import duration, main, parameters_of
from coldnotify_loadtest.experiments import EXPERIMENTS
from coldnotify_loadtest.provenance import provenance


def test_parameters_can_be_changed_by_name_and_keep_their_kind() -> None:
    e1 = EXPERIMENTS["E1"]
    assert parameters_of(e1, False, []) == e1.parameters
    changed = parameters_of(e1, True, ["rates=3,4", "clients=7", "history=5"])
    assert changed["rates"] == (3, 4)
    assert (changed["clients"], changed["repeats"]) == (7, 1)
    for wrong in ("clients=many", "clients", "klients=3"):
        with pytest.raises(ValueError, match="--set"):
            parameters_of(e1, False, [wrong])
    with pytest.raises(ValueError, match="servers: 'Oracle'"):
        chosen({"servers": "Oracle"})


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_says_how_long_it_takes(name: str) -> None:
    experiment = EXPERIMENTS[name]
    quick = {**experiment.parameters, **experiment.quick}
    assert set(quick) == set(experiment.parameters), "a quick value of an unknown parameter"
    assert 0 < experiment.seconds(quick) < experiment.seconds(experiment.parameters)
    assert experiment.steps(quick) >= 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["E9"], "'E9' is none of E1"),
        (["--set", "clients=x", "E1"], "--set clients"),
        (["--set", "repeats=0"], "repeats"),
    ],
)
def test_wrong_use_is_told_before_anything_is_started(
    wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(wrong)
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


def test_the_list_says_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--list"]) == 0
    said = capsys.readouterr().out
    assert all(name in said for name in EXPERIMENTS)
    assert "This takes about" in said
    assert [duration(seconds) for seconds in (5, 600, 36000)] == ["5 s", "10 min", "10.0 h"]


def test_provenance_says_where_figures_come_from() -> None:
    found = provenance()
    assert found["machine"]["cores"] >= 1
    assert found["versions"]["kafka"]
    json.dumps(found)


@pytest.mark.kafka
def test_an_experiment_from_end_to_end(tmp_path: Path) -> None:
    """The one on the wire: it uses a real ColdNotify, the swarm, the publisher and the proxy."""
    arguments = ["--quick", "--set", "servers=ColdNotify", "--set", "idle_s=1", "--results", str(tmp_path), "wire"]
    assert main(arguments) == 0
    found = json.loads((tmp_path / "wire.json").read_text())
    by_case = {row["case"]: row for row in found["rows"] if row["server"] == "ColdNotify"}
    library = {row["case"]: row for row in found["rows"] if row["server"] == "ColdNotify, client library"}
    assert 0 < library["unchanged wake"]["bytes"] <= 120
    wake, changed = by_case["unchanged wake"], by_case["1 of 5 changed"]
    assert 0 < wake["bytes"] <= 120
    assert wake["bytes"] < changed["bytes"] < by_case["total loss of state"]["bytes"]
    assert by_case["idle hour"]["ping_bytes"] > 0
    resumed = library["unchanged wake, TLS session resumed"]["bytes"]
    assert library["unchanged wake"]["bytes"] < resumed < library["unchanged wake, mutual TLS 1.3"]["bytes"]
    assert "unchanged wake" in (tmp_path / "report.html").read_text()


def rows_of(name: str, results: Path, *changes: str) -> list[dict[str, Any]]:
    """Of a quick run."""
    assert main(["--quick", *(f"--set={change}" for change in changes), "--results", str(results), name]) == 0
    rows: list[dict[str, Any]] = json.loads((results / f"{name}.json").read_text())["rows"]
    return rows


@pytest.mark.kafka
def test_a_process_that_stays_away(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cases: 'nobody'"):
        EXPERIMENTS["takeover"].run(Bench({"cases": ("nobody",)}, tmp_path, Progress(1, "")))
    (row,) = rows_of("takeover", tmp_path, "cases=matcher")
    assert row["published_s"] < row["all_reached_s"]
    assert row["takeover_s"] > 0
    assert row["half_reached_s"] <= row["all_reached_s"]


@pytest.mark.kafka
def test_a_client_behind_a_slow_link_is_sent_the_newest(tmp_path: Path) -> None:
    (row,) = rows_of("slow-link", tmp_path)
    assert (row["objects"], row["missed"]) == (20, 40)
    assert row["told"] >= row["objects"]
    assert row["newest_versions_bytes"] < row["sent_bytes"]


@pytest.mark.kafka
def test_alarms_of_high_priority_overtake_a_backlog(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cases: 'a message'"):
        EXPERIMENTS["priority"].run(Bench({"cases": ("a message",)}, tmp_path, Progress(1, "")))
    rows = rows_of("priority", tmp_path, "timeout_s=120")
    assert [row["case"] for row in rows] == [
        "an object among objects",
        "a channel among channels",
        "a channel among objects",
    ]
    for row in rows:
        assert (row["alarms"], row["told"], row["in_order"]) == (2, 2, True)
        assert 0 < row["median_s"] <= row["longest_s"]


@pytest.mark.kafka
def test_beside_clients_that_never_read_a_reader_has_the_newest(tmp_path: Path) -> None:
    first, *_, last = rows_of("stuck", tmp_path)
    assert min(first["gateway"], last["matcher"]) > 0
    assert last["newest_at_reader_s"] > 0


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_who_publishes_without_a_pause_is_told_each_time_and_all_is_told_in_the_end(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="ways: 'pigeon'"):
        EXPERIMENTS["flood"].run(Bench({"ways": ("pigeon",)}, tmp_path, Progress(1, "")))
    rows = rows_of("flood", tmp_path)
    assert [(row["way"], row["flow"]) for row in rows] == [
        (way, flow) for way in ("kafka", "http") for flow in ("on", "off")
    ]
    for row in rows:
        assert row["accepted"] > 0
        assert (row["failed"], row["not_answered"], row["ended"], row["lost"]) == (0, 0, 0, 0)
        assert min(row["memory_mib"].values()) > 0
        assert row["back_s"] >= 0


@pytest.mark.kafka
@pytest.mark.timeout(900)
def test_a_tenant_beside_a_loud_one(tmp_path: Path) -> None:
    for name, wrong in (("parts", "halves"), ("ways", "pigeon")):
        with pytest.raises(ValueError, match=f"{name}: '{wrong}'"):
            EXPERIMENTS["isolation"].run(Bench({"parts": (), "ways": (), name: (wrong,)}, tmp_path, Progress(1, "")))
    rows = rows_of("isolation", tmp_path)
    assert [row.get("way") for row in rows] == ["http", "session", "kafka-user", "kafka", None]
    *pairs, uneven = rows
    for row in pairs:
        assert row["off"]["delivered"] > 0
        assert row["on"]["delivered"] > 0
        assert row["b_not_told"] == 0
    assert (uneven["nodes"], uneven["not_told"]) == (3, 0)
    assert uneven["at_one_per_s"] > 0


@pytest.mark.kafka
def test_what_registering_by_queries_costs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="parts: 'nothing'"):
        EXPERIMENTS["queries"].run(Bench({"parts": ("nothing",)}, tmp_path, Progress(1, "")))
    changes = "parts=broker,changes,wire", "broker_subscribers=2", "changes_conditions=range", "wire_queries=0,3"
    rows = rows_of("queries", tmp_path, *changes)
    by_part = {part: [row for row in rows if row["part"] == part] for part in ("broker", "changes", "wire")}
    assert [(row["by"], row["deliveries"]) for row in by_part["broker"]] == [
        (by, by_part["broker"][0]["expected"]) for by in ("by name", "1 query")
    ]
    assert by_part["broker"][1]["to_names"]["mean"] > 0
    *values, difference = by_part["changes"]
    # On a busy machine some come behind the end.
    assert all(0 < row["deliveries"] <= row["expected"] for row in values)
    assert difference["wrong"] == 0
    assert difference["count"] == difference["told"] > 0, "each belongs to a change"
    down = {(row["queries"], row["when"]): row["down"] for row in by_part["wire"]}
    for when in ("before a takeover", "second after it"):
        assert down[0, when] < down[3, when]
    # A tag and 8 bytes.
    assert down[3, "first after it"] == down[3, "before a takeover"] + 9
    assert not any(row["asked"] for row in by_part["wire"])


@pytest.mark.kafka
def test_values_of_the_whole_system_while_descriptions_change(tmp_path: Path) -> None:
    still, values, differences = rows_of("queries", tmp_path, "parts=system")
    assert (still["changed"], values["changed"]) == ("nothing", "each every 5 s")
    assert min(still["deliveries"], values["deliveries"], differences["told"]) > 0
    assert differences["count"] == differences["told"], "each belongs to a change"


@pytest.mark.kafka
def test_a_takeover_behind_a_log_of_descriptions(tmp_path: Path) -> None:
    rows = rows_of("queries", tmp_path, "parts=behind")
    assert [(row["case"], row["changes"], row["right_before"], row["wrong"]) for row in rows] == [
        ("cold", 400, True, 0),
        ("standby", 400, True, 0),
    ]


@pytest.mark.kafka
def test_clients_that_come_back_are_told_all_they_lack(tmp_path: Path) -> None:
    told = rows_of("catch-up", tmp_path)
    assert [(row["told"], row["gaps"]) for row in told] == [(row["expected"], 0) for row in told]
    minute, day = ([row for row in told if row["behind_min"] == minutes] for minutes in (1, 1440))
    assert len(minute) == len(day) == 3
    assert not any(row["blocks"] for row in minute), "the tail is in memory"
    assert min(row["told"] for row in day) > 0
    assert max(row["blocks"] for row in day) > 0
    assert all(row["median_s"] <= row["seconds"] for row in told)


def test_each_way_of_reading_is_there_for_the_same_work(tmp_path: Path) -> None:
    rows = rows_of("ways", tmp_path)
    by_way = {way: [row for row in rows if row["way"] == way] for way in {row["way"] for row in rows}}
    assert {way: len(some) for way, some in by_way.items()} == {
        "blocks, as shipped": 24, "one reader a client": 24, "two caravans": 24,
    }  # fmt: skip
    assert all(row["turns_median"] <= row["turns"] for row in rows)
    most = max(by_way["one reader a client"], key=lambda row: int(row["decoded"]))
    assert most["decoded"] > 10 * 20_000, "each of 20 clients reads more than half of the log"
