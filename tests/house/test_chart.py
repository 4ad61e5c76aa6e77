"""The Helm chart as Helm makes it, and the labels by which Prometheus knows its pods, as promtool makes them."""

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from coldnotify_cli.every_setting import all_settings
from coldnotify_cli.main import COMMANDS
from coldnotify_common.imported import settings_classes
from coldnotify_common.settings import describe, load
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_parts.registry import PARTS
from coldnotify_testkit.helm import helm, template

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "coldnotify"
PROMETHEUS = ROOT / "monitoring" / "prometheus"
NAMES = {row.name for row in PARTS}
BESIDE = {"auto"}
"""Jobs of what runs beside the parts, which no chart has: sources are each back-end's own."""
KAFKA = "kafka-1:9092,kafka-2:9092,kafka-3:9092"
INGRESS = (
    "--set",
    "gateway.ingress.host=gateway.example,http.ingress.host=http.example,http.ingress.tlsSecret=http-tls",
)


def containers(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Every container, with "environment" and "pod": its environment, and the pod's metadata."""
    for one in objects:
        if one["kind"] in ("StatefulSet", "Deployment", "Job"):
            pod = one["spec"]["template"]
            (container,) = pod["spec"]["containers"]
            environment = {each["name"]: each.get("value", "pod-0") for each in container["env"]}
            yield {**container, "environment": environment, "pod": pod["metadata"]}


def named(objects: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The objects of a kind by name, without the release's."""
    return {
        one["metadata"]["name"].removeprefix("field-coldnotify").removeprefix("-"): one
        for one in objects
        if one["kind"] == kind
    }


def test_helm_is_content() -> None:
    every = (*INGRESS, "--set", "monitoring.podMonitor=true,monitoring.rules=true")
    for arguments in ((), every):
        done = helm("lint", "--strict", str(CHART), *arguments)
        assert "0 chart(s) failed" in done.stdout, done.stdout + done.stderr


def test_pods_are_told_what_their_settings_take() -> None:
    objects = template(CHART, "--set", "filesSecret=files", "--set", "gateway.replicas=3", *INGRESS)
    assert named(objects, "StatefulSet").keys() == {"matcher", "gateway"}
    assert named(objects, "Deployment").keys() == {"http", "usage"}
    variables = {info.variable for settings in all_settings() for info in describe(settings)}
    settings = {row.name: settings_classes(row.settings)[0] for row in PARTS}
    by_part = {container["name"]: container for container in containers(objects)}
    assert by_part.keys() == {*NAMES, "topics"}
    for name, container in by_part.items():
        assert container["args"][0] in COMMANDS
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert set(container["environment"]) - {"POD_NAME"} <= variables
        if (kind := settings.get(name)) is not None:
            load(kind, container["environment"])
    for name in ("matcher", "gateway"):
        environment = by_part[name]["environment"]
        assert next(iter(environment)) == "POD_NAME", "what contains it comes after it"
        for variable in ("COLDNOTIFY_NODE_ADDRESSES", "COLDNOTIFY_HTTP_HOSTS"):
            assert environment[variable] == f"$(POD_NAME).field-coldnotify-{name}"
    of_others = {"COLDNOTIFY_MATCHER", "COLDNOTIFY_GATEWAY_HTTP", "COLDNOTIFY_HTTP_GATEWAYS"}
    assert of_others.isdisjoint(by_part["http"]["environment"]), "a new pod is known by its own record"


@pytest.mark.parametrize("given", [f"kafka.bootstrap={{{KAFKA}}}", "kafka.bootstrap=" + KAFKA.replace(",", "\\,")])
def test_several_kafka_nodes_are_a_list_or_a_text(given: str) -> None:
    objects = template(CHART, "--set", given)
    assert {container["environment"]["COLDNOTIFY_KAFKA"] for container in containers(objects)} == {KAFKA}


def test_the_documented_installation_is_one() -> None:
    page = (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^helm install field (.*?[^\\])$", page, re.MULTILINE | re.DOTALL)
    chart, *arguments = shlex.split(command.replace("\\\n", " "))
    objects = template(ROOT / chart, *arguments)
    assert {container["environment"]["COLDNOTIFY_KAFKA"] for container in containers(objects)} == {KAFKA}


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ("kafka.bootstrap=kafka", "/kafka/bootstrap"),
        ("gateway.ingress.host=https://x", "/gateway/ingress/host"),
        ("monitoring.podMonitor=1", "/monitoring/podMonitor"),
        ("settings.KAFKA=x", "/settings"),
        ("http.settings.COLDNOTIFY_HTTP_PORT=55002", "/http/settings/COLDNOTIFY_HTTP_PORT"),
    ],
)
def test_a_wrong_value_is_named(given: str, field: str) -> None:
    done = helm("template", "field", str(CHART), "--set", given)
    assert done.returncode != 0
    assert f"- at '{field}'" in done.stderr


def test_ingresses_lead_to_services_that_answer_to_their_hosts() -> None:
    assert named(template(CHART), "Ingress") == {}
    objects = template(CHART, *INGRESS, "--set", "http.ingress.className=nginx")
    found, services = named(objects, "Ingress"), named(objects, "Service")
    assert found.keys() == {"gateway", "http"}
    for part, host in (("gateway", "gateway.example"), ("http", "http.example")):
        (rule,) = found[part]["spec"]["rules"]
        assert rule["host"] == host
        (path,) = rule["http"]["paths"]
        to = path["backend"]["service"]
        service = services[to["name"].removeprefix("field-coldnotify-")]
        assert to["port"]["name"] in {port["name"] for port in service["spec"]["ports"]}
        assert service["spec"]["selector"]["app.kubernetes.io/component"] == part
        # A request may be held back for 60 s.
        assert int(found[part]["metadata"]["annotations"]["nginx.ingress.kubernetes.io/proxy-read-timeout"]) > 60
    assert "tls" not in found["gateway"]["spec"]
    assert found["http"]["spec"]["tls"] == [{"hosts": ["http.example"], "secretName": "http-tls"}]
    assert found["http"]["spec"]["ingressClassName"] == "nginx"
    environment = {container["name"]: container["environment"] for container in containers(objects)}
    assert environment["gateway"]["COLDNOTIFY_GATEWAY_WEB_ORIGINS"] == "https://gateway.example"
    assert "http.example" in environment["http"]["COLDNOTIFY_HTTP_HOSTS"].split()


def notes(tmp_path: Path, *arguments: str) -> str:
    """What an installation says. Helm shows it only where there is a cluster, so it becomes an object's value."""
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart, dirs_exist_ok=True)
    said = (chart / "templates" / "NOTES.txt").read_text(encoding="utf-8")
    wrapped = '{{- define "notes" }}' + said + '{{ end }}\nkind: Notes\nsaid: {{ include "notes" . | toJson }}\n'
    (chart / "templates" / "notes.yaml").write_text(wrapped, encoding="utf-8")
    (found,) = [one["said"] for one in template(chart, *arguments) if one["kind"] == "Notes"]
    assert isinstance(found, str)
    return found


def test_an_installation_says_what_is_there_and_what_is_next(tmp_path: Path) -> None:
    said = notes(tmp_path, "--set", f"kafka.bootstrap={{{KAFKA}}},usage.replicas=0")
    assert f"is installed as field-coldnotify in default, at Kafka {KAFKA}, topics coldnotify.*:\n" in said
    shown = {name: int(number) for name, number in re.findall(r"^  field-coldnotify-(\w+) +(\d+)$", said, re.MULTILINE)}
    assert shown == {"matcher": 2, "gateway": 2, "http": 2, "usage": 0}
    assert "\n  kubectl --namespace default port-forward service/field-coldnotify-http 55002:55002\n" in said
    assert "http://127.0.0.1:55002/\n" in said
    assert "COLDNOTIFY_AUTH" in said
    said = notes(tmp_path, "--set", "settings.COLDNOTIFY_AUTH=token,tls.http=true", *INGRESS)
    assert "COLDNOTIFY_AUTH" not in said
    assert "https://127.0.0.1:55002/" in said
    assert "or to gateway.example" in said


def jobs_of_alerts() -> set[str]:
    """The jobs that alerts and dashboards select."""
    files = (PROMETHEUS / "alerts.yml", *sorted((PROMETHEUS.parent / "grafana" / "dashboards").glob("*.json")))
    text = "".join(path.read_text(encoding="utf-8").replace("\\", "") for path in files)
    return {name for names in re.findall(r'job=~?"([^"$]+)"', text) for name in names.split("|")}


def relabelled(tmp_path: Path, rules: list[dict[str, Any]], metas: list[dict[str, str]]) -> list[dict[str, str]]:
    """The labels that Prometheus gives to targets with these meta labels; dropped targets are left out."""
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("there is no promtool (Debian's package prometheus has it)")
    targets = [
        {"targets": [f"10.0.0.{i + 1}:{meta.pop('port')}"], "labels": meta}
        for i, meta in enumerate(dict(meta) for meta in metas)
    ]
    job = {"job_name": "coldnotify", "relabel_configs": rules, "static_configs": targets}
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": [job]}), encoding="utf-8")
    for timeout_s in (1, 10, 60):
        # It always waits for so long, and shows what was discovered by then: everything, or nothing.
        argv = [promtool, "check", "service-discovery", f"--timeout={timeout_s}s", str(tmp_path / "prometheus.yml")]
        done = subprocess.run([*argv, "coldnotify"], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        if found := json.loads(done.stdout):
            return [one["labels"] for one in found if one.get("labels")]
    raise AssertionError("nothing is discovered")


def metas_of(objects: list[dict[str, Any]]) -> list[dict[str, str]]:
    """The meta labels that Kubernetes' discovery gives to the pods, one for each port of a container."""
    return [
        {
            "port": str(port["containerPort"]),
            "__meta_kubernetes_pod_name": f"{container['name']}-0",
            "__meta_kubernetes_pod_phase": "Running",
            "__meta_kubernetes_pod_container_port_name": port["name"],
            **meta("label", container["pod"]["labels"]),
            **meta("annotation", container["pod"].get("annotations", {})),
        }
        for container in containers(objects)
        for port in container.get("ports", [{"containerPort": 80, "name": ""}])
    ]


def meta(kind: str, values: Mapping[str, str]) -> dict[str, str]:
    """Labels or annotations under the names that Kubernetes' discovery gives them."""
    return {f"__meta_kubernetes_pod_{kind}_{re.sub('[^a-zA-Z0-9]', '_', name)}": text for name, text in values.items()}


def rules_of_the_operator(monitor: dict[str, Any]) -> list[dict[str, Any]]:
    """What the Prometheus Operator makes of a PodMonitor: its selector, its port, jobLabel, then relabelings."""
    (endpoint,) = monitor["podMetricsEndpoints"]
    keep = [(one, text) for one, text in meta("label", monitor["selector"]["matchLabels"]).items()]
    keep.append(("__meta_kubernetes_pod_container_port_name", endpoint["port"]))
    (job,) = meta("label", {monitor["jobLabel"]: ""})
    snake = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return [
        *({"source_labels": [one], "regex": text, "action": "keep"} for one, text in keep),
        {"target_label": "job", "replacement": "default/field-coldnotify"},
        {"source_labels": [job], "target_label": "job", "regex": "(.+)", "replacement": "${1}"},
        *({snake.get(name, name): value for name, value in rule.items()} for rule in endpoint["relabelings"]),
    ]


def the_scrape_config() -> list[dict[str, Any]]:
    (job,) = read_yaml((PROMETHEUS / "kubernetes.yml").read_text(encoding="utf-8"))["scrape_configs"]
    assert job["kubernetes_sd_configs"] == [{"role": "pod"}]
    found: list[dict[str, Any]] = job["relabel_configs"]
    return found


@pytest.mark.parametrize("way", ["operator", "scrape config"])
def test_alerts_select_the_pods_however_they_are_scraped(way: str, tmp_path: Path) -> None:
    objects = template(CHART, "--set", "monitoring.podMonitor=true,tls.inside=true")
    rules = (
        the_scrape_config()
        if way == "scrape config"
        else rules_of_the_operator(named(objects, "PodMonitor")[""]["spec"])
    )
    found = relabelled(tmp_path, rules, metas_of(objects))
    assert {labels["job"] for labels in found} == NAMES >= jobs_of_alerts() - BESIDE
    assert len(found) == len(NAMES)
    for labels in found:
        assert labels["instance"] == f"{labels['job']}-0"
        assert labels["__scheme__"] == ("http" if labels["job"] == "http" else "https")
        port = next(row.port for row in PARTS if row.name == labels["job"])
        assert labels["__address__"].endswith(f":{port}")


def test_documented_jobs_are_those_that_alerts_select() -> None:
    assert jobs_of_alerts() <= NAMES | BESIDE
    for page in (ROOT / "docs").rglob("*.md"):
        assert set(re.findall(r"job_name: (\S+)", page.read_text(encoding="utf-8"))) <= NAMES, page


def test_a_pod_is_not_scraped_by_its_annotations() -> None:
    # A job of that kind names all its targets alike, and no alert selects them.
    for container in containers(template(CHART)):
        assert "prometheus.io/scrape" not in container["pod"].get("annotations", {})


@pytest.mark.parametrize("docs", ["", "https://docs.example/coldnotify"])
def test_the_operators_rules_are_the_alerts(docs: str) -> None:
    values = f"monitoring.rules=true,monitoring.docs={docs},monitoring.labels.release=prometheus"
    rule = named(template(CHART, "--set", values), "PrometheusRule")[""]
    assert rule["metadata"]["labels"]["release"] == "prometheus"
    text = (PROMETHEUS / "alerts.yml").read_text(encoding="utf-8")
    assert rule["spec"] == read_yaml(text.replace("{{ $externalLabels.coldnotify_docs }}", docs) if docs else text)
