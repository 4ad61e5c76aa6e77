import json
import re
from pathlib import Path
from typing import Any

import pytest
from coldnotify_tools.dashboards import DASHBOARDS, dashboard, text_of
from coldnotify_tools.metrics_doc import all_metrics

DIRECTORY = Path(__file__).parents[2] / "monitoring" / "grafana" / "dashboards"
_OF_PROMETHEUS = {"ALERTS", "process_resident_memory_bytes", "process_cpu_seconds_total"} | {
    f"process_{which}_fds" for which in ("open", "max")
}


def test_the_files_are_up_to_date_and_all_there_are() -> None:
    assert {path.name for path in DIRECTORY.iterdir()} == {f"{name}.json" for name in DASHBOARDS}
    for name in DASHBOARDS:
        assert (DIRECTORY / f"{name}.json").read_text(encoding="utf-8") == text_of(name), (
            f"{name}.json is out of date: make docs"
        )


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_ask_for_metrics_that_exist(name: str) -> None:
    known = {metric.name for metrics in all_metrics().values() for metric in metrics} | _OF_PROMETHEUS
    for panel in dashboard(name)["panels"]:
        for target in panel["targets"]:
            used = set(re.findall(r"\b(?:coldnotify|process)_\w+|ALERTS", target["expr"]))
            assert used
            assert {
                one for one in used if re.sub("_(bucket|sum|count)$", "", one) not in known and one not in known
            } == set()


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_have_places_of_their_own(name: str) -> None:
    panels: list[dict[str, Any]] = json.loads(text_of(name))["panels"]
    places = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    assert len(places) == len(set(places))
    assert max(x for x, _ in places) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_say_what_they_show(name: str) -> None:
    for panel in dashboard(name)["panels"]:
        assert len(panel["description"]) > len(panel["title"]), panel["title"]


@pytest.mark.parametrize("name", ["matcher", "gateway", "kafka"])
def test_each_query_is_of_the_instances_that_were_chosen(name: str) -> None:
    shown = dashboard(name)
    (variable,) = shown["templating"]["list"]
    assert (variable["name"], variable["allValue"]) == ("instance", ".*")
    for panel in shown["panels"]:
        for target in panel["targets"]:
            metrics = re.findall(r"\b(?:coldnotify|process)_\w+", target["expr"])
            assert target["expr"].count('instance=~"$instance"') == len(metrics), target["expr"]


def test_of_the_overview_a_domain_may_be_chosen_where_metrics_have_one() -> None:
    shown = dashboard("overview")
    (variable,) = shown["templating"]["list"]
    assert variable["definition"] == "label_values(coldnotify_matcher_domain_publishes_total, domain)"
    (stale,) = [panel for panel in shown["panels"] if panel["title"] == "Stale publishes"]
    assert '{outcome="stale", domain=~"$domain"}' in stale["targets"][0]["expr"]
    (sessions,) = [panel for panel in shown["panels"] if panel["title"] == "Sessions by state"]
    assert "domain" not in sessions["targets"][0]["expr"]


def test_labels_stay_as_they_were_given() -> None:
    shown = dashboard("gateway")
    (files,) = [panel for panel in shown["panels"] if panel["title"] == "Open files"]
    selected = '{job="gateway", instance=~"$instance"}'
    assert files["targets"][0]["expr"] == f"process_open_fds{selected} / process_max_fds{selected}"
