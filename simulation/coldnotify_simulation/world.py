"""The world: two matchers, two gateways, clients and publishers over one Kafka, under one seed; and its faults."""

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random

import msgspec
from coldnotify._core.interests.since import Since
from coldnotify_matcher.engine.rules.retention_rules import RetentionRules
from coldnotify_matcher.epoch import channels_epoch_of, epoch_of
from coldnotify_schemas.atomic_sets import SET_PREFIX
from coldnotify_schemas.channels import Retention as LogRetention
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.interests import Kind, channel_of
from coldnotify_schemas.matcher_state import GENERATION_KEY, RegistrationsRecord, is_wills_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.priority import HIGH, priority_header
from coldnotify_schemas.records import MOVED_HEADER, payload_header
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import Notification
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_simulation.arrived import HEADER, arrival_number
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.clock import Clock
from coldnotify_simulation.compaction import compact_objects, compact_state
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.group import Group
from coldnotify_simulation.kafka import PARTITIONS, Kafka, LogEntry, PartitionLog, merged_registrations, state_order
from coldnotify_simulation.ledger_look import LedgerLook
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.matcher_readers import NOTHING_UNREAD
from coldnotify_simulation.memberships import SimulatedMemberships
from coldnotify_simulation.messages import SimulatedMessages
from coldnotify_simulation.promises import Broken, SimulatedPromises, group_partition, payload_of
from coldnotify_simulation.removing import key_of
from coldnotify_simulation.sets import SimulatedSets, groups_of, unmoved
from coldnotify_simulation.trace import Trace
from coldnotify_simulation.truth import UNKNOWN, TrueObjects, Version
from coldnotify_simulation.witness import Witness

TOPICS = TopicNames()

DOMAIN = "animal.observer"
GROUPS = [next(f"region-{i}" for i in range(100) if group_partition(f"region-{i}") == p) for p in range(PARTITIONS)]
"""One in each partition."""
OBJECTS = [f"o{i}" for i in range(4)]
SETTLED_WITHIN_S = 400.0
"""Limit in virtual time, from the end of faults on: the longest timers have fired several times by then."""
SETS = SET_PREFIX.encode()
"""Begins the keys of sets' records."""
CLAIMS = GENERATION_KEY.encode()
"""The key of a partition's claims."""
NEWER = "newer"
"""The client whose records a matcher of a later release has written."""
_COUNTED = frozenset(("turned_away", "refused"))
"""Events of the history."""
_LOOK_EVERY_S = 5.0
_LEDGER_EVERY_S = 0.7
_STAYS_SO_S = 25.0
"""Beats and keepalives have had a turn: what held by chance does not hold any more."""


class World:
    """Everything. Tests and schedules act on its parts directly."""

    def __init__(self, seed: int, clients: int = 4, *, late_s: float = 0.02, in_bytes: bool = False) -> None:
        """`in_bytes`: some payloads are not JSON."""
        self.random = Random(seed)
        self.clock = Clock()
        self.trace = Trace(self.clock)
        self.truth = TrueObjects()
        self.kafka = Kafka(self._on_append)
        self.promises = SimulatedPromises(self.clock, self.kafka, self.truth, in_bytes=in_bytes)
        self.in_bytes = in_bytes
        """Some payloads are not JSON."""
        self._on_set: Callable[[int, LogEntry], None] | None = None
        self._looks_at_records: Callable[[str, int, LogEntry], None] | None = None
        self.groups = SimulatedSets()
        self.memberships = SimulatedMemberships(self.promises, self.truth, self.groups)
        self.messages = SimulatedMessages(self.clock, self.kafka)
        self.group = Group(self.clock, self.random)
        self.epoch_counter = 0
        self.matchers = [
            Matcher(f"matcher-{i}", self.clock, self.random, self.kafka, self.group, self.trace) for i in range(2)
        ]
        self.gateways = [
            SimulatedGateway(f"gateway-{i}", self.clock, self.random, self.kafka, self.trace) for i in range(2)
        ]
        judges = self.promises, self.memberships, self.messages
        self.ledger = LedgerLook(self.matchers, self.trace)
        self.witness = Witness(
            self.clock, self.random, self.trace, self.kafka, self.gateways, judges, self.groups, self.ledger, late_s
        )
        self.clients = [
            SimulatedClient(
                f"c{i}", GROUPS[i % 2 if clients > 1 else 0], self.clock, self.random, self.trace, self.witness, 2
            )
            for i in range(clients)
        ]
        self.registrations_lost = self.sessions_lost = False
        self.forgotten: set[str] = set()
        """Clients that an operator has had forgotten, or will have once it is handled."""
        self.mqtt_devices: set[str] = set()
        """Clients whose sets may end with their sessions."""
        self.forgets_nobody = False
        """Nobody's time comes, and nothing else takes registrations: no record of them may be removed."""
        self.retention = RetentionRules()
        """The rules of the matchers."""
        self.removes_in_calm = False
        """True if they also remove once faults have stopped."""
        self._publishing = False
        self._published = 0
        self._deletions: dict[tuple[str, int], bool] = {}
        self._has_registrations: dict[bytes, bool] = {}
        """By key of a record of registrations: true if it contains any. Only records that count when they are written:
        readers ignore those of a generation below the last claim."""
        self._claimed = [0] * PARTITIONS
        """By partition, the highest generation that was claimed."""
        self.highest: dict[str, int] = {}
        """The highest version that any publisher used, by object's key."""
        self._note_epoch()
        self._note_log(anew=True)

    def start(self) -> None:
        """Matchers and gateways run; clients are not started."""
        for matcher in self.matchers:
            matcher.start()
        for gateway in self.gateways:
            gateway.start()

    def run(self, seconds: float) -> None:
        """Let time pass, and look at the ledger now and then."""
        while seconds > 0:
            self.clock.run(min(seconds, _LEDGER_EVERY_S))
            seconds -= _LEDGER_EVERY_S
            self.ledger.look(self.clients)

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
        high: bool = False,
        by_arrival_ms: int | None = None,
    ) -> None:
        """One call. `acknowledged`: None leaves it to chance whether the publisher hears of it.

        `source`: the client that publishes it, by its name. `high`: it is of high priority. `by_arrival_ms`: the
        timestamp of a record that does not say its version, which it gets by arrival.
        """
        domain, group, _ = key.split("/", 2)
        right = partition_of(domain, group, PARTITIONS)
        at = right if partition is None else partition
        payload = payload_of(version, in_bytes=self.in_bytes)
        # Bytes are written in base64.
        value: dict[str, object] = {"version": version, "payload": payload}
        # Who publishes a version once more, or in another incarnation, says the same of it.
        deleted = self._deletions.setdefault((key, version), deleted)
        if deleted:
            value["deleted"] = True
        if incarnation is not None:
            value["incarnation"] = incarnation
        if by_arrival_ms is not None:
            del value["version"]
        if source is not None:
            value["source"] = source
        self.highest[key] = max(self.highest.get(key, -1), version)
        self._published += 1
        names = {"publisher": "p", "id": self._published}
        inherited = max(self.truth.newest(key)[0], 0)
        means: Version = inherited if incarnation is None else incarnation, version
        said: dict[str, str] = {}
        if source is not None:
            self.promises.caused(f"{domain}/{group}/{source}", key.split("/", 2)[2], means)
            self.ledger.on_returned(f"{domain}/{group}/{source}", key.split("/", 2)[2], means)  # it has what it made
            said["source"] = source
        if high:
            said["priority"] = HIGH
        self.trace.event(
            "publish", **names, object=key, version=version, payload=payload,
            incarnation=means[0], path="kafka" if at == right else "raw", deleted=deleted, **said,
        )  # fmt: skip
        where = "" if at == right else f"in partition {at}"
        self.trace(source or "publisher", "publishes", key, means, where, "urgently" if high else "")
        headers = (
            *([priority_header()] if high else ()),
            *([(HEADER, b"")] if by_arrival_ms is not None else ()),
            *([payload_header()] if isinstance(payload, bytes) else ()),
        )
        self._append_published(at, key, msgspec.json.encode(value), headers, by_arrival_ms)
        if acknowledged is None:
            acknowledged = self.random.random() < 0.8
        if acknowledged and at == right:
            self.truth.acknowledge(key, means, self.clock.now_s)
        elif acknowledged:
            self.truth.acknowledge_stray(key, means)
        self.trace.event("published", **names, outcome="acknowledged" if acknowledged else "unknown")

    def look_at_records(self, look: Callable[[str, int, LogEntry], None]) -> None:
        """Has `look` see each record that is written, with its topic and partition."""
        self._looks_at_records = look

    def note_sets(self, names: Iterable[str], on_set: Callable[[int, LogEntry], None]) -> None:
        """Has `on_set` decide each set that is written, and writes down what clients are sent. `names`: of members."""
        by_crc = {object_crc(name): name for name in (*OBJECTS, *names)}

        def on_version(client: SimulatedClient, said: Notification) -> None:
            name = said.name or by_crc[said.crc]
            self.trace.event(
                "wire",
                client=client.key,
                object=client.key_of(name),
                version=said.version,
                incarnation=said.incarnation,
            )

        self.witness.heard.note_versions(on_version)
        self._on_set = on_set

    def publish_member(self, partition: int, key: str, version: Version, entry: LogEntry) -> None:
        """A set brings this version of an object."""
        assert group_partition(key.split("/")[1]) == partition
        self.truth.publish_member(key, version, entry)
        self.groups.on_member(key, version, entry.offset)
        self.highest[key] = max(self.highest.get(key, -1), version[1])

    def publish_next(
        self, key: str, *, acknowledged: bool | None = True, source: str | None = None, high: bool = False
    ) -> int:
        """The version after the highest so far."""
        version = self.highest.get(key, 0) + 1
        self.publish(key, version, acknowledged=acknowledged, source=source, high=high)
        return version

    def publish_by_arrival(self, key: str, *, behind_ms: int, source: str | None = None, high: bool = False) -> None:
        """One call without a version. `behind_ms`: so far behind is its gateway's clock."""
        timestamp_ms = self.clock.now_ms - behind_ms
        version = arrival_number(self.truth.newest(key), timestamp_ms)
        self.publish(key, version, source=source, high=high, by_arrival_ms=timestamp_ms)

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
        self.kafka.append(TOPICS.objects, at, timestamp_ms, f"{KEY_PREFIX}{key}".encode(), value)
        if acknowledged is None:
            acknowledged = self.random.random() < 0.8
        self.trace.event("published", **names, outcome="acknowledged" if acknowledged else "unknown")

    def publish_nonsense(self, key: str, value: bytes | None) -> None:
        """Writes an invalid record."""
        domain, group, _ = key.split("/", 2)
        self.trace("publisher", "writes", value, "to", key)
        self._append_published(partition_of(domain, group, PARTITIONS), key, value)

    def send(
        self, key: str, payload: bytes | None, headers: Iterable[tuple[str, bytes]], *, partition: int | None = None
    ) -> None:
        """One record of a log of channels."""
        _, _, rest = key.partition("/")
        group = rest.partition("/")[0]
        at = group_partition(group) if partition is None else partition
        self.trace("publisher", "sends to", key, payload, *headers, "" if partition is None else f"in partition {at}")
        self.kafka.append(TOPICS.channels_1d, at, self.clock.now_ms, key.encode(), payload, headers)

    def trim(self, partition: int, start: int) -> None:
        """Retention removes what is below, of the channels."""
        log = self.kafka.log(TOPICS.channels_1d, partition)
        if start <= log.start:
            return
        self.trace("kafka", "removes of channels in", partition, "what is below", start)
        log.remove_below(start)
        self.trace.event("log_trimmed", topic=TOPICS.channels_1d, partition=partition, offset=log.start)
        self.messages.on_trimmed(partition, log.start)

    def write_null(self, partition: int, key: bytes, headers: tuple[tuple[str, bytes], ...]) -> None:
        """Somebody who is not an owner writes a null, with a header."""
        self.trace("stranger", "writes a null under", key.decode(), *headers)
        self._publishing = True
        self.kafka.append(TOPICS.objects, partition, self.clock.now_ms, key, None, headers)
        self._publishing = False

    def _append_published(
        self,
        partition: int,
        key: str,
        value: bytes | None,
        headers: tuple[tuple[str, bytes], ...] = (),
        timestamp_ms: int | None = None,
    ) -> None:
        self._publishing = True
        at_ms = self.clock.now_ms if timestamp_ms is None else timestamp_ms
        self.kafka.append(TOPICS.objects, partition, at_ms, key.encode(), value, headers)
        self._publishing = False

    # ---- what Kafka tells

    def _on_append(self, topic: str, partition: int, entry: LogEntry) -> None:
        if self._looks_at_records is not None:
            self._looks_at_records(topic, partition, entry)
        if topic == TOPICS.notifications:
            for gateway in self.gateways:
                if gateway.alive and gateway.core.inbox == partition:
                    gateway.read_soon()
            return
        if topic == TOPICS.objects and (entry.key or b"").startswith(SETS):
            if entry.value is not None and self._on_set is not None:
                self._on_set(partition, entry)
        elif topic == TOPICS.objects:
            due_ms = self._due_ms(entry)
            self.groups.on_record(partition, entry)
            # What a matcher with a wrong clock has written again was not published in the future.
            timely = entry._replace(timestamp_ms=min(entry.timestamp_ms, self.clock.now_ms))
            by_client = any(gateway.publishes for gateway in self.gateways)
            version = self.truth.on_record(partition, timely, publisher=self._publishing or by_client)
            if entry.value is None:
                self._note_removed(entry, due_ms)
            if version is not None and any(name == MOVED_HEADER for name, _ in entry.headers):
                high = priority_header() in entry.headers
                self._note_meant((entry.key or b"").decode(), version, "moved", high=high)
        elif topic == TOPICS.channels_1d:
            self.messages.on_record(partition, entry)
        elif topic == TOPICS.sessions and entry.key == CLAIMS:
            generation, _ = state_order(entry.value or b"")
            if generation > self._claimed[partition]:
                self._claimed[partition] = generation
                self.promises.on_takeover()
        elif topic == TOPICS.registrations and is_wills_key((entry.key or b"").decode()):
            pass  # a will costs its client a few records more
        elif topic in (TOPICS.registrations, TOPICS.sessions) and entry.key is not None:
            client = entry.key.decode()
            if topic == TOPICS.registrations:
                client = client.rpartition("/")[0]
                had = entry.value is None and self._has_registrations.pop(entry.key, False)
                if had and self.forgets_nobody and client not in self.forgotten | self.mqtt_devices:
                    raise Broken(f"P5: {client} was forgotten before its time")
                if entry.value is None and client in self.forgotten:
                    self.trace.event("forgotten", client=client)
                    self.messages.forgotten(client)
                if entry.value is None and self.sessions_lost:
                    # Nobody knows any more to which topic of requests the record referred, so it may not be believed.
                    self.messages.registers_again(client)
                if entry.value is not None:
                    record = msgspec.json.decode(entry.value, type=RegistrationsRecord)
                    if record.generation >= self._claimed[partition]:
                        self._has_registrations[entry.key] = bool(record.objects or record.interests)
                    self.promises.on_registered(client, record.objects)
                    self.memberships.on_registered(client, [one.text for one in record.of_kind(Kind.QUERY)])
                    channels = record.of_kind(Kind.CHANNEL)
                    self.messages.on_registered(client, {c.text: (c.position, c.epoch) for c in channels})
            self.promises.on_state_record(client, entry.key, entry.value, forgotten=client in self.forgotten)
        for matcher in self.matchers:
            if matcher.run is not None and matcher.run.reads(partition):
                matcher.run.look_soon()

    def _due_ms(self, entry: LogEntry) -> int | None:
        """Returns when its object expires, counted from its last publish or description; None: never."""
        key, describes = key_of(entry)
        thing = self.truth.things.get(key)
        domain, group, name = key.split("/", 2)
        state = self.groups.objects.get(f"{domain}/{group}", {}).get(name)
        published_ms = thing.active_ms if thing is not None and thing.newest and thing.newest[-1][1] > UNKNOWN else 0
        since_ms = max(published_ms, 0 if state is None else state.described[0])
        # A description goes with its object, and is the last to go.
        deleted = describes or (state is not None and state.published is False)
        kept_ms = self.retention.of(domain, deleted=deleted)
        return since_ms + kept_ms if kept_ms else None

    def _note_removed(self, entry: LogEntry, due_ms: int | None) -> None:
        """A null was written: its owner must not have removed anything too early."""
        key, describes = key_of(entry)
        removed = self.truth.take_removed() if not describes else self.groups.take_removed()
        if not removed:
            return
        what = "description" if describes else "object"
        self.trace("kafka", "has removed the", what, key)
        self.trace.event("removed", object=key, what=what)
        if not self._publishing and (due_ms is None or self.clock.now_ms < due_ms):
            raise Broken(f"P1: the {what} {key} was removed before its time came, which is {due_ms}")

    def _note_meant(self, key: str, version: Version, why: str, *, high: bool = False) -> None:
        """Notes that a record without incarnation has the one in force where, and when, it is read."""
        self._published += 1
        self.trace.event(
            "publish", publisher=why, id=self._published, object=key, version=version[1], incarnation=version[0],
            payload=payload_of(version[1], in_bytes=self.in_bytes), path="raw",
            deleted=self._deletions.get((key, version[1]), False),
            priority=HIGH if high else None,
        )  # fmt: skip

    # ---- what schedules and tests do to clients

    def start_client(self, client: SimulatedClient, *, only: bool = False) -> None:
        """Its unit is switched on."""
        anew = client.wish - client_wanted(client)
        self.promises.allow_repeat(client.key, *anew)
        if not client.alive:
            self.promises.registers(client.key, anew)
        client.start(only=only)
        for text in client.queries:
            self.memberships.registers(client, text)

    def register(self, client: SimulatedClient, *names: str) -> None:
        """Its application wants more."""
        anew = set(names) - client.wanted
        self.promises.allow_repeat(client.key, *anew)
        if client.driver is not None:
            self.promises.registers(client.key, anew)
        client.register(*names)

    def register_query(self, client: SimulatedClient, text: str) -> None:
        """Its application wants a query's members."""
        if client.driver is not None:
            self.memberships.registers(client, text)
        client.register_query(text)

    def unregister_query(self, client: SimulatedClient, text: str) -> None:
        """And no more."""
        if client.driver is not None:
            self.memberships.unregisters(client, text)
        client.unregister_query(text)

    def register_channel(self, client: SimulatedClient, name: str, attributes: tuple[str, ...], since: Since) -> None:
        """Its application wants a channel's messages."""
        client.register_channel(name, attributes, since)

    def unregister_channel(self, client: SimulatedClient, name: str) -> None:
        """And no more."""
        if client.driver is not None:
            self.messages.unsubscribes(client, name)
        client.unregister_channel(name)

    def power_loss(self, client: SimulatedClient, *, wiped: bool = False) -> None:
        """It is off from one instant to the next."""
        self.promises.allow_repeat(client.key, *OBJECTS, *client.wish)
        was_on = client.alive
        (client.wipe if wiped else client.power_loss)()
        if wiped:
            self.promises.wiped(client.key)
            self.memberships.wiped(client.key)
            self.messages.wiped(client.key)
        else:
            self.promises.power_lost(client.key)
        if was_on:
            self.promises.on_offline(client.key)

    def shut_down(self, client: SimulatedClient) -> None:
        """Its application ends in order."""
        client.shut_down()

    # ---- what schedules and tests do to Kafka

    def lose_topic(self, name: str) -> None:
        """The topic is deleted and recreated."""
        self.trace("kafka", "recreates", name)
        self.trace.event("topic_lost", topic=name)
        self.kafka.recreate(name)
        if name == TOPICS.objects:
            self.truth.lose()
            self.groups.clear()
            self.promises.forget_told()
            self._note_epoch()
        if name == TOPICS.channels_1d:
            self._note_log(anew=True)
        if name == TOPICS.sessions:
            self.sessions_lost = True
            self._claimed = [0] * PARTITIONS
        if name == TOPICS.registrations:
            self.registrations_lost = True
            for client in self.clients:
                self.promises.doubt(client.key, client.wanted if client.alive else client_wanted(client))
                self.memberships.doubt(client.key, client.queries if client.alive else client_queries(client))
                self.messages.doubt(client.key)

    def truncate_objects(self, partition: int, end: int, *, new_epoch: bool) -> None:
        """Restores a backup. `new_epoch`: the operator raises the counter and restarts the matchers, as documented."""
        self.trace("kafka", "truncates objects", partition, "to", end)
        self.trace.event("topic_lost", topic=TOPICS.objects)
        self.kafka.log(TOPICS.objects, partition).truncate(end)
        self.truth.lose()
        self.groups.clear()
        if new_epoch:
            self.epoch_counter += 1
            self._note_log(anew=False)
        self._note_epoch()
        meant = {key: set(thing.published) for key, thing in self.truth.things.items()}
        for number in range(PARTITIONS):
            self.truth.read_again(number, self.kafka.log(TOPICS.objects, number))
            for entry in self.kafka.log(TOPICS.objects, number).entries:
                self.groups.on_record(number, entry)
        for key, thing in self.truth.things.items():
            for version in sorted(thing.published - meant.get(key, set())):
                self._note_meant(key, version, "read again")  # nulls of another epoch remove nothing
        self.promises.forget_told()
        self.truth.take_removed()
        self.groups.take_removed()
        if new_epoch:
            for matcher in self.matchers:
                matcher.kill()
                matcher.epoch_counter = self.epoch_counter
                matcher.start()
        else:
            self.promises.epoch = 0

    def open_transaction(self, partition: int, seconds: float, topic: str = TOPICS.objects) -> None:
        """A back-end holds one open on a topic for so long."""
        log = self.kafka.log(topic, partition)
        self.trace("back-end", "opens a transaction in", topic, partition)
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
        self._write_newer_state(partition, b'{"format":4,"generation":1,"applied":0}')

    def write_over_newer_state(self, partition: int) -> None:
        """An operator has decided to go on without it."""
        self._write_newer_state(partition, None)

    def _write_newer_state(self, partition: int, value: bytes | None) -> None:
        key = f"{DOMAIN}/{GROUPS[partition]}/{NEWER}".encode()
        self.kafka.append(TOPICS.sessions, partition, self.clock.now_ms, key, value)

    def _note_epoch(self) -> None:
        self.promises.epoch = epoch_of(self.kafka.topics[TOPICS.objects].id, PARTITIONS, self.epoch_counter)
        self.truth.removals_read.epoch = self.groups.removals_read.epoch = self.promises.epoch

    def _note_log(self, *, anew: bool) -> None:
        id_ = self.kafka.topics[TOPICS.channels_1d].id
        epoch = channels_epoch_of(id_, PARTITIONS, self.epoch_counter, LogRetention.DAY)
        self.messages.begin_epoch(epoch, anew=anew)

    def compact(self, *, at_rest: bool = False) -> None:
        """Compacts, long after the last stale record: spares what is not repaired yet."""
        compact_state(self.kafka, self._unread_from, at_rest=at_rest)
        compact_objects(self.kafka, self.truth, self.groups, self.promises.epoch, at_rest=at_rest)

    def _unread_from(self, topic: str, partition: int) -> int:
        runs = [matcher.run for matcher in self.matchers if matcher.run is not None]
        return min((run.unread_from(topic, partition) for run in runs), default=NOTHING_UNREAD)

    # ---- the end

    def wrong_at_rest(self, online: list[SimulatedClient]) -> list[str]:
        """Returns what is wrong once faults have stopped and everything has come to rest."""
        found = self.promises.at_rest(online)
        # Who serves it repairs what compaction would take: a partition may be waiting for a look at it once more.
        found += [f"P1: nobody serves partition {number}" for number in sorted(self._unserved())]
        registered: dict[str, set[str]] = {}
        channels: dict[str, set[str]] = {}
        for partition in range(PARTITIONS):
            for key, record in merged_registrations(self.kafka.log(TOPICS.registrations, partition)).items():
                queries = {one.text for one in record.of_kind(Kind.QUERY)}
                registered.setdefault(key.rpartition("/")[0], set()).update(queries)
                names = {channel_of(one.text)[0] for one in record.of_kind(Kind.CHANNEL)}
                channels.setdefault(key.rpartition("/")[0], set()).update(names)
        logs = [(number, self.kafka.log(TOPICS.objects, number).entries) for number in range(PARTITIONS)]
        left = groups_of(logs, self.groups.removals_read.epoch)
        found += [f"P9: a description of {key} stands where nobody looks" for key in unmoved(logs, left)]
        found += self.messages.at_rest(online, channels)
        found += self.ledger.wrong_at_rest(online)
        return found + self.memberships.at_rest(online, left, registered)

    def _unserved(self) -> set[int]:
        """The partitions that nobody serves just now."""
        unserved = set(range(PARTITIONS))
        for matcher in self.matchers:
            if (run := matcher.run) is not None:
                of_run = run.partitions.items()
                unserved -= {number for number, p in of_run if p.phase is OwningPhase.OWNED and run.group_has(number)}
        return unserved

    def counts(self) -> Counter[str]:
        """Returns counters of matchers, of what applications were told, and of refusals."""
        counts = self.memberships.counts + self.messages.counts + self.witness.heard.counts
        for matcher in self.matchers:
            counts.update(matcher.counts)
        counts["moves"] = sum(client.moves for client in self.clients)
        counts.update(str(event["event"]) for event in self.trace.history if event["event"] in _COUNTED)
        return counts

    def calm(self) -> None:
        """Stops all faults: resumes what was stopped, and starts what is dead."""
        self.trace("world", "no faults from here on")
        self.trace.event("calm")
        for number in range(PARTITIONS):
            self._end_transaction(self.kafka.log(TOPICS.objects, number))
            self._end_transaction(self.kafka.log(TOPICS.channels_1d, number))
            self.write_over_newer_state(number)
        for matcher in self.matchers:
            matcher.doom, matcher.lag, matcher.commits_held = None, 0.0, False
            matcher.commits_held_of = frozenset()
            matcher.go_on()
            if not matcher.alive:
                matcher.start()
            if not self.removes_in_calm:
                matcher.remove_no_more()
        for gateway in self.gateways:
            gateway.requests_held, gateway.requests_fail = False, 0.0
            gateway.late = 0.02
            gateway.go_on()
            if not gateway.alive:
                gateway.start()
        for client in self.clients:
            client.mend()

    def settle(self, online: list[SimulatedClient]) -> None:
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
        # One that does not know yet that its connection is dead is not connected.
        connected = [client.key for client in online if client.link is not None and not client.link.is_cut]
        self.trace.event("end", connected=connected)


def client_wanted(client: SimulatedClient) -> set[str]:
    """Returns the wanted set in its state file."""
    return set() if client.disk is None else set(msgspec.json.decode(client.disk)["wanted"])


def client_queries(client: SimulatedClient) -> set[str]:
    """Returns the queries in its state file."""
    return set() if client.disk is None else set(msgspec.json.decode(client.disk).get("queries", {}))
