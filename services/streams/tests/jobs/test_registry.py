"""The table of jobs: each folder with a row is in it, and a row that is wrong is said.

Stands for: row
"""

from pathlib import Path

import pytest
from coldnotify_streams import jobs
from coldnotify_streams.jobs.registry import JOBS, rows_of

ROW = """
from dataclasses import dataclass
from coldnotify_common.settings import ServiceSettings, setting
from coldnotify_streams.jobs.row import Row

@dataclass(frozen=True, kw_only=True)
class PlantedSettings(ServiceSettings):
    planted_port: int = setting(51999, "port")

ROW = Row(name=NAME, help="Planted.", settings=PlantedSettings, port_setting="planted_port",
          module="coldnotify_streams.jobs.planted.app", metrics="coldnotify_streams.jobs.planted.metrics")
"""


def plant(folder: Path, name: str, said: str) -> None:
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("")
    (folder / name / "row.py").write_text(ROW.replace("NAME", repr(said)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "__path__", [*jobs.__path__, str(tmp_path)])
    return tmp_path


def test_no_job_ships_with_a_row():
    assert JOBS == ()


def test_a_folder_with_a_row_is_found_and_run(folder):
    plant(folder, "planted", "planted")
    (folder / "planted" / "app.py").write_text("def run(settings):\n    return settings.planted_port\n")
    (folder / "notes").mkdir()
    (row,) = rows_of(folder, "coldnotify_streams.jobs")
    assert (row.name, row.port, row.flag) == ("planted", 51999, "--planted-port")
    assert row.run(row.settings()) == 51999


def test_a_row_of_another_name_is_refused(folder):
    plant(folder, "misnamed", "other")
    with pytest.raises(TypeError, match=r"jobs/misnamed/row\.py: ROW must be a Row whose name is 'misnamed'"):
        rows_of(folder, "coldnotify_streams.jobs")
