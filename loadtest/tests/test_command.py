"""The command and an experiment run through it, tiny.

Stands for: command, bench, provenance, rates, growth, wire, scale, peers, usage, channels, channel_devices
Stands for: channel_sending
"""

import json
from pathlib import Path

import pytest
from coldnotify_loadtest.bench import chosen
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
