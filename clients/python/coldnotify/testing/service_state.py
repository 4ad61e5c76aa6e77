"""The state of the service for tests for all clients, and its misbehaviour: its sessions read and change it."""

import time
from collections.abc import Callable

from coldnotify.testing.channels import ServiceChannels
from coldnotify.testing.service_partition import Newest, ServicePartition
from coldnotify.testing.service_shares import ClientShares, ServiceShares

Name = tuple[str, str, str]
"""A client's: domain, group, client."""


class ServiceState:
    """The state of one service."""

    def __init__(self, page_objects: int, registrations_max: int) -> None:
        self.page_objects = page_objects
        """Notifications, or messages, in a page."""
        self.registrations_max = registrations_max
        self.epoch = 1
        self.loses_answers = 0
        """So many answers to registrations get lost on their way."""
        self.away = False
        """True if the matcher is away: clients that send Hello get Wait."""
        self.knows_queries = True
        """False: it is an older one."""
        self.knows_descriptions = True
        """False: it is an older one, which sends no descriptions."""
        self.answers_unsettled = True
        """False: it is an older one, which ignores clients' reports of their callbacks."""
        self.knows_channels = True
        self.knows_shares = True
        """False: it is an older one."""
        self.channels_epoch = 1
        self.refused_channels: dict[str, str] = {}
        """By name: the reason of the refusal."""
        self.repeats_messages = False
        """True if each message is sent twice."""
        self.refused_queries: dict[str, str] = {}
        """By text: the reason of the refusal."""
        self.refused_publishes: dict[str, tuple[str, int]] = {}
        """By name: the reason why publishes are refused, and after how many ms they may come again, 0: never."""
        self.now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000
        """Its clock: what clients number by theirs is held against it."""
        self.registered: dict[Name, set[str]] = {}
        self.queries: dict[Name, set[str]] = {}
        """The texts of the queries that each client is registered for."""
        self.channels: dict[Name, ServiceChannels] = {}
        """The channels that each client is registered for."""
        self.shares: dict[Name, ClientShares] = {}
        """The shares that each client is a member of."""
        self.acknowledged_channels: dict[Name, int] = {}
        """The highest cursor of channels each client has acknowledged."""
        self.acknowledged: dict[Name, int] = {}
        """The highest cursor each client has acknowledged."""
        self._partitions: dict[tuple[str, str], ServicePartition] = {}
        self._shares: dict[tuple[str, str], ServiceShares] = {}

    def newest(self, domain: str, group: str, object_: str) -> Newest | None:
        """The newest version; None: nothing was ever published."""
        return self.partition(domain, group).objects.get(object_)

    def knows(self, name: Name) -> bool:
        """Returns true if the client has registered for something."""
        return any(name in one for one in (self.registered, self.queries, self.channels, self.shares))

    def partition(self, domain: str, group: str) -> ServicePartition:
        """All of a domain and group."""
        return self._partitions.setdefault((domain, group), ServicePartition())

    def shares_of(self, domain: str, group: str) -> ServiceShares:
        """The shares of a domain and group."""
        found = self._shares.get((domain, group))
        if found is None:
            found = ServiceShares(lambda: self.partition(domain, group).log, lambda: self.now_ms())
            self._shares[domain, group] = found
        return found
