"""deploy/: systemd's units, and the values and templates of the Helm chart."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from coldnotify_cli.every_setting import all_settings
from coldnotify_cli.main import COMMANDS
from coldnotify_common.imported import settings_classes
from coldnotify_common.settings import describe, load
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_parts.registry import PARTS

ROOT = Path(__file__).parents[2]
UNITS = sorted((ROOT / "deploy" / "systemd").glob("*.service"))
CHART = ROOT / "deploy" / "helm" / "coldnotify"
VALUES: dict[str, Any] = read_yaml((CHART / "values.yaml").read_text(encoding="utf-8"))
SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text(encoding="utf-8"))
TEMPLATES = {path.name: path.read_text(encoding="utf-8") for path in sorted((CHART / "templates").iterdir())}
_SANDBOX = (
    "CapabilityBoundingSet=",
    "NoNewPrivileges=yes",
    "ProtectSystem=strict",
    "ProtectHome=yes",
    "PrivateTmp=yes",
    "PrivateDevices=yes",
    "RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX",
    "MemoryDenyWriteExecute=yes",
    "SystemCallFilter=@system-service",
    "User=coldnotify",
)
_EXPOSURE_MAX = 15
"""Of 100, as `systemd-analyze security` counts it; a unit without any of this has 96."""


def variables() -> set[str]:
    return {info.variable for settings in all_settings() for info in describe(settings)}


def test_every_service_has_a_unit_and_the_topics_are_made() -> None:
    assert {unit.stem for unit in UNITS} == {f"coldnotify-{name}" for name in (*(row.name for row in PARTS), "topics")}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_runs_a_command_of_ours_in_a_sandbox(unit: Path) -> None:
    lines = unit.read_text(encoding="utf-8").splitlines()
    (command,) = [line.partition("bin/coldnotify ")[2].split()[0] for line in lines if line.startswith("ExecStart=")]
    assert command in COMMANDS
    assert unit.stem == f"coldnotify-{command}"
    assert [line for line in _SANDBOX if line not in lines] == []
    assert "EnvironmentFile=-/etc/coldnotify/coldnotify.env" in lines
    if command != "topics":
        assert "Restart=always" in lines
        assert "TimeoutStopSec=30" in lines
    set_here = [line for line in lines if line.startswith("Environment=")]
    assert set(re.findall(r"COLDNOTIFY_\w+", " ".join(set_here))) <= variables()


def test_systemd_takes_the_units_and_finds_them_little_exposed(tmp_path: Path) -> None:
    systemd = shutil.which("systemd-analyze")
    if systemd is None:
        pytest.skip("there is no systemd-analyze")
    for unit in UNITS:
        # It looks whether the program is there.
        text = unit.read_text(encoding="utf-8").replace("/opt/coldnotify/bin/coldnotify", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    units = [str(tmp_path / unit.name) for unit in UNITS]
    done = subprocess.run([systemd, "verify", *units], capture_output=True, text=True, timeout=60)
    about_ours = [line for line in done.stderr.splitlines() if str(tmp_path) in line or "coldnotify" in line]
    assert (done.returncode, about_ours) == (0, [])
    for path in units:
        argv = [systemd, "security", "--offline=yes", f"--threshold={_EXPOSURE_MAX}", path]
        exposed = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        assert exposed.returncode == 0, exposed.stdout


def test_values_are_as_their_schema_says() -> None:
    jsonschema_rs.validator_for(SCHEMA).validate(VALUES)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kafka": {"bootstrap": "kafka"}},
        {"kafka": {"bootstrap": []}},
        {"kafka": {"bootstrap": ["kafka:9092,kafka:9093"]}},
        {"monitoring": {"docs": "docs.example"}},
        {"gateway": {"replicas": 1, "ingress": {"host": "https://gateway.example"}}},
        {"settings": {"COLDNOTIFY_KAFKA": 9092}},
        {"settings": {"KAFKA": "kafka:9092"}},
        {"matchers": {"replicas": 2}},
        {"gateway": {"replicas": -1}},
    ],
)
def test_values_that_are_wrong_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(jsonschema_rs.ValidationError):
        jsonschema_rs.validator_for(SCHEMA).validate({**VALUES, **wrong})


def test_every_value_that_templates_use_is_there() -> None:
    used = {path for text in TEMPLATES.values() for path in re.findall(r"\.Values\.([\w.]+)", text)}
    assert used
    for path in used:
        found: Any = VALUES
        for name in path.split("."):
            assert name in found, path
            found = found[name]


def test_settings_of_the_chart_are_ours_and_can_be_read() -> None:
    named = {name for text in TEMPLATES.values() for name in re.findall(r"COLDNOTIFY_\w+", text)}
    # In a comment: what Kubernetes would set.
    assert named - {"COLDNOTIFY_HTTP_PORT"} <= variables()
    for row in PARTS:
        values = VALUES[row.name] if row.deployed_by_hand else VALUES["parts"][row.name]
        load(settings_classes(row.settings)[0], VALUES["settings"] | values["settings"])


def test_pods_get_no_settings_from_the_names_of_services() -> None:
    text = "".join(TEMPLATES.values())
    assert text.count("enableServiceLinks: false") == text.count("automountServiceAccountToken: false") == 2


def test_ports_are_those_of_the_settings() -> None:
    for row in PARTS:
        if row.deployed_by_hand:
            assert f'"command" (list "{row.name}") "port" {row.port} "values" ' in TEMPLATES[f"{row.name}.yaml"]
        else:
            assert VALUES["parts"][row.name]["port"] == row.port
    for port in (55000, 55003):
        assert f"port: {port}, targetPort: {port}" in TEMPLATES["gateway.yaml"]


def test_the_user_is_the_images() -> None:
    (user,) = re.findall(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    text = "".join(TEMPLATES.values())
    assert set(re.findall(r"runAs(?:User|Group): (\d+)", text)) == {user}
