"""The alerts: each has a runbook and tests, goes by metrics that exist, and Prometheus takes them."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_parts.registry import PARTS
from coldnotify_testkit.drills.faults import DRILLS, FAULTS, NOT_DRILLED
from coldnotify_tools.metrics_doc import all_metrics

ROOT = Path(__file__).parents[2]
PROMETHEUS = ROOT / "monitoring" / "prometheus"
RUNBOOKS = ROOT / "docs" / "runbooks"
_OF_PROMETHEUS = {"up", "process_open_fds", "process_max_fds"}
_SUFFIXES = re.compile(r"_(bucket|count|sum)$")
_WORDS = re.compile(r"\b[a-z][a-z0-9_]+_[a-z0-9_]+\b|\bup\b")

GROUPS: list[dict[str, Any]] = read_yaml((PROMETHEUS / "alerts.yml").read_text(encoding="utf-8"))["groups"]
ALERTS: dict[str, dict[str, Any]] = {rule["alert"]: rule for group in GROUPS for rule in group["rules"]}


def names() -> set[str]:
    """Of all metrics of all services."""
    return {metric.name for metrics in all_metrics().values() for metric in metrics}


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    runbooks = {path.stem for path in RUNBOOKS.glob("*.md")} - {"README"}
    assert runbooks == set(ALERTS)
    assert set(re.findall(r"\]\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text(encoding="utf-8"))) == set(ALERTS)


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_says_how_bad_it_is_and_where_its_runbook_is(name: str) -> None:
    alert = ALERTS[name]
    assert alert["labels"]["severity"] in ("page", "ticket")
    assert alert["annotations"]["runbook_url"] == f"{{{{ $externalLabels.coldnotify_docs }}}}/runbooks/{name}.html"
    assert alert["annotations"]["summary"]
    text = (RUNBOOKS / f"{name}.md").read_text(encoding="utf-8")
    assert re.findall(r"^#+ (.*)$", text.partition("```sh")[0], re.MULTILINE) == [name, "What users feel", "Look"]
    assert re.search(r"\n```\n\n## Do\n\n- ", text)


@pytest.mark.parametrize("name", ALERTS)
def test_a_summary_reads_well_for_a_count_of_one(name: str) -> None:
    """The count stands behind its noun, not before a plural: "1 records were set aside" is wrong."""
    assert not re.search(r"\$value( \| humanize)? }} [a-z]", ALERTS[name]["annotations"]["summary"])


@pytest.mark.parametrize("name", ALERTS)
def test_an_alert_goes_by_metrics_that_exist(name: str) -> None:
    expression = re.sub(r'"[^"]*"', "", ALERTS[name]["expr"])
    known = names() | _OF_PROMETHEUS
    used = {w for w in _WORDS.findall(expression) if w.startswith(("coldnotify_", "process_")) or w == "up"}
    assert used
    assert {word for word in used if word not in known and _SUFFIXES.sub("", word) not in known} == set()


def test_a_part_without_which_others_are_of_no_use_wakes_somebody() -> None:
    needed = "|".join(row.name for row in PARTS if row.needed)
    assert ALERTS["ProcessDown"]["expr"] == f'up{{job=~"{needed}"}} == 0'


def test_each_alert_is_tested_to_fire_and_to_clear() -> None:
    tests = read_yaml((PROMETHEUS / "alerts_test.yml").read_text(encoding="utf-8"))["tests"]
    assert {test["name"] for test in tests} == set(ALERTS)
    for test in tests:
        samples = [expected["exp_samples"][0]["value"] for expected in test["promql_expr_test"]]
        assert samples == [0, 1, 0], test["name"]
        assert all(f'alertname="{test["name"]}"' in expected["expr"] for expected in test["promql_expr_test"])


def test_each_alert_has_a_fault_that_makes_it_fire_or_a_reason_why_not() -> None:
    fired = set().union(*FAULTS.values(), *DRILLS.values())
    assert fired | NOT_DRILLED.keys() == set(ALERTS)
    assert fired.isdisjoint(NOT_DRILLED)


def test_prometheus_scrapes_the_containers_at_their_ports() -> None:
    jobs = read_yaml((PROMETHEUS / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
    services = read_yaml((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]
    found, *jobs = jobs
    assert found["http_sd_configs"][0]["url"] == "http://http:55002/v1/prometheus-targets"
    assert "http" in services["http"]["environment"]["COLDNOTIFY_HTTP_HOSTS"].split()
    assert {job["job_name"] for job in jobs} == {row.name for row in PARTS if not row.node}
    for job in jobs:
        targets = [target.partition(":") for target in job["static_configs"][0]["targets"]]
        # Each has containers of its own number, as gateway-1 and gateway-2.
        assert {host for host, _, _ in targets} == {
            name for name in services if re.fullmatch(rf"{job['job_name']}(-\d+)?", name)
        }
        for host, _, port in targets:
            assert any(mapping.endswith(f":{port}") for mapping in services[host]["ports"])


def test_a_runbook_is_linked_below_the_label_that_the_operator_sets(tmp_path: Path) -> None:
    # A page of the site is NAME.html.
    assert "\nuse_directory_urls: false\n" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    annotations = {
        "summary": "gateway g does not answer",
        "runbook_url": "https://docs.example/coldnotify/runbooks/ProcessDown.html",
    }
    labels = {"severity": "page", "job": "gateway", "instance": "g"}
    test = {
        "external_labels": {"coldnotify_docs": "https://docs.example/coldnotify"},
        "input_series": [{"series": 'up{job="gateway", instance="g"}', "values": "0x9"}],
        "alert_rule_test": [
            {
                "eval_time": "5m",
                "alertname": "ProcessDown",
                "exp_alerts": [{"exp_labels": labels, "exp_annotations": annotations}],
            }
        ],
    }
    # JSON is YAML.
    (tmp_path / "test.yml").write_text(json.dumps({"rule_files": [str(PROMETHEUS / "alerts.yml")], "tests": [test]}))
    promtool("test", "rules", str(tmp_path / "test.yml"))


@pytest.mark.parametrize("arguments", [("check", "config", "prometheus.yml"), ("test", "rules", "alerts_test.yml")])
def test_promtool_is_content(arguments: tuple[str, ...]) -> None:
    promtool(*arguments)


def promtool(*arguments: str) -> None:
    """Asserts that promtool is content."""
    program = shutil.which("promtool")
    if program is None:
        pytest.skip("there is no promtool (Debian's package prometheus has it)")
    done = subprocess.run([program, *arguments], cwd=PROMETHEUS, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
