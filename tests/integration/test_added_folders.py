"""A part and a listener that are added by a folder and a line each are found by everything, and run.

The part is a source: it publishes. Both are in tests/toys/; docs/extending.md shows what is added.
"""

import difflib
import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_testkit.command import coldnotify
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.helm import template
from coldnotify_testkit.kafka import free_port
from coldnotify_testkit.stack import PARTITIONS, Stacks
from coldnotify_testkit.waiting import WAIT_S, wait_for
from coldnotify_tools import deployed

ROOT = Path(__file__).parents[2]
TOYS = ROOT / "tests" / "toys"
PARTS = Path("services/parts/coldnotify_parts")
LISTENERS = Path("services/gateway/coldnotify_gateway/listeners")
KAFKA = (Path("kafka/topics.yaml"), Path("kafka/acls.yaml"))
COPIED = (PARTS, LISTENERS.parent, Path("deploy"), Path("monitoring"), Path("docker-compose.yml"), *KAFKA)

LOOK = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from coldnotify_cli import parts_in_kafka, service_checks
from coldnotify_cli.main import cli
from coldnotify_cli.settings import UpSettings
from coldnotify_cli.stack import Stack
from coldnotify_schemas.topics import TopicNames
from coldnotify_tools import deployed, settings_doc
from coldnotify_tools.dashboards import text_of
from coldnotify_tools.metrics_doc import all_metrics

root = Path(sys.argv[1])
deployed.main(root)
up = Stack(UpSettings(data=root / "data", kafka_port=0, gateway_port=0, http_port=0, matcher_port=0))
print(json.dumps({
    "up": [part.name for stage in up.stages for part in stage],
    "ready": list(up.ready_report({})),
    "up_help": CliRunner().invoke(cli, ["up", "--help"]).output,
    "gateway_help": CliRunner().invoke(cli, ["gateway", "--help"]).output,
    "toy_help": CliRunner().invoke(cli, ["toy", "--help"]).output,
    "doctor": service_checks._added(""),
    "settings": settings_doc.generate(),
    "topics": [spec.name for spec in parts_in_kafka.topics(None, 1, TopicNames())],
    "acls": [str(acl) for acl in parts_in_kafka.acls("User:{role}", TopicNames())],
    "metrics": [metric.name for metric in all_metrics()["toy"]],
    "panels": [panel["title"] for panel in json.loads(text_of("overview"))["panels"]],
}))
"""


def add(tree: Path, toy: str, into: Path) -> None:
    """A folder and a line."""
    shutil.copytree(TOYS / toy, tree / into / toy, ignore=shutil.ignore_patterns("__pycache__"))
    table = tree / into / "registry.py"
    before, folders, rest = table.read_text().partition("_FOLDERS = (\n")
    names, end, after = rest.partition(")\n")
    table.write_text(f'{before}{folders}{names}    "{toy}",\n{end}{after}')


def diff(tree: Path) -> dict[str, list[str]]:
    """By path, what the tree has more or less than ours."""
    found = {}
    for folder in (PARTS, LISTENERS.parent):
        for path in sorted((tree / folder).rglob("*.py")):
            name = path.relative_to(tree)
            ours = (ROOT / name).read_text().splitlines() if (ROOT / name).exists() else []
            lines = list(difflib.unified_diff(ours, path.read_text().splitlines(), lineterm="", n=0))[3:]
            if lines:
                found[name.as_posix()] = lines
    return found


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What reads the tables, with both toys."""
    tree = tmp_path_factory.mktemp("tree")
    for path in COPIED:
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / path).is_dir():
            shutil.copytree(ROOT / path, tree / path, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / path, tree / path)
    add(tree, "toy", PARTS)
    add(tree, "line", LISTENERS)
    return tree


@pytest.fixture(scope="module")
def path_of(tree: Path) -> str:
    """PYTHONPATH, by which the tree comes before ours."""
    return os.pathsep.join(str(tree / path.parent) for path in (PARTS, LISTENERS.parent))


@pytest.fixture(scope="module")
def found(tree: Path, path_of: str) -> dict[str, Any]:
    """What everything finds."""
    argv = [sys.executable, "-c", LOOK, str(tree)]
    environ = {**os.environ, "PYTHONPATH": path_of}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=WAIT_S, check=False, env=environ)
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_each_is_a_folder_and_a_line(tree: Path) -> None:
    changes = diff(tree)
    folders = (f"{PARTS}/toy/", f"{LISTENERS}/line/")
    print("\n".join(f"{path}: {len(lines)} lines" for path, lines in changes.items()))
    assert {path: lines for path, lines in changes.items() if not path.startswith(folders)} == {
        f"{PARTS}/registry.py": ['+    "toy",'],
        f"{LISTENERS}/registry.py": ['+    "line",'],
    }


def test_the_page_on_extending_shows_the_lines() -> None:
    page = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    for table, name in ((PARTS, "toy"), (LISTENERS, "line")):
        assert f"{table}/registry.py" in page
        assert f'+    "{name}",\n' in page


def test_up_and_doctor_know_the_part(found: dict[str, Any]) -> None:
    assert "toy" in found["up"]
    assert {"toy", "line"} <= set(found["ready"])
    assert found["doctor"] == {"toy": "127.0.0.1:51990"}
    for flag in ("--toy-port", "--gateway-line-port"):
        assert flag in found["up_help"]
    assert "--gateway-line-text" not in found["up_help"]
    assert "--toy-every-s" in found["toy_help"]


def test_documents_have_its_settings_and_metrics(found: dict[str, Any]) -> None:
    _, _, section = found["settings"].partition("## coldnotify toy\n")
    assert "`COLDNOTIFY_TOY_EVERY_S`" in section.partition("\n## ")[0]
    assert found["metrics"] == ["coldnotify_toy_published_total"]
    assert "Toys" in found["panels"]


def test_the_gateway_takes_the_listeners_settings(found: dict[str, Any]) -> None:
    assert "--gateway-line-text" in found["gateway_help"]
    _, _, section = found["settings"].partition("## coldnotify gateway\n")
    assert "`COLDNOTIFY_GATEWAY_LINE_TEXT`" in section.partition("\n## ")[0]


def test_kafka_has_its_topics_and_rights(found: dict[str, Any]) -> None:
    assert "coldnotify.toy" in found["topics"]
    assert {acl for acl in found["acls"] if acl.startswith("User:toy:")} == {
        "User:toy: write topic coldnotify.objects",
        "User:toy: read topic coldnotify.toy",
        "User:toy: write topic coldnotify.toy",
        "User:toy: read group coldnotify-toy*",
    }


@pytest.mark.usefixtures("found")
def test_it_is_deployed_and_watched(tree: Path) -> None:
    chart = tree / "deploy/helm/coldnotify"
    values = read_yaml((chart / "values.yaml").read_text())
    assert values["parts"]["toy"]["port"] == 51990
    jsonschema_rs.validator_for(json.loads((chart / "values.schema.json").read_text())).validate(values)
    assert (tree / "deploy/systemd/coldnotify-toy.service").exists()
    assert read_yaml((tree / "docker-compose.yml").read_text())["services"]["toy"]["command"] == ["toy"]
    jobs = read_yaml((tree / "monitoring/prometheus/prometheus.yml").read_text())["scrape_configs"]
    assert {"job_name": "toy", "static_configs": [{"targets": ["toy:51990"]}]} in jobs
    for path in (deployed.ALERTS, deployed.CHART_ALERTS):
        groups = read_yaml((tree / path).read_text())["groups"]
        assert "ToyIsSilent" in {rule["alert"] for group in groups for rule in group["rules"]}


@pytest.mark.usefixtures("found")
def test_helm_makes_pods_of_it(tree: Path) -> None:
    objects = template(tree / "deploy/helm/coldnotify", "--set", "kafka.bootstrap=kafka-1:9092")
    (made,) = [one for one in objects if one["metadata"]["name"] == "field-coldnotify-toy"]
    assert made["kind"] == "Deployment"
    (container,) = made["spec"]["template"]["spec"]["containers"]
    assert container["args"] == ["toy"]
    assert container["ports"] == [{"name": "look", "containerPort": 51990}]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment == {
        "COLDNOTIFY_KAFKA": "kafka-1:9092",
        "COLDNOTIFY_TOPICS_PREFIX": "coldnotify.",
        "COLDNOTIFY_LOG_FORMAT": "json",
        "COLDNOTIFY_TOY_HOST": "0.0.0.0",
    }


def test_both_run(stacks: Stacks, path_of: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", path_of)
    settings = {"toy_port": str(free_port()), "gateway_line_port": str(free_port()), "gateway_line_text": "hello"}
    with stacks.running(tmp_path, **settings) as up:
        assert up.report["toy"].endswith(settings["toy_port"])
        assert up.report["pids"]["toy"]
        url = f"{up.matcher_url}/v1/domains/toy/groups/toy/objects/toy"
        wait_for(lambda: fetch(url).status == 200, "the source's publish is there")
        host, _, port = up.report["line"].rpartition(":")
        with socket.create_connection((host, int(port)), WAIT_S) as connection, connection.makefile() as file:
            assert file.read() == "hello\n"
        report = up.report
        environ = {**up.in_kafka, "http": report["http"], "matcher": report["matcher"], "usage": report["usage"]}
        environ |= {"gateway_http": report["gateways_http"][0], "parts": f"toy={report['toy']}"}
        said = coldnotify("doctor", "--json", f"--partitions={PARTITIONS}", **environ)
        findings = [json.loads(line) for line in said.stdout.splitlines()]
        assert [one["state"] for one in findings if one["what"] == "toy source"] == ["ok"], said.stdout
        assert [one for one in findings if one["what"] == "gateway" and one["words"].startswith("line ")], said.stdout
        assert [one["state"] for one in findings if one["what"] == "topics"] == ["ok"], said.stdout
