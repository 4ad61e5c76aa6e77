"""What a job's folder brings to the command: its topics, its port in `up` and in `doctor`.

Stands for: up_settings
"""

import json
import subprocess
import sys

import pytest
from coldnotify_cli.job_parts import addresses, topics
from coldnotify_cli.up_settings import EveryUpSetting
from coldnotify_common.errors import SettingError
from coldnotify_common.settings import load

ROW = """
from dataclasses import dataclass
from coldnotify_common.settings import ServiceSettings, setting
from coldnotify_streams.jobs.row import Row

@dataclass(frozen=True, kw_only=True)
class PlantedSettings(ServiceSettings):
    planted_port: int = setting(51999, "port")

ROW = Row(name="planted", help="Planted.", settings=PlantedSettings, port_setting="planted_port",
          module="coldnotify_streams.jobs.planted.app", metrics="coldnotify_streams.jobs.planted.metrics",
          topics="coldnotify.planted: {co_partitioned: true, settings: {cleanup.policy: compact}}")
"""
LOOK = """
import json, sys
from pathlib import Path
from coldnotify_streams import jobs
jobs.__path__.append(sys.argv[1])
from coldnotify_streams.jobs import registry
registry.JOBS = registry.rows_of(Path(sys.argv[1]), "coldnotify_streams.jobs")
from click.testing import CliRunner
from coldnotify_cli import job_parts, settings_doc, stack
from coldnotify_cli.main import cli
from coldnotify_cli.up_settings import EveryUpSetting
from coldnotify_common.settings import load

up = stack.Stack(load(EveryUpSetting, {}, data=sys.argv[1] + "/data", kafka_port=0, gateway_port=0, http_port=0,
                      matcher_port=0, planted_port=0))
print(json.dumps({
    "topics": {spec.name: spec.partitions for spec in job_parts.topics(3, 1)},
    "parts": [part.name for stage in up.stages for part in stage],
    "ready": list(up.ready_report({})["jobs"]),
    "doc": "## coldnotify job planted" in settings_doc.generate(),
    "help": "--planted-port" in CliRunner().invoke(cli, ["job", "planted", "--help"]).output,
    "addresses": job_parts.addresses("planted=far:1"),
    "default": job_parts.addresses(""),
}))
"""


def test_without_jobs_there_is_what_ships():
    assert "coldnotify.objects" in {spec.name for spec in topics(None, 1)}
    assert addresses("") == {}
    assert load(EveryUpSetting, {}).matchers == 1


@pytest.mark.parametrize("text", ["nobody=here:1", "nobody"])
def test_the_address_of_a_job_that_is_not_there_is_refused(text):
    with pytest.raises(SettingError, match="--jobs"):
        addresses(text)


def test_a_folder_is_in_topics_settings_and_up(tmp_path):
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / "__init__.py").write_text("")
    (tmp_path / "planted" / "row.py").write_text(ROW)
    done = subprocess.run(
        [sys.executable, "-c", LOOK, str(tmp_path)], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["topics"]["coldnotify.planted"] == found["topics"]["coldnotify.objects"] == 3
    assert "planted" in found["parts"]
    assert found["ready"] == ["planted"]
    assert found["doc"]
    assert found["help"]
    assert found["addresses"] == {"planted": "far:1"}
    assert found["default"] == {"planted": "127.0.0.1:51999"}
