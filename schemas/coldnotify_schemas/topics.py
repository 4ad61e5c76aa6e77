"""The names in Kafka of one installation: its topics, consumer groups and client ids, which all begin with its prefix.

Several installations share a cluster, each under its own prefix. `TopicNames` is handed down from the setting
`topics_prefix`; nothing else makes such a name.
"""

import re
from dataclasses import dataclass, field, fields

DEFAULT_PREFIX = "coldnotify."
PREFIX_CHARS_MAX = 200
"""Kafka allows topic names of 249 characters. The rest is for what follows the prefix, topics of jobs among it."""
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9._-]")
"""Characters that Kafka refuses in the name of a topic."""
_SEPARATORS = (".", "-", "_")
_NAME = "name"


@dataclass(frozen=True)
class TopicNames:
    """The names of one installation. Raises ValueError for a prefix that Kafka or we refuse."""

    prefix: str = DEFAULT_PREFIX
    objects: str = field(init=False, repr=False)
    requests: str = field(init=False, repr=False)
    registrations: str = field(init=False, repr=False)
    sessions: str = field(init=False, repr=False)
    notifications: str = field(init=False, repr=False)
    rejected: str = field(init=False, repr=False)
    channels_1h: str = field(init=False, repr=False, metadata={_NAME: "channels.1h"})
    channels_1d: str = field(init=False, repr=False, metadata={_NAME: "channels.1d"})
    channels_30d: str = field(init=False, repr=False, metadata={_NAME: "channels.30d"})
    channels_state: str = field(init=False, repr=False)
    shares: str = field(init=False, repr=False)
    tenants: str = field(init=False, repr=False)
    usage: str = field(init=False, repr=False)
    verdicts: str = field(init=False, repr=False)
    usage_history: str = field(init=False, repr=False)
    usage_state: str = field(init=False, repr=False)
    nodes: str = field(init=False, repr=False)
    hooks: str = field(init=False, repr=False)
    hooks_state: str = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_prefix(self.prefix)
        for one in fields(self)[1:]:
            object.__setattr__(self, one.name, self.prefix + one.metadata.get(_NAME, one.name))

    @property
    def channels(self) -> tuple[str, str, str]:
        """The logs of channels, shortest retention first."""
        return self.channels_1h, self.channels_1d, self.channels_30d

    @property
    def co_partitioned(self) -> tuple[str, ...]:
        """Everything that concerns a domain/group is in the same partition of each of these."""
        clients = (self.objects, self.requests, self.registrations, self.sessions)
        return (*clients, *self.channels, self.channels_state, self.shares)

    @property
    def of_tenants(self) -> tuple[str, ...]:
        """The topics of tenants. Devices are served without them, too: nobody is limited then."""
        return self.tenants, self.usage, self.verdicts, self.usage_history, self.usage_state

    @property
    def of_hooks(self) -> tuple[str, str]:
        """The topics of webhooks, which have the same number of partitions."""
        return self.hooks, self.hooks_state

    @property
    def all(self) -> tuple[str, ...]:
        """Every topic but those of jobs."""
        return (*self.co_partitioned, self.notifications, self.rejected, *self.of_tenants, self.nodes, *self.of_hooks)

    def group(self, name: str) -> str:
        """The consumer group of this name; client ids and principals are called in the same way.

        `coldnotify-matcher` under the default prefix, as in release 0.1.0, and `acme.matcher` under `acme.`: rules on
        names, and ACLs with a prefix, hold for it as for the topics.
        """
        return f"coldnotify-{name}" if self.prefix == DEFAULT_PREFIX else self.prefix + name

    def renamed(self, name: str) -> str:
        """A name of the default installation, `coldnotify.objects` or `coldnotify-matcher`, as it is called here.

        Raises ValueError for any other name.
        """
        if name.startswith(DEFAULT_PREFIX):
            return self.prefix + name.removeprefix(DEFAULT_PREFIX)
        if name.startswith("coldnotify-"):
            return self.group(name.removeprefix("coldnotify-"))
        raise ValueError(f"{name} begins neither with {DEFAULT_PREFIX} nor with coldnotify-")


def check_prefix(prefix: str) -> None:
    """Raises ValueError with the fault of a prefix."""
    if not prefix:
        raise ValueError(f"is empty; the default is {DEFAULT_PREFIX}")
    if found := _FORBIDDEN.search(prefix):
        raise ValueError(f"{prefix!r} contains {found.group()!r}; Kafka allows letters, digits, '.', '_' and '-'")
    if len(prefix) > PREFIX_CHARS_MAX:
        raise ValueError(f"has {len(prefix)} characters, the most allowed are {PREFIX_CHARS_MAX}")
    if not prefix.endswith(_SEPARATORS):
        raise ValueError(f"{prefix!r} must end with '.', '_' or '-', such as {prefix + '.'!r}")
    if prefix == "coldnotify-":
        raise ValueError(f"{prefix!r} would give consumer groups the names that they have under {DEFAULT_PREFIX}")
