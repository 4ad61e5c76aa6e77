"""A row of the table of jobs: what the table's readers need of one job without importing it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from coldnotify_common.settings import Settings, describe


@dataclass(frozen=True, kw_only=True)
class Row:
    """One job."""

    name: str
    """Name of its folder, of `coldnotify job NAME`, and of its part in `coldnotify up`."""
    help: str
    """One sentence for `coldnotify job --help`."""
    settings: type[Settings]
    """The settings of `coldnotify job NAME`, `port_setting` among them."""
    port_setting: str
    """The name of the setting for its HTTP port, in `coldnotify job NAME` and `coldnotify up`."""
    module: str
    """This module has `run(settings) -> int`, which serves until SIGTERM and returns the exit code."""
    metrics: str
    """The module that defines its metrics as attributes."""
    topics: str = ""
    """Its own topics, in the format of `topics` in topics.yaml; "" if it has none."""

    @property
    def port(self) -> int:
        """The default of its HTTP port."""
        (default,) = (info.default for info in describe(self.settings) if info.name == self.port_setting)
        assert isinstance(default, int)
        return default

    @property
    def flag(self) -> str:
        """The command-line option of its port."""
        return "--" + self.port_setting.replace("_", "-")

    def run(self, settings: Settings) -> int:
        """Runs the job as a process; returns its exit code."""
        run: Callable[[Settings], int] = importlib.import_module(self.module).run
        return run(settings)
