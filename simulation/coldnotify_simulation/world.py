"""The world: two matchers, two gateways, clients and publishers over one Kafka, under one seed."""

from collections import Counter
from random import Random
from typing import NamedTuple

import msgspec
from coldnotify._core.delivery import Job
from coldnotify._core.document import Document
from coldnotify._core.driver import MembersJob
from coldnotify._core.reconnect import Address
from coldnotify_matcher.epoch import epoch_of
from coldnotify_schemas import topics
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import GENERATION_KEY, RegistrationsRecord
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import MOVED_HEADER

from coldnotify_simulation.client import Client
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.gateway import Gateway
from coldnotify_simulation.group import Group
from coldnotify_simulation.kafka import PARTITIONS, Entry, Kafka, PartitionLog, merged_state, state_order
from coldnotify_simulation.link import Link
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.memberships import Memberships
from coldnotify_simulation.promises import Broken, Promises, group_partition, payload_of
from coldnotify_simulation.sets import Groups, groups_of
from coldnotify_simulation.trace import Trace
from coldnotify_simulation.truth import UNKNOWN, Truth, Version

DOMAIN = "animal.observer"
GROUPS = [next(f"region-{i}" for i in range(100) if group_partition(f"region-{i}") == p) for p in range(PARTITIONS)]
"""One in each partition."""
OBJECTS = [f"o{i}" for i in range(4)]
SETTLED_WITHIN_S = 400.0
"""Of virtual time, from the end of faults on: the longest timers have had several turns by then."""
CLAIMS = GENERATION_KEY.encode()
"""The key of a partition's claims."""
NEWER = "newer"
"""The client whose records a matcher of a later release has written."""
_LOOK_EVERY_S = 5.0
_STAYS_SO_S = 25.0
"""Beats and keepalives have had a turn: what held by chance does not hold any more."""


class _Wake(NamedTuple):
    """What was so when a client's connection came to stand."""

    since_s: float
    wanted: set[str]
    queries: set[str]
    epoch: int
    end: int
    """Of the client's partition of the objects topic."""


class World:
    """Everything. Tests and schedules act on its parts directly."""

    def __init__(self, seed: int, clients: int = 4, *, late_s: float = 0.02) -> None:
        self.random = Random(seed)
        self.clock = Clock()
        self.trace = Trace(self.clock)
        self.truth = Truth()
        self.kafka = Kafka(self._on_append)
        self.promises = Promises(self.clock, self.kafka, self.truth)
        self.groups = Groups()
        self.memberships = Memberships(self.promises, self.truth, self.groups)
        self.group = Group(self.clock, self.random)
        self.late_s = late_s
        self.epoch_counter = 0
        self.matchers = [
            Matcher(f"matcher-{i}", self.clock, self.random, self.kafka, self.group, self.trace) for i in range(2)
        ]
        self.gateways = [Gateway(f"gateway-{i}", self.clock, self.random, self.kafka, self.trace) for i in range(2)]
        self.clients = [
            Client(f"c{i}", GROUPS[i % 2 if clients > 1 else 0], self.clock, self.random, self.trace, self, 2)
            for i in range(clients)
        ]
        self.registrations_lost = False
        self._publishing = False
        self._published = 0
        self._wanted_at: dict[str, _Wake] = {}
        self._deletions: dict[tuple[str, int], bool] = {}
        self.highest: dict[str, int] = {}
        """The highest version that any publisher used, by object's key."""
        self._note_epoch()

    def start(self) -> None:
        """Matchers and gateways run; clients are not started."""
        for matcher in self.matchers:
            matcher.start()
        for gateway in self.gateways:
            gateway.start()

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.clock.run(seconds)

    # ---- publishers

    def publish(
        self,
        key: str,
        version: int,
        *,
        incarnation: int | None = None,
        partition: int | None = None,
        acknowledged: bool | None = None,
        source: str | None = None,
        deleted: bool = False,
    ) -> None:
        """One call. `acknowledged`: None leaves it to chance whether the publisher hears of it.

        `source`: the client that publishes it, by its name.
        """
        domain, group, _ = key.split("/", 2)
        right = partition_of(domain, group, PARTITIONS)
        at = right if partition is None else partition
        payload = payload_of(version)
        value: dict[str, object] = {"version": version, "payload": payload}
        # Who publishes a version once more, or in another incarnation, says the same of it.
        deleted = self._deletions.setdefault((key, version), deleted)
        if deleted:
            value["deleted"] = True
        if incarnation is not None:
            value["incarnation"] = incarnation
        if source is not None:
            value["source"] = source
        self.highest[key] = max(self.highest.get(key, -1), version)
        self._published += 1
        names = {"publisher": "p", "id": self._published}
        newest = self.truth.thing(key).newest
        inherited = max(newest[-1][1][0], 0) if newest else 0
        means: Version = inherited if incarnation is None else incarnation, version
        said: dict[str, str] = {}
        if source is not None:
            self.promises.caused(f"{domain}/{group}/{source}", key.split("/", 2)[2], means)
            said["source"] = source
        self.trace.event(
            "publish", **names, object=key, version=version, payload=payload,
            incarnation=means[0], path="kafka" if at == right else "raw", deleted=deleted, **said,
        )  # fmt: skip
        self.trace(source or "publisher", "publishes", key, means, "" if at == right else f"in partition {at}")
        self._append_published(at, key, msgspec.json.encode(value))
        if acknowledged is None:
            acknowledged = self.random.random() < 0.8
        if acknowledged and at == right:
            self.truth.acknowledge(key, means, self.clock.now_s)
        elif acknowledged:
            self.truth.acknowledge_stray(key, means)
        self.trace.event("published", **names, outcome="acknowledged" if acknowledged else "unknown")

    def publish_next(self, key: str, *, acknowledged: bool | None = True, source: str | None = None) -> int:
        """The version after the highest so far."""
        version = self.highest.get(key, 0) + 1
        self.publish(key, version, acknowledged=acknowledged, source=source)
        return version

    def describe(
        self,
        key: str,
        description: dict[str, object] | None,
        *,
        back_ms: int = 0,
        partition: int | None = None,
        acknowledged: bool | None = None,
    ) -> None:
        """One call. `back_ms`: so much earlier than now is its timestamp."""
        domain, group, _ = key.split("/", 2)
        right = partition_of(domain, group, PARTITIONS)
        at = right if partition is None else partition
        timestamp_ms = self.clock.now_ms - back_ms
        self._published += 1
        names = {"publisher": "p", "id": self._published}
        self.trace.event(
            "describe", **names, object=key, description=description, timestamp=timestamp_ms,
            path="kafka" if at == right else "raw",
        )  # fmt: skip
        self.trace(
            "publisher", "describes", key, description, timestamp_ms, "" if at == right else f"in partition {at}"
        )
        value = msgspec.json.encode({"description": description})
        self.kafka.append(topics.OBJECTS, at, timestamp_ms, f"{KEY_PREFIX}{key}".encode(), value)
        if acknowledged is None:
            acknowledged = self.random.random() < 0.8
        self.trace.event("published", **names, outcome="acknowledged" if acknowledged else "unknown")

    def publish_nonsense(self, key: str, value: bytes | None) -> None:
        """What is no public record."""
        domain, group, _ = key.split("/", 2)
        self.trace("publisher", "writes", value, "to", key)
        self._append_published(partition_of(domain, group, PARTITIONS), key, value)

    def _append_published(self, partition: int, key: str, value: bytes | None) -> None:
        self._publishing = True
        self.kafka.append(topics.OBJECTS, partition, self.clock.now_ms, key.encode(), value)
        self._publishing = False

    # ---- what Kafka tells

    def _on_append(self, topic: str, partition: int, entry: Entry) -> None:
        if topic == topics.NOTIFICATIONS:
            for gateway in self.gateways:
                if gateway.alive and gateway.core.inbox == partition:
                    gateway.read_soon()
            return
        if topic == topics.OBJECTS:
            self.groups.on_record(partition, entry)
            version = self.truth.on_record(partition, entry, publisher=self._publishing)
            if version is not None and any(name == MOVED_HEADER for name, _ in entry.headers):
                self._note_moved((entry.key or b"").decode(), version)
        elif topic == topics.SESSIONS and entry.key == CLAIMS:
            self.promises.on_takeover()
        elif topic in (topics.REGISTRATIONS, topics.SESSIONS) and entry.key is not None:
            client = entry.key.decode()
            if topic == topics.REGISTRATIONS:
                client = client.rpartition("/")[0]
                if entry.value is not None:
                    record = msgspec.json.decode(entry.value, type=RegistrationsRecord)
                    self.promises.on_registered(client, record.objects)
                    self.memberships.on_registered(client, record.queries)
            self.promises.on_state_record(client, entry.key, entry.value)
        for matcher in self.matchers:
            if matcher.run is not None and matcher.run.reads(partition):
                matcher.run.look_soon()

    def _note_moved(self, key: str, version: Version) -> None:
        """What its publisher put elsewhere means the incarnation that is in force where it belongs."""
        self._published += 1
        self.trace.event(
            "publish", publisher="moved", id=self._published, object=key, version=version[1], incarnation=version[0],
            payload=payload_of(version[1]), path="raw", deleted=self._deletions.get((key, version[1]), False),
        )  # fmt: skip

    # ---- what clients see (client.Surroundings)

    def connect(self, client: Client, address: Address) -> None:
        """A connection stands after a moment, or nobody is there, or nobody answers."""
        gateway = self.gateways[address.port]
        self.promises.on_online(client.key)
        attempt = client.attempts

        def arrive() -> None:
            if client.attempts != attempt or gateway.stopped:
                return
            if not gateway.alive:
                client.on_broken(None, "nobody is there")
                return
            link = Link(self.clock, self.random, client, gateway, self.late_s)
            gateway.accept(link)
            end = self.kafka.log(topics.OBJECTS, group_partition(client.identity.group)).end
            self._wanted_at[client.key] = _Wake(
                self.clock.now_s, client.wanted, client.queries, self.promises.epoch, end
            )
            client.link_up(link)

        client.later(self.random.uniform(0.001, self.late_s), arrive)

    def on_told(self, client: Client, job: Job, *, failed: bool) -> None:
        """A callback is entered."""
        said, update = job.notification, job.update
        self.trace(
            client.name, "is told", said.object_id, (update.incarnation, said.version), "fails" if failed else ""
        )
        more = {"failed": True} if failed else {}
        self.trace.event(
            "told", client=client.key, object=client.key_of(said.object_id), version=said.version,
            incarnation=update.incarnation, payload=said.payload, deleted=said.deleted, **more,
        )  # fmt: skip
        self.memberships.on_told_version(client, said.object_id)
        self.promises.on_told(client, job, failed=failed)

    def on_told_members(self, client: Client, job: MembersJob, *, failed: bool) -> None:
        """A members callback is entered."""
        added, removed = sorted(job.added), sorted(job.removed)
        text = job.query.text
        self.trace(client.name, "is told of", repr(text), "added", added, "removed", removed, "fails" if failed else "")
        more = {"failed": True} if failed else {}
        self.trace.event("members", client=client.key, query=text, added=added, removed=removed, **more)
        self.memberships.on_told(client, job, failed=failed)

    def on_starts(self, client: Client, document: Document) -> None:
        """Its process begins with this document."""
        self.memberships.starts(client, document)

    def on_saved(self, client: Client, document: Document) -> None:
        """A document is durable."""
        self.promises.on_saved(client, document)
        self.memberships.on_saved(client, document, self.promises.epoch)

    def on_caught_up(self, client: Client, since: int) -> None:
        """The library says: complete."""
        self.trace(client.name, "is caught up")
        self.trace.event("caught_up", client=client.key, since=since)
        wake = self._wanted_at[client.key]
        self.promises.on_caught_up(client, wake.since_s, wake.wanted)
        if wake.epoch == self.promises.epoch:
            self.memberships.on_caught_up(client, wake.since_s, wake.queries, wake.end)

    def on_stopped(self, client: Client) -> None:
        """It disconnected in order."""
        self.promises.on_offline(client.key)

    # ---- what schedules and tests do to clients

    def start_client(self, client: Client, *, only: bool = False) -> None:
        """Its unit is switched on."""
        anew = client.wish - client_wanted(client)
        self.promises.allow_repeat(client.key, *anew)
        if not client.alive:
            self.promises.registers(client.key, anew)
        client.start(only=only)
        for text in client.queries:
            self.memberships.registers(client, text)

    def register(self, client: Client, *names: str) -> None:
        """Its application wants more."""
        anew = set(names) - client.wanted
        self.promises.allow_repeat(client.key, *anew)
        if client.driver is not None:
            self.promises.registers(client.key, anew)
        client.register(*names)

    def register_query(self, client: Client, text: str) -> None:
        """Its application wants a query's members."""
        if client.driver is not None:
            self.memberships.registers(client, text)
        client.register_query(text)

    def unregister_query(self, client: Client, text: str) -> None:
        """And no more."""
        if client.driver is not None:
            self.memberships.unregisters(client, text)
        client.unregister_query(text)

    def power_loss(self, client: Client, *, wiped: bool = False) -> None:
        """It is off from one instant to the next."""
        self.promises.allow_repeat(client.key, *OBJECTS, *client.wish)
        was_on = client.alive
        (client.wipe if wiped else client.power_loss)()
        if wiped:
            self.promises.wiped(client.key)
            self.memberships.wiped(client.key)
        else:
            self.promises.power_lost(client.key)
        if was_on:
            self.promises.on_offline(client.key)

    def shut_down(self, client: Client) -> None:
        """Its application ends in order."""
        client.shut_down()

    # ---- what schedules and tests do to Kafka

    def lose_topic(self, name: str) -> None:
        """It is deleted, and made anew."""
        self.trace("kafka", "recreates", name)
        self.trace.event("topic_lost", topic=name)
        self.kafka.recreate(name)
        if name == topics.OBJECTS:
            self.truth.lose()
            self.groups.clear()
            self.promises.forget_told()
            self._note_epoch()
        if name == topics.REGISTRATIONS:
            self.registrations_lost = True
            for client in self.clients:
                self.promises.doubt(client.key, client.wanted if client.alive else client_wanted(client))
                self.memberships.doubt(client.key, client.queries if client.alive else client_queries(client))

    def truncate_objects(self, partition: int, end: int, *, new_epoch: bool) -> None:
        """A restored backup. `new_epoch`: the operator bumps the counter, and starts the matchers anew, as is due."""
        self.trace("kafka", "truncates objects", partition, "to", end)
        self.trace.event("topic_lost", topic=topics.OBJECTS)
        self.kafka.log(topics.OBJECTS, partition).truncate(end)
        self.truth.lose()
        self.groups.clear()
        for number in range(PARTITIONS):
            self.truth.read_again(number, self.kafka.log(topics.OBJECTS, number))
            for entry in self.kafka.log(topics.OBJECTS, number).entries:
                self.groups.on_record(number, entry)
        self.promises.forget_told()
        if new_epoch:
            self.epoch_counter += 1
            for matcher in self.matchers:
                matcher.kill()
                matcher.epoch_counter = self.epoch_counter
                matcher.start()
        self._note_epoch()
        if not new_epoch:
            self.promises.epoch = 0

    def open_transaction(self, partition: int, seconds: float) -> None:
        """A back-end holds one open on the objects topic for so long."""
        log = self.kafka.log(topics.OBJECTS, partition)
        self.trace("back-end", "opens a transaction in", partition)
        log.open_transaction()
        self.clock.later(seconds, lambda: self._end_transaction(log))

    def _end_transaction(self, log: PartitionLog) -> None:
        log.end_transaction()
        for matcher in self.matchers:
            if matcher.run is not None:
                matcher.run.look_soon()

    def write_newer_state(self, partition: int) -> None:
        """A matcher of a later release has left a record."""
        self.trace("stranger", "writes a session record of a later release in", partition)
        self._write_newer_state(partition, b'{"format":2,"generation":1,"applied":0}')

    def write_over_newer_state(self, partition: int) -> None:
        """An operator has decided to go on without it."""
        self._write_newer_state(partition, None)

    def _write_newer_state(self, partition: int, value: bytes | None) -> None:
        key = f"{DOMAIN}/{GROUPS[partition]}/{NEWER}".encode()
        self.kafka.append(topics.SESSIONS, partition, self.clock.now_ms, key, value)

    def _note_epoch(self) -> None:
        self.promises.epoch = epoch_of(self.kafka.topics[topics.OBJECTS].id, PARTITIONS, self.epoch_counter)

    def compact(self, *, at_rest: bool = False) -> None:
        """Compaction, long after the last stale record: what is not repaired yet, it has not reached yet."""
        for partition in range(PARTITIONS):
            for topic in (topics.REGISTRATIONS, topics.SESSIONS):
                log = self.kafka.log(topic, partition)
                winners = merged_state(log)
                last = {entry.key: entry.value for entry in log.entries}
                unsafe = {
                    key for key, value in last.items() if key and winners.get(key.decode(errors="replace")) != value
                }
                claims = [state_order(e.value) for e in log.entries if e.key == CLAIMS and e.value is not None]
                claim = last.get(CLAIMS)
                if claim is not None and state_order(claim) == max(claims):
                    unsafe.discard(CLAIMS)
                log.compact((lambda _key: False) if at_rest else unsafe.__contains__)
            self._compact_objects(partition, at_rest=at_rest)

    def _compact_objects(self, partition: int, *, at_rest: bool) -> None:
        log = self.kafka.log(topics.OBJECTS, partition)
        before = list(log.entries)
        if at_rest:
            log.compact()
            return
        owed = {key: thing.newest[-1][1] for key, thing in self.truth.things.items() if thing.newest}
        last = {entry.key: entry for entry in log.entries}

        def spared(key: bytes) -> bool:
            value = last[key].value
            if key.startswith(KEY_PREFIX.encode()):
                return self._is_described_otherwise(partition, last[key])
            newest = owed.get(key.decode(errors="replace"), UNKNOWN)
            explicit = b'"version":%d' % newest[1] in (value or b"")
            return not explicit or (newest[0] > 0 and b'"incarnation":%d' % newest[0] not in (value or b""))

        log.compact(spared)
        self.groups.on_compaction(before, log.entries)

    def _is_described_otherwise(self, partition: int, entry: Entry) -> bool:
        """Whether another description is in force than this record's, the last of its key."""
        _, group, name = (entry.key or b"").decode(errors="replace").split("/", 2)
        if group_partition(group) != partition:
            return False
        thing = self.groups.objects.get(f"{DOMAIN}/{group}", {}).get(name)
        in_force = None if thing is None or thing.described[0] < 0 else thing.described
        alone = groups_of([(partition, [entry])]).objects.get(f"{DOMAIN}/{group}", {}).get(name)
        return in_force is not None and (alone is None or alone.described != in_force)

    # ---- the end

    def wrong_at_rest(self, online: list[Client]) -> list[str]:
        """What is not as it should be once faults have stopped and everything has come to rest."""
        found = self.promises.at_rest(online)
        registered: dict[str, set[str]] = {}
        for partition in range(PARTITIONS):
            for key, value in merged_state(self.kafka.log(topics.REGISTRATIONS, partition)).items():
                record = msgspec.json.decode(value, type=RegistrationsRecord)
                registered.setdefault(key.rpartition("/")[0], set()).update(record.queries)
        left = groups_of((n, self.kafka.log(topics.OBJECTS, n).entries) for n in range(PARTITIONS))
        return found + self.memberships.at_rest(online, left, registered)

    def counts(self) -> Counter[str]:
        """What came to pass of queries: in matchers, and as applications were told."""
        counts = Counter(self.memberships.counts)
        for matcher in self.matchers:
            counts.update(matcher.counts)
        return counts

    def calm(self) -> None:
        """Faults stop: what was stopped goes on, what is dead is started."""
        self.trace("world", "no faults from here on")
        self.trace.event("calm")
        for number in range(PARTITIONS):
            self._end_transaction(self.kafka.log(topics.OBJECTS, number))
            self.write_over_newer_state(number)
        for matcher in self.matchers:
            matcher.doom, matcher.lag, matcher.commits_held = None, 0.0, False
            matcher.commits_held_of = frozenset()
            matcher.go_on()
            if not matcher.alive:
                matcher.start()
        for gateway in self.gateways:
            gateway.requests_held, gateway.requests_fail = False, 0.0
            gateway.late = 0.02
            gateway.go_on()
            if not gateway.alive:
                gateway.start()
        for client in self.clients:
            client.failing = 0.0
            client.callback_s = 0.01
            client.go_on()

    def settle(self, online: list[Client]) -> None:
        """Run until all is as it should be, and stays so. Raises Broken."""
        end_s = self.clock.now_s + SETTLED_WITHIN_S
        while True:
            while (wrong := self.wrong_at_rest(online)) and self.clock.now_s < end_s:
                self.run(_LOOK_EVERY_S)
                for client in online:
                    if not client.alive:  # it was about to disconnect
                        self.start_client(client)
            if not wrong:
                self.run(_STAYS_SO_S)
                self.compact(at_rest=True)
                wrong = self.wrong_at_rest(online)
            # A connection that is dead may have stood until now: its client has to come again.
            if not wrong or self.clock.now_s >= end_s:
                break
        if wrong:
            raise Broken("; ".join(wrong))
        self.trace.event("end", connected=[client.key for client in online])


def client_wanted(client: Client) -> set[str]:
    """What its state file says it wants."""
    return set() if client.disk is None else set(msgspec.json.decode(client.disk)["wanted"])


def client_queries(client: Client) -> set[str]:
    """The queries that its state file says it wants."""
    return set() if client.disk is None else set(msgspec.json.decode(client.disk).get("queries", {}))
