"""A row of the table of parts: what its readers need of one part, as data."""

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class PartPanel:
    """A diagram in Grafana's overview."""

    title: str
    unit: str
    """As Grafana names it: short, ops (per second), s, bytes, Bps, percentunit."""
    queries: Mapping[str, str]
    """By legend, in PromQL."""


@dataclass(frozen=True, kw_only=True)
class PartRow:
    """One part: a service that `coldnotify NAME` runs."""

    name: str
    """Names its folder, its command, its role in Kafka's ACLs, its job in Prometheus, its values in Helm."""
    title: str
    """Its name in a sentence."""
    summary: str
    """Its line in the list of commands."""
    help: str
    """What `coldnotify NAME --help` says of it."""
    app: str
    """Module with `run(settings) -> int`, which serves until SIGTERM and returns the exit code."""
    settings: tuple[str, ...]
    """`module:Class` of its settings; a further name stands for a tuple of classes, which `run` gets as `others`."""
    port_setting: str
    """The setting that says its HTTP port, at which /healthz, /readyz and /metrics are."""
    port: int
    """The default of that setting."""
    metrics: tuple[str, ...]
    """`module` whose attributes are metrics, or `module:function` that returns a collector, or an object with them."""
    tenants: bool = False
    """It exports the metrics of tenants, too."""

    topics: str = ""
    """Its own topics, as topics.yaml words them under `topics`; "": those that it uses stand there."""
    rights: str = ""
    """What its role may do in Kafka, as acls.yaml words a role; "": it stands there."""
    alerts: str = ""
    """Its rules for Prometheus, as alerts.yml words a group's `rules`; "": those of it stand there."""
    panels: tuple[PartPanel, ...] = ()
    """Beside those that ship (coldnotify_tools.dashboards)."""

    doctor: str = ""
    """The setting of `coldnotify doctor` that says where it is; "": `--parts` does."""
    containers: int = 1
    """How many docker-compose.yml runs: NAME, or NAME-1, NAME-2 ..."""
    deployed_by_hand: bool = False
    """Its container, its values in Helm and its unit are written by hand; else `make docs` writes them."""

    ready_key: str = ""
    """Names its first address in the ready file of `coldnotify up`; "": the file does not have it."""
    ready_list: str = ""
    """Names the list of its addresses there."""
    several: str = ""
    """The setting of `coldnotify up` that says how many it runs; "": one."""
    flags: tuple[str, ...] = ()
    """What `up` tells it beside Kafka and its port. It fills in {number}, {scheme}, {ca}, {data}, and the addresses of
    parts and of listeners by their names; a flag for which it has nothing is left out."""
    listeners: bool = False
    """`up` tells it the listeners' ports."""
    certificate: bool = False
    """Its port is for others than us: with TLS, `up` gives it a certificate of its own."""
    stage: int = 2
    """`up` starts stage by stage, and stops in the reverse order; Kafka is in front of 1."""
    awaited: bool = True
    """The next stage waits until it is ready."""
    needed: bool = False
    """If it keeps dying, `up` stops, and an alert wakes somebody; else all others serve without it."""
    needs: str = ""
    """The module that it cannot run without; "": the distribution has all."""
    extra: str = ""
    """The extra that installs this."""

    @property
    def is_installed(self) -> bool:
        """Whether what it needs is there; it is not imported."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    @property
    def flag(self) -> str:
        """The command line's name of its port."""
        return "--" + self.port_setting.replace("_", "-")

    @property
    def host_variable(self) -> str:
        """The environment's name of the address at which that port listens."""
        return f"COLDNOTIFY_{self.port_setting.removesuffix('_port').upper()}_HOST"

    @property
    def hosts(self) -> tuple[str, ...]:
        """The names of its containers in docker-compose.yml."""
        if self.containers == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(1, self.containers + 1))
