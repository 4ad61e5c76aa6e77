"""A row of the table of jobs: what the table's readers need of one job without importing it."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass

from coldnotify_common.settings import Settings, describe


@dataclass(frozen=True, kw_only=True)
class Row:
    """One job."""

    name: str
    """Of its folder, of `coldnotify job NAME`, and of its part in `coldnotify up`."""
    help: str
    """One sentence for `coldnotify job --help`."""
    settings: type[Settings]
    """What `coldnotify job NAME` can be told, `port_setting` among it."""
    port_setting: str
    """The setting that says its HTTP port, of `coldnotify job NAME` and of `coldnotify up`."""
    module: str
    """Has `run(settings) -> int`, which serves until SIGTERM and returns the exit code."""
    metrics: str
    """The module whose attributes are its metrics."""
    topics: str = ""
    """Its own topics, as topics.yaml words them under `topics`; "": none."""

    @property
    def port(self) -> int:
        """Its HTTP port if nobody says another."""
        (default,) = (info.default for info in describe(self.settings) if info.name == self.port_setting)
        assert isinstance(default, int)
        return default

    @property
    def flag(self) -> str:
        """The command line's name of its port."""
        return "--" + self.port_setting.replace("_", "-")

    def run(self, settings: Settings) -> int:
        """The job as a process: returns its exit code."""
        run: Callable[[Settings], int] = importlib.import_module(self.module).run
        return run(settings)
