"""The promises, held against what applications saw and what the log holds. Nothing here asks a matcher or a gateway."""

from collections.abc import Callable, Iterable

from coldnotify._core.delivery.slot import CallbackJob
from coldnotify._core.document.document import Document
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.kafka import PARTITIONS, Kafka, merged_registrations, state_order
from coldnotify_simulation.truth import UNKNOWN, TrueObjects, Version, merged

TOPICS = TopicNames()

OFFLINE_RECORDS_MAX = 8
"""Limit on records of registrations and sessions for one client from its leaving to its return: its end is stored, and
each takeover may store it again.
"""


class Broken(AssertionError):
    """A promise was broken; the message begins with its number."""


def payload_of(version: int, *, in_bytes: bool) -> dict[str, object] | bytes:
    """Returns the payload of this version, whoever publishes it, and however often. `in_bytes`: that of every second
    one is not JSON."""
    return b"\xff%d" % version if in_bytes and version % 2 else {"v": version}


class SimulatedPromises:
    """Looks at each thing that happens; `at_rest` once all has come to rest."""

    def __init__(self, clock: Clock, kafka: Kafka, truth: TrueObjects, *, in_bytes: bool = False) -> None:
        self._in_bytes = in_bytes
        self._clock = clock
        self._kafka = kafka
        self._truth = truth
        self.epoch = 0
        """The epoch in which cursors are compared with the log; nothing is known of cursors of another one."""
        self._told: dict[tuple[str, str], Version] = {}
        """The highest version that the application was told, by (client, object)."""
        self._last: dict[tuple[str, str], Version] = {}
        """The last one, unless the topic was lost since."""
        self._returned: dict[tuple[str, str], Version] = {}
        """The same, of callbacks that did not fail."""
        self._told_to: dict[tuple[str, str], set[int]] = {}
        """The subscribers that were told the last one."""
        self._told_at: dict[tuple[str, str], int] = {}
        """The offset from which the client lacked versions, when it was told that."""
        self._floorless: set[tuple[str, str]] = set()
        """The client may have lost what it was told: its state was lost, or it did not want the object for a while."""
        self._may_repeat: set[tuple[str, str]] = set()
        self._doubted: dict[tuple[str, str], bool] = {}
        """(client, object): the service may have lost this registration. True: it has written it down since."""
        self._caused: dict[tuple[str, str], Version] = {}
        """The highest version that the client published itself since it registered: it is not owed that."""
        self._caused_before: dict[tuple[str, str], Version] = {}
        """The versions caused before that. It may not have saved that it registers again."""
        self._offline_records: dict[str, int] = {}
        self._asked_until: dict[str, int] = {}
        """By offline client: where the requests ended when it left."""
        self._answered: dict[tuple[str, bytes], int] = {}
        """By offline client and a key of its state: the newest of its own requests that a record includes."""
        self.takeovers = 0

    def allow_repeat(self, client: str, *names: str) -> None:
        """The client registers again, was killed, or its callback failed: what it knows may be told again."""
        self._may_repeat |= {(client, name) for name in names}

    def wiped(self, client: str) -> None:
        """Forgets what its application was told and what it published: it is owed all that."""
        for known in (self._told, self._returned, self._caused, self._caused_before):
            for place in [place for place in known if place[0] == client]:
                del known[place]
        self._floorless |= {place for place in self._last if place[0] == client}

    def caused(self, client: str, name: str, version: Version) -> None:
        """It published this version itself (`source`)."""
        self._caused[client, name] = max(version, self._caused.get((client, name), UNKNOWN))

    def registers(self, client: str, names: Iterable[str]) -> None:
        """It registers again: the answers carry the newest versions, whoever published them."""
        for name in names:
            self._floorless.add((client, name))
            version = self._caused.pop((client, name), UNKNOWN)
            before = self._caused_before.get((client, name), UNKNOWN)
            self._caused_before[client, name] = max(version, before)

    def power_lost(self, client: str) -> None:
        """It continues with what it saved."""
        self._floorless |= {place for place in self._last if place[0] == client}
        for place in [place for place in self._caused_before if place[0] == client]:
            self.caused(*place, self._caused_before.pop(place))

    def _knows(self, place: tuple[str, str]) -> Version:
        """Returns the newest version that it was told or has published."""
        return max(self._told.get(place, UNKNOWN), self._caused.get(place, UNKNOWN))

    def caused_of(self, client: str, name: str) -> Version:
        """The newest version of the object that it may have published itself."""
        place = client, name
        return max(self._caused.get(place, UNKNOWN), self._caused_before.get(place, UNKNOWN))

    def doubt(self, client: str, wanted: set[str]) -> None:
        """Its registrations were lost. Until they are restored its cursor means nothing, and neither side knows."""
        self._doubted |= {(client, name): False for name in wanted}

    def on_registered(self, client: str, names: Iterable[str]) -> None:
        """A record of its registrations was written: its newest versions are on their way to it."""
        for name in names:
            if (client, name) in self._doubted:
                self._doubted[client, name] = True

    def on_told(
        self, client: SimulatedClient, job: CallbackJob, *, failed: bool, came_back: Callable[[int], bool]
    ) -> None:
        """Judges P3 and P4. `came_back`: returns true if the object may have left one of the client's queries since
        this offset, and entered it again: the same version may be told again then, even before the client has heard
        that it had left.
        """
        name = job.notification.object_id
        if job.update.version is None:
            return
        version = job.update.incarnation, job.update.version
        thing = self._truth.thing(client.key_of(name))
        if version not in thing.published:
            raise Broken(f"P4: {client.name} was told {version} of {name}, which nobody published")
        payload = payload_of(version[1], in_bytes=self._in_bytes)
        if job.notification.payload is not None and job.notification.payload != payload:
            raise Broken(f"P4: {client.name} was told {name} {version} with {job.notification.payload}")
        place = client.key, name
        before = self._last.get(place, UNKNOWN)
        # A query that the object enters has it told anew, with the floor of before forgotten.
        floorless = place in self._floorless or name not in client.wanted or bool(client.queries)
        if thing.removals:
            # Of what it was told once the service knows nothing, and the client what its callbacks have returned from.
            before = UNKNOWN if floorless else min(before, self._returned.get(place, UNKNOWN))
        if version < before:
            raise Broken(f"P3: {client.name} was told {version} of {name} after {before}")
        if version != before:
            self._told_to[place] = set()
        # Another one may be told: of a query that the object has left and entered, before it heard of that.
        twice = self._told_to.setdefault(place, set()) & set(job.subscribers)
        if twice and place not in self._may_repeat and not came_back(self._told_at[place]):
            raise Broken(f"P4: {client.name} was told {version} of {name} twice")
        self._told_to[place].update(job.subscribers)
        assert client.driver is not None
        self._told_at[place] = (client.driver.status(self._clock.now_s).cursor or 0) + 1
        if version in thing.published_since_loss:
            if not failed:
                self._floorless.discard(place)
            self._last[place] = version  # what was under way when the topic was lost may be of a higher incarnation
        self._told[place] = max(version, self._told.get(place, UNKNOWN))
        if failed:
            self._may_repeat.add(place)
        else:
            self._may_repeat.discard(place)
            self._returned[place] = max(version, self._returned.get(place, UNKNOWN))

    def on_saved(self, client: SimulatedClient, document: Document) -> None:
        """Judges the central invariant: the durable cursor is true."""
        for place in [place for place in self._doubted if place[0] == client.key and place[1] not in document.wanted]:
            del self._doubted[place]
        if document.cursor is None or document.epoch != self.epoch:
            return
        for name in document.wanted - set(document.pending):
            place = client.key, name
            due = self._truth.thing(client.key_of(name)).due_at(document.cursor)
            floor = self.floor_in(document, client, name)
            if floor >= due and self._doubted.get(place):
                del self._doubted[place]
            if max(floor, self.caused_of(*place)) < due and place not in self._doubted:
                raise Broken(
                    f"P2: {client.name} stores cursor {document.cursor} and knows {floor} of {name}, not {due}"
                )

    def floor_in(self, document: Document, client: SimulatedClient, name: str) -> Version:
        """Returns the newest version of the object that the client knows after a power cut.

        A version that came by one query does not raise the floor while another query's callback still has to be told
        it.
        """
        floor = document.applied.get(name, UNKNOWN)
        return max(floor, self._returned.get((client.key, name), UNKNOWN)) if document.queries else floor

    def on_caught_up(self, client: SimulatedClient, since_s: float, wanted_then: set[str]) -> None:
        """P2: a wake misses nothing that was acknowledged before it began."""
        for name in wanted_then & client.wanted:
            if (client.key, name) in self._doubted:
                continue
            due = self._truth.thing(client.key_of(name)).acknowledged_at(since_s)
            told = max(self._knows((client.key, name)), self._caused_before.get((client.key, name), UNKNOWN))
            if told < due:
                raise Broken(f"P2: {client.name} is caught up and was told {told} of {name}, not {due}")

    def told(self, client: SimulatedClient, name: str) -> Version:
        """Returns the newest version of the object that its application was told."""
        return self._told.get((client.key, name), UNKNOWN)

    # ---- P6

    def on_offline(self, client: str) -> None:
        """It is gone: records written for it count from now on."""
        self._offline_records[client] = 0
        partition = group_partition(client.split("/")[1])
        self._asked_until[client] = self._kafka.log(TOPICS.requests, partition).end
        self._answered = {place: applied for place, applied in self._answered.items() if place[0] != client}

    def on_online(self, client: str) -> None:
        """It comes."""
        self._offline_records.pop(client, None)

    def on_state_record(self, client: str, key: bytes, value: bytes | None, *, forgotten: bool) -> None:
        """A record of registrations or sessions was written for it. A null after an operator's `forgotten` is free.

        A record that includes a further request from before it left does not count: if nobody has served its partition
        for long, and each request is a step of its own, there are as many as it had requests. After a null nothing says
        which requests were served: a successor that begins before them serves them again.
        """
        if client not in self._offline_records:
            return
        if value is None:
            self._answered.pop((client, key), None)
            if forgotten:
                return
        applied = -1 if value is None else state_order(value)[1]
        if self._answered.get((client, key), -1) < applied < self._asked_until[client]:
            self._answered[client, key] = applied
        else:
            self._offline_records[client] += 1

    def on_takeover(self) -> None:
        """A generation was claimed."""
        self.takeovers += 1

    # ---- at rest

    def at_rest(self, online: list[SimulatedClient]) -> list[str]:
        """Returns what is wrong once faults have stopped and everything has come to rest."""
        found = []
        newest: dict[str, Version] = {}
        registered: dict[str, list[str]] = {}
        for partition in range(PARTITIONS):
            newest |= merged(partition, self._kafka.log(TOPICS.objects, partition), self._truth.removals_read.epoch)
            for key, record in merged_registrations(self._kafka.log(TOPICS.registrations, partition)).items():
                registered.setdefault(key.rpartition("/")[0], []).extend(record.objects)
        for key, thing in self._truth.things.items():
            due = max(thing.acknowledged_at(self._clock.now_s), thing.strayed)
            if newest.get(key, UNKNOWN) < due:
                found.append(f"P1: of {key} {due} was acknowledged, the log has {newest.get(key, UNKNOWN)}")
        for client in online:
            if not client.caught_up:
                found.append(f"P2: {client.name} is not caught up")
            for name in sorted(client.wanted):
                due = newest.get(client.key_of(name), UNKNOWN)
                told = self._knows((client.key, name))
                if told < due:
                    found.append(f"P2: {client.name} was told {told} of {name}, not {due}")
            if sorted(registered.get(client.key, ())) != sorted(client.wanted):
                found.append(
                    f"P5: {client.name} wants {sorted(client.wanted)}, is registered for "
                    f"{sorted(registered.get(client.key, ()))}"
                )
        limit = OFFLINE_RECORDS_MAX + 2 * self.takeovers
        for key, records in self._offline_records.items():
            if records > limit:
                found.append(f"P6: {records} state records were written for {key}, which is offline")
        return found

    def forget_told(self) -> None:
        """The objects topic was lost: versions may start again."""
        self._last.clear()
        self._caused.clear()
        self._caused_before.clear()


def group_partition(group: str) -> int:
    """Returns the partition of a group of the simulation's domain."""
    return partition_of("animal.observer", group, PARTITIONS)
