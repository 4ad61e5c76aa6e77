"""A row of the table of parts: the data that the table's readers need of one part."""

import importlib.util
from dataclasses import dataclass
from pathlib import Path

from coldnotify_parts.panels import PartPanel


def beside(row: str, name: str) -> str:
    """Returns the text of the file `name` in the folder of the row whose file this is."""
    # importlib.resources would take a tenth of a second to be imported, by every command.
    return Path(row).with_name(name).read_text(encoding="utf-8")


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
    """Its description in `coldnotify NAME --help`."""
    app: str
    """Module with `run(settings) -> int`, which serves until SIGTERM and returns the exit code."""
    settings: tuple[str, ...]
    """`module:Class` of its settings; a further name stands for a tuple of classes, which `run` gets as `others`."""
    port_setting: str
    """The setting of its HTTP port, which serves /healthz, /readyz and /metrics."""
    port: int
    """Default of that setting."""
    metrics: tuple[str, ...]
    """`module` whose attributes are metrics, or `module:function` that returns a collector, or an object with them."""
    node: bool = False
    """True if it writes its record to the nodes topic."""
    tenants: bool = False
    """True if it exports the metrics of tenants, too."""

    topics: str = ""
    """Its own topics, in the format of `topics` in topics.yaml; those that several parts share are there alone."""
    rights: str = ""
    """Rights of its role in Kafka, in the format of a role in acls.yaml."""
    alerts: str = ""
    """Its rules for Prometheus, in the format of a group's `rules` in alerts.yml; rules about several parts are there
    alone."""
    panels: tuple[PartPanel, ...] = ()
    """Its panels in Grafana's overview."""
    dashboard: tuple[PartPanel, ...] = ()
    """The panels of a dashboard of its own."""

    doctor: str = ""
    """The setting of `coldnotify doctor` with its address; "": `--parts` contains it."""
    containers: int = 1
    """Number of its containers in docker-compose.yml: NAME, or NAME-1, NAME-2 ..."""
    deployed_by_hand: bool = False
    """True if its container, its values in Helm and its unit are written by hand; otherwise `make docs` writes them."""

    ready_key: str = ""
    """Name of its first address in the ready file of `coldnotify up`; "": the file does not contain it."""
    ready_list: str = ""
    """Name of the list of its addresses in that file."""
    several: str = ""
    """The setting of `coldnotify up` with the number of its processes; "": one."""
    flags: tuple[str, ...] = ()
    """Flags that `up` passes to it in addition to Kafka and its port. `up` replaces {number}, {ca}, {data},
    {payload_bytes_max}, and the names of parts and listeners by their addresses. It omits a flag without a value."""
    listeners: bool = False
    """True if `up` passes it the listeners' ports."""
    certificate: bool = False
    """True if clients outside ColdNotify use its port: with TLS, `up` gives it a certificate of its own."""
    stage: int = 2
    """Stage in which `up` starts it. `up` stops the stages in reverse order. Kafka starts before stage 1."""
    switch: str = ""
    """The setting of `coldnotify up` without which it does not run it; "": it always does."""
    awaited: bool = True
    """True if the next stage waits until it is ready."""
    needed: bool = False
    """True if `up` stops when it keeps dying, and an alert wakes an operator; otherwise all others serve without it."""
    needs: str = ""
    """The module that it cannot run without; "": the distribution contains all its modules."""
    extra: str = ""
    """The extra that installs this module."""

    @property
    def is_installed(self) -> bool:
        """Returns true if the module that it needs is installed. Does not import it."""
        return not self.needs or importlib.util.find_spec(self.needs) is not None

    @property
    def flag(self) -> str:
        """Returns the name of its port's setting on the command line."""
        return "--" + self.port_setting.replace("_", "-")

    @property
    def host_variable(self) -> str:
        """Returns the environment variable of the address at which that port listens."""
        return f"COLDNOTIFY_{self.port_setting.removesuffix('_port').upper()}_HOST"

    @property
    def hosts(self) -> tuple[str, ...]:
        """Returns the names of its containers in docker-compose.yml."""
        if self.containers == 1:
            return (self.name,)
        return tuple(f"{self.name}-{number}" for number in range(1, self.containers + 1))
