"""What is generated of the rows of parts is in the tree, and says what the rows say."""

from dataclasses import replace
from pathlib import Path

import pytest
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_parts.registry import PARTS
from coldnotify_schemas.topics import TopicNames
from coldnotify_tools import deployed

ROOT = Path(__file__).parents[2]
PLANTED = replace(
    PARTS[-1],
    name="planted",
    title="planted part",
    port=51999,
    port_setting="planted_port",
    deployed_by_hand=False,
    node=False,
    containers=2,
    alerts="- alert: PlantedLags\n  expr: planted_lag > 1\n",
)


def test_what_is_generated_is_in_the_tree() -> None:
    for path, text in deployed.generate().items():
        assert (ROOT / path).read_text(encoding="utf-8") == text, f"{path}: make docs"


def test_a_row_is_in_every_file() -> None:
    made = {str(path): text for path, text in deployed.generate(rows=(*PARTS, PLANTED)).items()}
    values = read_yaml(made["deploy/helm/coldnotify/values.yaml"])
    assert values["parts"]["planted"]["port"] == 51999
    assert values["parts"]["planted"]["settings"] == {"COLDNOTIFY_PLANTED_HOST": "0.0.0.0"}
    services = read_yaml(made["docker-compose.yml"])["services"]
    assert [services[f"planted-{i}"]["ports"] for i in (1, 2)] == [["127.0.0.1:51999:51999"], ["127.0.0.1:52000:51999"]]
    jobs = read_yaml(made["monitoring/prometheus/prometheus.yml"])["scrape_configs"]
    assert jobs[-1] == {
        "job_name": "planted",
        "static_configs": [{"targets": ["planted-1:51999", "planted-2:51999"]}],
    }
    group = read_yaml(made["monitoring/prometheus/alerts.yml"])["groups"][-1]
    assert group == {"name": "planted", "rules": [{"alert": "PlantedLags", "expr": "planted_lag > 1"}]}
    unit = made["deploy/systemd/coldnotify-planted.service"]
    assert "ExecStart=/opt/coldnotify/bin/coldnotify planted\n" in unit
    assert "usage" not in unit


def test_a_file_without_a_region_is_named(tmp_path: Path) -> None:
    for path in (*deployed.FILES, Path("deploy/systemd/coldnotify-usage.service")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    with pytest.raises(ValueError, match=r"values\.yaml: the comments around what is generated are missing"):
        deployed.generate(tmp_path)


def test_written_once_more_nothing_changes(tmp_path: Path) -> None:
    for path in (*deployed.FILES, Path("deploy/systemd/coldnotify-usage.service")):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text((ROOT / path).read_text())
    deployed.main(tmp_path)
    assert {path: (tmp_path / path).read_text() for path in deployed.FILES} == {
        path: (ROOT / path).read_text() for path in deployed.FILES
    }


SHARED_TOPICS = {"objects", "channels.1h", "channels.1d", "channels.30d", "rejected", "nodes", "tenants"}
SHARED_ROLES = {"publisher", "auto", "operator"}


def test_topics_and_roles_of_one_part_are_in_its_folder() -> None:
    topics = [name.removeprefix("coldnotify.") for row in PARTS for name in deployed.topics_of(row)]
    assert len(set(topics)) == len(topics)
    assert {*topics, *SHARED_TOPICS} == {name.removeprefix("coldnotify.") for name in TopicNames().all}
    roles = read_yaml((ROOT / deployed.ROLES).read_text(encoding="utf-8"))["roles"]
    assert {row.name for row in PARTS} | SHARED_ROLES == set(roles)
    assert all(row.rights for row in PARTS)


def test_alerts_about_one_part_are_in_its_folder() -> None:
    groups = read_yaml((ROOT / deployed.ALERTS).read_text(encoding="utf-8"))["groups"]
    for rule in (rule for group in groups for rule in group["rules"]):
        of_parts = {row.name for row in PARTS if f"coldnotify_{row.name}_" in rule["expr"]}
        of_several = len(of_parts) != 1 or "coldnotify_tenants" in rule["expr"]
        has = [row.name for row in PARTS if rule["alert"] in deployed.rules_of(row)]
        assert has == ([] if of_several else [*of_parts]) or rule["alert"] == "NoGateway", rule["alert"]


@pytest.mark.parametrize(
    ("path", "part", "field", "old", "new"),
    [
        (deployed.TOPICS, "usage", "topics", "  retention.ms: 172800000", "  retention.ms: 5"),
        (deployed.ROLES, "usage", "rights", "coldnotify.usage: [read]", "coldnotify.usage: [read, write]"),
        (deployed.ALERTS, "http", "alerts", "disk_free_ratio < 0.05", "disk_free_ratio < 0.04"),
    ],
)
def test_an_entry_of_a_row_is_replaced_where_it_is(path: Path, part: str, field: str, old: str, new: str) -> None:
    row = next(row for row in PARTS if row.name == part)
    changed = replace(row, **{field: getattr(row, field).replace(old, new)})  # type: ignore[arg-type]
    rows = [changed if one is row else one for one in PARTS]
    before, after = (deployed.generate(rows=some)[path].splitlines() for some in (PARTS, rows))
    differ = [(one.strip(), other.strip()) for one, other in zip(before, after, strict=True) if one != other]
    assert len(differ) == 1
    assert differ[0][0].replace(old.strip(), new.strip()) == differ[0][1]
