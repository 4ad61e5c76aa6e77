import json
import re
from pathlib import Path
from typing import Any

import pytest
from coldnotify_cli.dashboards import DASHBOARDS, dashboard, text_of
from coldnotify_cli.metrics_doc import all_metrics

DIRECTORY = Path(__file__).parents[3] / "monitoring" / "grafana" / "dashboards"
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
