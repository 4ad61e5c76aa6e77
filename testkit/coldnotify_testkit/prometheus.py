"""For tests: a real Prometheus with our alerts, hurried so that a test need not wait for minutes."""

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import urlopen

import yaml
from coldnotify_kafka.broker.free_ports import free_port
from coldnotify_kafka.broker.process import end, spawn

from coldnotify_testkit.waiting import wait_for

WINDOW = "20s"
"""Replaces the windows of alerts, and $__rate_interval of dashboards."""
_FOR = "4s"
_SCRAPE = "2s"
_STOP_S = 30
RULES = Path(__file__).parents[2] / "monitoring" / "prometheus" / "alerts.yml"


def available() -> bool:
    """Returns true if this machine has Prometheus."""
    return shutil.which("prometheus") is not None


def hurried(rules: str) -> str:
    """The alerts with their `for` and windows cut short; what they compare is the same."""
    return re.sub(r"\[\w+\]", f"[{WINDOW}]", re.sub(r"(?m)^( *for:) .*$", rf"\1 {_FOR}", rules))


class Prometheus:
    """A running one; `url` is its address."""

    def __init__(self, url: str, directory: Path, targets: Mapping[str, list[str]]) -> None:
        self.url = url
        self._directory = directory
        self._targets = {job: list(addresses) for job, addresses in targets.items()}
        self._write_targets()

    @contextmanager
    def watching(self, job: str, address: str) -> Iterator[None]:
        """Scrapes this one, too, for a while."""
        self._targets[job].append(address)
        self._write_targets()
        try:
            yield
        finally:
            self._targets[job].remove(address)
            self._write_targets()

    def _write_targets(self) -> None:
        for job, addresses in self._targets.items():
            path = self._directory / f"targets.{job}.json"
            temporary = path.with_suffix(".new")
            temporary.write_text(json.dumps([{"targets": addresses}]), encoding="utf-8")
            temporary.replace(path)  # it may be read at any time

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The samples of an instant query: [{"metric": labels, "value": [time, text]}]. Raises HTTPError."""
        with urlopen(f"{self.url}/api/v1/query?query={quote(expression)}", timeout=30) as answer:
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return result

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        return {sample["metric"]["alertname"] for sample in self.query('ALERTS{alertstate="firing"}')}


@contextmanager
def prometheus(directory: Path, targets: Mapping[str, list[str]]) -> Iterator[Prometheus]:
    """Scrapes `targets` (by job: host:port) every two seconds, and judges by our alerts, hurried."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "alerts.yml").write_text(hurried(RULES.read_text(encoding="utf-8")), encoding="utf-8")
    config = {
        # A process that stands still must be noticed as soon as one that is gone.
        "global": {"scrape_interval": _SCRAPE, "scrape_timeout": _SCRAPE, "evaluation_interval": _SCRAPE},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": job, "file_sd_configs": [{"files": [str(directory / f"targets.{job}.json")]}]}
            for job in targets
        ],
    }
    (directory / "prometheus.yml").write_text(yaml.safe_dump(config), encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    watcher = Prometheus(f"http://{address}", directory, targets)
    process = spawn(
        [
            shutil.which("prometheus") or "prometheus",
            f"--config.file={directory / 'prometheus.yml'}",
            f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address={address}",
        ],
        directory / "prometheus.log",
    )

    def ready() -> bool:
        assert process.poll() is None, (directory / "prometheus.log").read_text()[-3000:]
        try:
            with urlopen(f"http://{address}/-/ready", timeout=5):
                return True
        except HTTPError as error:
            with error:  # it holds the connection
                return False
        except (URLError, TimeoutError):
            return False

    try:
        wait_for(ready, "Prometheus is ready")
        yield watcher
    finally:
        end(process, _STOP_S)
