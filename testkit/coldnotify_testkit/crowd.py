"""For tests: honest clients and their publisher. They note which versions are still due, and how late they arrive."""

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from coldnotify import Connection, Notification, Notify, State
from coldnotify.publisher import Publisher

from coldnotify_testkit.waiting import wait_for

_KEEPALIVE_S = 5
"""A client whose registrations are lost notices by then."""
_BACKOFF_S_MAX = 5.0


class Owed(NamedTuple):
    """A version that a client has to receive."""

    ou: "Ou"
    object: str
    version: int
    since_s: float


class Late(NamedTuple):
    """A version that did not arrive in time."""

    ou: "Ou"
    words: str


class Ou:
    """An honest client: what it is registered for, and what it received."""

    def __init__(self, domain: str, group: str, client: str, gateway: tuple[str, int], state: Path) -> None:
        self.group = group
        self.name = f"{group}/{client}"
        self.told: dict[str, int] = {}
        self.wanted: set[str] = set()
        self.backwards: list[str] = []
        """Versions that arrived and must not have, as words."""
        self.connected = False
        self.notify = Notify(
            domain=domain,
            group_id=group,
            client_id=client,
            state=State(filename=str(state)),
            connection=Connection(
                address=gateway[0],
                port=gateway[1],
                keepalive_s=_KEEPALIVE_S,
                request_timeout_s=_BACKOFF_S_MAX,
                backoff_max_s=_BACKOFF_S_MAX,
            ),
        )

    def connect(self) -> None:
        """Begin, or wake."""
        self.notify.connect()
        self.connected = True

    def disconnect(self) -> None:
        """Sleep."""
        self.connected = False
        self.notify.disconnect()

    def register(self, object_: str) -> None:
        """Want an object."""
        self.wanted.add(object_)
        self.notify.register(object_).subscribe(self._on_notification)

    def unregister(self, object_: str) -> None:
        """Want it no more."""
        self.wanted.discard(object_)
        self.notify.unregister(object_)
        self.told.pop(object_, None)

    def _on_notification(self, notification: Notification) -> None:
        version, before = notification.version or 0, self.told.get(notification.object_id, 0)
        if version < before:
            self.backwards.append(f"{self.name}: {notification.object_id} {version} after {before}")
        self.told[notification.object_id] = version


class Crowd:
    """Some clients in each group, with the same names and objects, and one who publishes."""

    def __init__(
        self,
        seed: int,
        domain: str,
        groups: Sequence[str],
        clients: Sequence[str],
        objects: Sequence[str],
        *,
        kafka: str,
        gateway: tuple[str, int],
        directory: Path,
        late_s: float,
    ) -> None:
        """`late_s`: a version that takes longer counts as not delivered."""
        self._random = random.Random(seed)
        self._domain = domain
        self._objects = objects
        self._late_s = late_s
        self._publisher = Publisher(kafka=kafka, timeout_s=late_s)
        self.ous = [
            Ou(domain, group, client, gateway, directory / f"{group}-{client}.json")
            for group in groups
            for client in clients
        ]
        self.newest: dict[tuple[str, str], int] = {}
        """Versions that were published, by group and object."""
        self._owed: list[Owed] = []
        self.published = self.told = self.wakes = self.registered = 0
        self.longest_s = 0.0
        """The longest that something was owed."""
        self.late: list[Late] = []
        """The versions that did not arrive in time."""

    def begin(self) -> None:
        """Connects all clients, registers each for half of the objects, and waits for their versions."""
        for ou in self.ous:
            ou.connect()
            for object_ in self._objects[::2]:
                ou.register(object_)
        self.publish_all()
        self.wait()

    def act(self) -> None:
        """One honest deed: somebody sleeps or wakes, wants something or no more; and a publish."""
        ou = self._random.choice(self.ous)
        match self._random.randrange(6):
            case 0 if ou.connected and sum(one.connected for one in self.ous) > len(self.ous) // 2:
                ou.disconnect()
                self._owed = [owed for owed in self._owed if owed.ou is not ou]
            case 0 | 1 if not ou.connected:
                self._wake(ou)
            case 2 | 3:
                object_ = self._random.choice(self._objects)
                if object_ in ou.wanted and len(ou.wanted) > 1:
                    ou.unregister(object_)
                    self._owed = [one for one in self._owed if (one.ou, one.object) != (ou, object_)]
                else:
                    ou.register(object_)
                    self.registered += 1
                    if ou.connected:
                        self._owe(ou, object_)
        self._publish(self._random.choice(self.ous).group, self._random.choice(self._objects))

    def wake_all(self) -> None:
        """Nobody sleeps any more."""
        for ou in self.ous:
            if not ou.connected:
                self._wake(ou)

    def publish_all(self) -> None:
        """A version of every object."""
        for group in dict.fromkeys(ou.group for ou in self.ous):
            for object_ in self._objects:
                self._publish(group, object_)

    def look(self) -> bool:
        """Strikes off the versions that have arrived or are too late. Returns true if nothing is due any more."""
        now_s = time.monotonic()
        left = []
        for owed in self._owed:
            waited_s = now_s - owed.since_s
            if owed.ou.told.get(owed.object, 0) >= owed.version:
                self.told += 1
                self.longest_s = max(self.longest_s, waited_s)
            elif waited_s > self._late_s:
                status = owed.ou.notify.status
                words = f"{owed.ou.name} lacks {owed.object} {owed.version} after {waited_s:.0f} s: {status}"
                self.late.append(Late(owed.ou, words))
            else:
                left.append(owed)
        self._owed = left
        return not left

    def wait(self) -> None:
        """Until nothing is owed, or it is too late."""
        wait_for(self.look, "all is told or late", self._late_s * 2)

    def wrong(self) -> list[str]:
        """Returns what arrived without having been published, or arrived after something newer, as words."""
        found = [line for ou in self.ous for line in ou.backwards]
        for ou in self.ous:
            found += [
                f"{ou.name} was told {object_} {version}, which nobody published"
                for object_, version in list(ou.told.items())
                if version > self.newest.get((ou.group, object_), 0)
            ]
        return found

    def end(self) -> None:
        """All disconnect."""
        for ou in self.ous:
            ou.disconnect()
        self._publisher.close()

    def _wake(self, ou: Ou) -> None:
        ou.connect()
        self.wakes += 1
        for object_ in ou.wanted:
            self._owe(ou, object_)

    def _publish(self, group: str, object_: str) -> None:
        version = self.newest.get((group, object_), 0) + 1
        self.newest[group, object_] = version  # before it is told
        self._publisher.publish(self._domain, group, object_, version=version)
        self.published += 1
        for ou in self.ous:
            if ou.group == group and ou.connected and object_ in ou.wanted:
                self._owe(ou, object_)

    def _owe(self, ou: Ou, object_: str) -> None:
        version = self.newest.get((ou.group, object_), 0)
        if version:
            self._owed.append(Owed(ou, object_, version, time.monotonic()))
