"""docker-compose.yml and the Dockerfile, as far as they can be held to their rules without an engine."""

import re
import shutil
import subprocess
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest
from coldnotify_cli.every_setting import all_settings
from coldnotify_cli.main import COMMANDS
from coldnotify_common.settings import describe, load
from coldnotify_gateway.settings import GatewaySettings
from coldnotify_kafka.broker import KAFKA_VERSION
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_parts.registry import PARTS

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docker-compose.yml").read_text(encoding="utf-8")
SERVICES: dict[str, dict[str, Any]] = read_yaml(TEXT)["services"]
THREE = dict(
    line.split("=", 1)
    for line in (ROOT / "docker-compose.three.env").read_text().splitlines()
    if line and not line.startswith("#")
)
_COMPOSE_MIN = (2, 20, 2)
BALANCER_FILE = ROOT / "docker-compose.haproxy.cfg"
BALANCER = BALANCER_FILE.read_text(encoding="utf-8")
DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", SERVICES)
def test_images_have_fixed_tags_and_services_tell_their_health(name: str) -> None:
    service = SERVICES[name]
    _, _, tag = service["image"].rpartition(":")
    assert re.fullmatch(r"v?\d+\.\d+\.\d+(-alpine)?", tag)
    assert ("healthcheck" in service) == (name != "topics"), "topics runs once and ends"
    for other in service.get("depends_on", {}):
        assert other in SERVICES
    for port in service.get("ports", []):
        assert port.startswith("127.0.0.1:")
    for volume in service.get("volumes", []):
        source = volume.partition(":")[0]
        assert (ROOT / source).exists() if source.startswith("./") else source in read_yaml(TEXT)["volumes"]


def test_no_port_of_this_machine_is_taken_twice() -> None:
    ports = [port.rpartition(":")[0] for service in SERVICES.values() for port in service.get("ports", [])]
    assert len(set(ports)) == len(ports)


def test_each_matcher_has_a_name_of_its_own_and_nobody_lists_the_others() -> None:
    matchers = [name for name in SERVICES if name.startswith("matcher-")]
    assert [SERVICES[name]["environment"]["COLDNOTIFY_MATCHER_ID"] for name in matchers] == matchers
    of_others = {"COLDNOTIFY_MATCHER", "COLDNOTIFY_GATEWAY_HTTP", "COLDNOTIFY_HTTP_GATEWAYS"}
    assert of_others.isdisjoint(SERVICES["http"]["environment"])


def test_devices_reach_every_gateway_by_the_balancer_and_in_no_other_way() -> None:
    gateways = [name for name in SERVICES if name.startswith("gateway-")]
    for port in (55000, 55003):
        assert re.findall(rf"^    server (\S+) (\S+):{port}$", BALANCER, re.MULTILINE) == [(n, n) for n in gateways]
        assert re.findall(rf"^    bind :{port}$", BALANCER, re.MULTILINE)
        assert [name for name, s in SERVICES.items() if f"127.0.0.1:{port}:{port}" in s.get("ports", [])] == [
            "balancer"
        ]
    # A quiet device is not cut off between two pings.
    for side in ("client", "server"):
        (hours,) = re.findall(rf"^    timeout {side} (\d+)h$", BALANCER, re.MULTILINE)
        assert int(hours) * 3600 > GatewaySettings().gateway_keepalive_max_s


def test_gateways_believe_the_balancer_alone_whose_connections_it_passes_on() -> None:
    compose = read_yaml(TEXT)
    (subnet,) = [one["subnet"] for one in compose["networks"]["balancing"]["ipam"]["config"]]
    inside = [name for name, service in SERVICES.items() if "balancing" in service.get("networks", [])]
    gateways = [name for name in SERVICES if name.startswith("gateway-")]
    assert sorted(inside) == sorted([*gateways, "balancer"])
    for name in gateways:
        environment = {key: _by_default(str(value)) for key, value in SERVICES[name]["environment"].items()}
        assert load(GatewaySettings, environment).proxies() == (ip_network(subnet),)
        assert SERVICES[name]["networks"] == ["default", "balancing"]
    # In no other network: what the HTTP service passes on comes without a header.
    assert SERVICES["balancer"]["networks"] == ["balancing"]
    (server,) = re.findall(r"^    default-server (.*)$", BALANCER, re.MULTILINE)
    assert "send-proxy-v2 check port 55001" in server
    assert not re.findall(
        r"^    default-server|^    server .*send-proxy", BALANCER.partition("default-server")[2], re.M
    )


def _by_default(value: str) -> str:
    return re.sub(r"\$\{\w+:-([^}]+)\}", r"\1", value)


def test_the_version_of_compose_that_is_needed_is_named() -> None:
    assert "Docker Compose 2.20.2 or later" in TEXT, "depends_on has `required` since then"
    assert "required: false" in TEXT
    assert "Compose 2.20.2" in (ROOT / "docs" / "deploying.md").read_text(encoding="utf-8")


def compose_command() -> list[str]:
    """Docker's plugin, or the program of its own. Skips where there is neither, in a version that is new enough."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]) is None:
            continue
        said = subprocess.run([*command, "version", "--short"], capture_output=True, text=True, check=False).stdout
        found = re.match(r"v?(\d+)\.(\d+)\.(\d+)", said)
        # Whoever builds it of its sources may leave the version out.
        if "dev" in said or (found and tuple(map(int, found.groups())) >= _COMPOSE_MIN):
            return command
    pytest.skip("there is no Docker Compose of the version that is needed")


@pytest.mark.parametrize("flags", [(), ("--env-file", "docker-compose.three.env"), ("--profile", "ui")])
def test_compose_takes_the_file(flags: tuple[str, ...]) -> None:
    compose = compose_command()
    done = subprocess.run([*compose, *flags, "config", "--quiet"], capture_output=True, text=True, timeout=60, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_haproxy_takes_the_balancers_configuration() -> None:
    haproxy = shutil.which("haproxy")
    if haproxy is None:
        pytest.skip("there is no haproxy (Debian's package haproxy has it)")
    done = subprocess.run([haproxy, "-c", "-f", str(BALANCER_FILE)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kafka_is_the_one_that_is_embedded() -> None:
    nodes = {name: service for name, service in SERVICES.items() if re.fullmatch(r"kafka-\d", name)}
    assert {service["image"] for service in nodes.values()} == {f"apache/kafka:{KAFKA_VERSION}"}
    assert [service.get("profiles") for service in nodes.values()] == [None, ["three"], ["three"]]
    for number, (name, service) in enumerate(nodes.items(), 1):
        assert service["environment"]["KAFKA_NODE_ID"] == number
        assert f"{number}@{name}:9093" in THREE["KAFKA_VOTERS"].split(",")
        assert f"{name}:19092" in THREE["KAFKA_BOOTSTRAP"].split(",")
        assert service["volumes"] == [f"{name}:/var/lib/kafka/data"]


def test_every_part_has_its_containers() -> None:
    ours = {name: one for name, one in SERVICES.items() if one["image"].partition(":")[0] == "coldnotify"}
    assert set(ours) == {"topics", *(host for row in PARTS for host in row.hosts)}
    for row in PARTS:
        for host in row.hosts:
            assert ours[host]["command"] == [row.name]
            assert ours[host]["environment"][row.host_variable] == "0.0.0.0"
            assert f"127.0.0.1:{row.port}/readyz" in str(ours[host]["healthcheck"])


def test_commands_and_settings_are_ours() -> None:
    variables = {info.variable for settings in all_settings() for info in describe(settings)}
    for service in SERVICES.values():
        if service["image"].partition(":")[0] != "coldnotify":
            continue
        assert service["command"][0] in COMMANDS
        assert set(service["environment"]) <= variables


def test_every_variable_has_a_default_and_a_value_for_three() -> None:
    used = set(re.findall(r"\$\{(\w+):-[^}]+\}", TEXT))
    assert TEXT.count("${") == len(re.findall(r"\$\{\w+:-[^}]+\}", TEXT))
    # The prefix is the same, however many nodes there are.
    assert used - {"TOPICS_PREFIX"} == set(THREE) - {"COMPOSE_PROFILES"}


def test_the_image_runs_as_nobody_special_on_a_fixed_base() -> None:
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["python:3.11.14-slim-bookworm"] * 2
    assert re.search(r"^USER [1-9]\d+$", DOCKERFILE, re.MULTILINE)
    assert "constraints.txt" in DOCKERFILE


@pytest.mark.parametrize(
    "doc", [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))], ids=lambda path: path.stem
)
def test_services_that_documents_name_to_docker_compose_are_there(doc: Path) -> None:
    lines = re.findall(r"docker compose ((?:logs|up|kill|restart|stop) [^|;#`\n]*)", doc.read_text(encoding="utf-8"))
    words = {word for line in lines for word in re.sub(r"(--tail|-s) \S+", "", line).split()[1:]}
    assert {word for word in words if not word.startswith("-")} - set(SERVICES) == set()
