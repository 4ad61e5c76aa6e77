"""The schedule of a campaign, drawn from a seed: the same arguments give the same schedule. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from random import Random
from typing import Any

from coldnotify_fault import hostile_faults, linked_steps, mqtt_steps, usage_faults, work_steps
from coldnotify_fault.channel_steps import Followed, draw_followed, draw_steps
from coldnotify_fault.mqtt_steps import MQTT_DEVICES, ScheduledMqttDevice

DOMAINS = ("camera.control", "release")
CHANNEL_RETENTIONS = f"{DOMAINS[0]}=1h"
"""The other domain has the default: so both retentions occur."""
GROUPS = ("north", "east", "west")
OBJECTS = ("config", "software/main", "månad", "request", "hot", "reborn")
COUNTED_GROUP = f"{DOMAINS[0]}/{GROUPS[0]}"
COUNTER = "counter"
COUNTED = (COUNTER, "pair/a", "pair/b", "pair/c")
"""Objects of that group, which are published with conditions and in sets alone; its clients want all of them."""
LAMPS = ("lamp-1", "lamp-2", "lamp-3")
"""Objects that nobody registers for by name."""
QUERIES = (
    "Room = 1",
    "Room=1 AND Kind = lamp",
    'NAME STARTS WITH "lamp-"',
    "NOT HAS Room",
    "Level >= 3 OR Room IN (2, 3)",
)
ALL_QUERIES = (*QUERIES, *linked_steps.SHELF_QUERIES)
DESCRIBED = (*QUERIES[1::2], linked_steps.SHELF_QUERIES[0])
"""Queries for which clients also ask for their members' descriptions."""
DESCRIPTIONS_PER_S = 4.0
REBORN = "reborn"
"""The object whose versions start over: only its publishers set an incarnation."""
CLIENTS_PER_GROUP = 2
DEVICES = 4
"""Processes that host clients."""
RAW_DEVICES = 1
"""So many of them host raw clients."""
MATCHERS = 2
MATCHERS_MAX = 3
GATEWAYS = 2
BACKENDS = ("library-1", "library-2", "http-1", "raw-1")
"""Publishers, by the way they go: the Publisher library, HTTP, a Kafka producer that knows nothing of ColdNotify."""
DESCRIBER = "describer"
"""The publisher of descriptions: a Kafka producer that computes the right partition, and sets timestamps."""
SESSION_TIMEOUT_S = 2.0
"""The matchers': takeovers are to come quickly."""
KAFKA = "broker"
"""Kafka as a whole, and the name of its only broker."""
BROKERS = (1, 3)
"""The possible numbers of Kafka nodes. Of three, two must have what is acknowledged: one at a time is taken away."""
_BROKER_SESSION_TIMEOUT_S = 3.0
"""The embedded nodes' broker.session.timeout.ms: after it, others lead what a node has led."""

_FIRST_FAULT_S = 2.0
"""Before the first fault all clients have connected, so that something can be lost."""
_TAIL_S = 1.0
"""Every fault begins so long before the end, at the latest."""
_REST_S = 1.0
"""After its healing a target is left alone for so long."""


class FaultKind(StrEnum):
    """The kinds of fault."""

    GATEWAY_KILLED = "gateway_killed"
    GATEWAY_PAUSED = "gateway_paused"
    MATCHER_KILLED = "matcher_killed"
    MATCHER_PAUSED = "matcher_paused"
    """Shorter than the session timeout, or longer: then it wakes as one whose partitions others have taken over."""
    BROKER_KILLED = "broker_killed"
    BROKER_PAUSED = "broker_paused"
    """One of three, also longer than its session timeout: then it wakes as one whose partitions others lead."""
    ALL_KILLED = "all_killed"
    DEVICE_KILLED = "device_killed"
    """Power loss of a device; some of its clients lose their state."""
    CLIENTS_CUT = "clients_cut"
    """All connections through one gateway's proxy end."""
    CLIENTS_SILENT = "clients_silent"
    """Half-open: the proxy drops all data of both sides, and closes nothing."""
    KAFKA_CUT = "kafka_cut"
    """Services and publishers lose Kafka, or one of three nodes: connections end, new ones are closed at once.

    So do the other nodes, which copy from it.
    """
    KAFKA_SILENT = "kafka_silent"
    MATCHER_ADDED = "matcher_added"
    """A rebalance, and another one when it leaves in order."""
    TOPIC_RECREATED = "topic_recreated"
    """One of registrations, sessions, notifications."""
    OBJECTS_RECREATED = "objects_recreated"
    """Publishers publish everything again."""
    USAGE_KILLED = usage_faults.KILLED
    USAGE_PAUSED = usage_faults.PAUSED
    USAGE_DOUBLED = usage_faults.DOUBLED
    """A second worker comes, and leaves in order."""
    HOSTILE_RECORDS = hostile_faults.KIND
    """Somebody writes batches made by hand to all topics."""
    MQTT_DEVICE_KILLED = mqtt_steps.MQTT_KILLED
    """Power loss of half of the MQTT devices; some of them forget which filters they have."""
    LINKED_KILLED = linked_steps.LINKED_KILLED
    WORKER_KILLED = work_steps.WORKER_KILLED
    """kill -9 of a member of shares, or now and then its end in order."""
    WORKER_PAUSED = work_steps.WORKER_PAUSED
    """Shorter than its leases, or longer: then it wakes as one whose tasks others have."""
    WORKER_CUT = work_steps.WORKER_CUT
    """Its links to all gateways end, or go silent, while it works."""


DRAWN_APART = frozenset(
    {
        FaultKind.USAGE_KILLED,
        FaultKind.USAGE_PAUSED,
        FaultKind.USAGE_DOUBLED,
        FaultKind.HOSTILE_RECORDS,
        FaultKind.MQTT_DEVICE_KILLED,
        FaultKind.LINKED_KILLED,
        FaultKind.WORKER_KILLED,
        FaultKind.WORKER_PAUSED,
        FaultKind.WORKER_CUT,
    }
)
"""Drawn by themselves, at a pace of their own: no other fault waits for them."""

TOPICS_RECREATED = ("registrations", "sessions", "notifications")

_TARGETS: dict[FaultKind, tuple[str, ...]] = {
    FaultKind.GATEWAY_KILLED: tuple(f"gateway-{i}" for i in range(1, GATEWAYS + 1)),
    FaultKind.GATEWAY_PAUSED: tuple(f"gateway-{i}" for i in range(1, GATEWAYS + 1)),
    FaultKind.MATCHER_KILLED: tuple(f"matcher-{i}" for i in range(1, MATCHERS + 1)),
    FaultKind.MATCHER_PAUSED: tuple(f"matcher-{i}" for i in range(1, MATCHERS + 1)),
    FaultKind.ALL_KILLED: ("all",),
    FaultKind.DEVICE_KILLED: tuple(f"device-{i}" for i in range(1, DEVICES + 1)),
    FaultKind.CLIENTS_CUT: tuple(f"gateway-{i}" for i in range(1, GATEWAYS + 1)),
    FaultKind.CLIENTS_SILENT: tuple(f"gateway-{i}" for i in range(1, GATEWAYS + 1)),
    FaultKind.MATCHER_ADDED: (f"matcher-{MATCHERS_MAX}",),
    FaultKind.TOPIC_RECREATED: TOPICS_RECREATED,
    FaultKind.OBJECTS_RECREATED: ("objects",),
}
BROKER_FAULTS = frozenset(
    {FaultKind.BROKER_KILLED, FaultKind.BROKER_PAUSED, FaultKind.KAFKA_CUT, FaultKind.KAFKA_SILENT}
)
"""Their target is a broker; other kinds' targets are in _TARGETS."""
NEED_KAFKA = frozenset({FaultKind.TOPIC_RECREATED, FaultKind.OBJECTS_RECREATED})
TAKE_KAFKA = BROKER_FAULTS | {FaultKind.ALL_KILLED}
_DURATION_S: dict[FaultKind, tuple[float, float]] = {
    FaultKind.GATEWAY_PAUSED: (0.5, 5.0),
    FaultKind.MATCHER_PAUSED: (0.5, 3 * SESSION_TIMEOUT_S),
    FaultKind.BROKER_PAUSED: (0.5, 4.0),
    FaultKind.CLIENTS_CUT: (0.0, 0.0),
    FaultKind.CLIENTS_SILENT: (1.0, 8.0),
    FaultKind.KAFKA_CUT: (0.2, 4.0),
    FaultKind.KAFKA_SILENT: (0.5, 4.0),
    FaultKind.MATCHER_ADDED: (2.0, 6.0),
    FaultKind.TOPIC_RECREATED: (0.0, 0.0),
    FaultKind.OBJECTS_RECREATED: (0.0, 0.0),
}
_DURATION_OF_THREE_S = {**_DURATION_S, FaultKind.BROKER_PAUSED: (0.5, 3 * _BROKER_SESSION_TIMEOUT_S)}
_RESTART_S = (0.1, 3.0)
"""A killed process is restarted after such a time."""


@dataclass(frozen=True, slots=True)
class ScheduledStep:
    """One thing to do. `what` is fault, heal, publish, describe, connect, disconnect, register, unregister,
    register_query, unregister_query, subscribe, unsubscribe, send, send_by_client, describe_by_client,
    publish_by_client, film, trim, lose_log, fail_next, or mqtt_ and connect, disconnect, crash, subscribe, unsubscribe
    or publish.

    Its target is that of a fault, a back-end, a client as domain/group/client, or (film, trim, lose_log) a
    domain/group.
    """

    at_s: float
    what: str
    target: str
    arguments: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScheduledClient:
    """A client of the campaign, and the objects it is registered for when it is started first."""

    name: str
    device: str
    wanted: tuple[str, ...]
    queries: tuple[str, ...] = ()
    channels: tuple[Followed, ...] = ()


@dataclass(frozen=True, slots=True)
class CampaignSchedule:
    """All of a campaign."""

    seed: int
    seconds: float
    brokers: int
    clients: tuple[ScheduledClient, ...]
    steps: tuple[ScheduledStep, ...]
    raw_devices: int = RAW_DEVICES
    mqtt_devices: tuple[ScheduledMqttDevice, ...] = ()
    linked: tuple[ScheduledClient, ...] = ()
    """Those that share a connection with others of their device."""
    workers: tuple[str, ...] = ()
    """Processes of members of shares."""

    def form_of(self, device: int) -> str:
        """Returns the form of this device's clients: raw on the last ones, else of the library, and half of them
        asyncio's.
        """
        if device > DEVICES - self.raw_devices:
            return "raw"
        return "aio" if device > DEVICES // 2 else "sync"

    def faults(self) -> dict[str, int]:
        """Returns the number of faults of each kind."""
        counts = {kind.value: 0 for kind in FaultKind}
        for step in self.steps:
            if step.what == "fault":
                counts[step.arguments["kind"]] += 1
        return counts


def broker_names(brokers: int) -> tuple[str, ...]:
    """The names of so many brokers: broker, or broker-1 to broker-3."""
    return (KAFKA,) if brokers == 1 else tuple(f"{KAFKA}-{number}" for number in range(1, brokers + 1))


def schedule(
    seed: int,
    seconds: float,
    *,
    brokers: int = 1,
    fault_every_s: float = 3.0,
    publishes_per_s: float = 12.0,
    kinds: Sequence[FaultKind] = tuple(FaultKind),
    raw_devices: int = RAW_DEVICES,
    mqtt_devices: int = MQTT_DEVICES,
    workers: bool = True,
) -> CampaignSchedule:
    """Steps in order of time, for `seconds`; the rates are averages. Heals come within the time or up to 9 s after."""
    random = Random(f"{seed}/{seconds}/{fault_every_s}/{publishes_per_s}")
    clients = _draw_clients(random)
    steps: list[ScheduledStep] = []
    _draw_publishes(random, seconds, publishes_per_s, steps)
    others = [kind for kind in kinds if kind not in DRAWN_APART]
    if others:
        _draw_faults(random, seconds, fault_every_s, brokers, clients, others, steps)
    for one in usage_faults.draw(Random(f"{seed}/{seconds}/usage"), seconds, {kind.value for kind in kinds}):
        steps.append(ScheduledStep(one.at_s, "fault", one.target, {"kind": one.kind}))
        steps.append(ScheduledStep(one.healed_s, "heal", one.target, {"kind": one.kind}))
    for attack in hostile_faults.draw(Random(f"{seed}/{seconds}/hostile"), seconds, {kind.value for kind in kinds}):
        arguments = {"kind": hostile_faults.KIND, "batches": attack.batches}
        steps.append(ScheduledStep(attack.at_s, "fault", hostile_faults.TARGET, arguments))
    _draw_clients_doing(random, seconds, clients, steps)
    _draw_descriptions(Random(f"{seed}/{seconds}/descriptions"), seconds, steps)
    clients = _draw_queries(Random(f"{seed}/{seconds}/queries"), seconds, clients, steps)
    clients = _draw_channels(Random(f"{seed}/{seconds}/channels"), seconds, clients, steps)
    mqtt = _draw_mqtt(Random(f"{seed}/{seconds}/mqtt"), seconds, mqtt_devices, kinds, steps)
    linked = _draw_linked(Random(f"{seed}/{seconds}/linked"), seconds, kinds, clients, steps)
    if workers:
        random = Random(f"{seed}/{seconds}/work")
        steps += [ScheduledStep(*drawn) for drawn in work_steps.draw_tasks(random, seconds)]
        steps += [ScheduledStep(*drawn) for drawn in work_steps.draw_faults(random, seconds, set(kinds))]
    in_order = tuple(sorted(steps, key=lambda step: step.at_s))
    names = work_steps.WORKERS if workers else ()
    return CampaignSchedule(seed, seconds, brokers, clients, in_order, raw_devices, mqtt, linked, names)


def _draw_clients(random: Random) -> tuple[ScheduledClient, ...]:
    clients: list[ScheduledClient] = []
    for domain in DOMAINS:
        for group in GROUPS:
            for number in range(1, CLIENTS_PER_GROUP + 1):
                wanted = tuple(random.sample(OBJECTS, random.randint(1, len(OBJECTS))))
                device = f"device-{len(clients) % DEVICES + 1}"
                clients.append(ScheduledClient(f"{domain}/{group}/ou-{number}", device, wanted))
    return tuple(clients)


def _draw_publishes(random: Random, seconds: float, per_s: float, steps: list[ScheduledStep]) -> None:
    """Each object's versions rise; back-ends race for it, repeat themselves, and are late with old ones."""
    newest: dict[str, tuple[int, int]] = {}
    history: dict[str, list[tuple[int, int]]] = {}
    at_s = 0.0
    while (at_s := at_s + random.expovariate(per_s / 2)) < seconds:
        name = f"{random.choice(DOMAINS)}/{random.choice(GROUPS)}/{random.choice(OBJECTS)}"
        for _ in range(random.choice((1, 1, 1, 2, 6))):
            incarnation, version = newest.get(name, (0, 0))
            drawn = random.random()
            if name.endswith(f"/{REBORN}") and drawn > 0.9:
                publish = (incarnation + 1, random.randint(0, 3))
            elif drawn < 0.15 and name in history:
                publish = random.choice(history[name][-8:])
            else:
                publish = (incarnation, version + random.choice((1, 1, 1, 3)))
            newest[name] = max(newest.get(name, (0, 0)), publish)
            history.setdefault(name, []).append(publish)
            steps.append(
                ScheduledStep(
                    at_s, "publish", random.choice(BACKENDS), {"object": name, **version_arguments(name, *publish)}
                )
            )


def version_arguments(name: str, incarnation: int, version: int) -> dict[str, Any]:
    """Returns the fields of this version of an object: the same whoever publishes it, and however often.

    Payloads contain the incarnation, because the application learns it in no other way.
    """
    deleted = version % 11 == 7
    if name.endswith(f"/{REBORN}"):
        return {"version": version, "incarnation": incarnation, "deleted": deleted, "payload": [incarnation, version]}
    payload = {"of": name, "fps": version, "more": "x" * (version % 5 * 50)} if version % 3 else None
    return {"version": version, "incarnation": None, "deleted": deleted, "payload": payload}


def _draw_faults(
    random: Random,
    seconds: float,
    every_s: float,
    brokers: int,
    clients: tuple[ScheduledClient, ...],
    kinds: Sequence[FaultKind],
    steps: list[ScheduledStep],
) -> None:
    bag: list[FaultKind] = []
    busy_until_s: dict[str, float] = {}
    durations_s = _DURATION_S if brokers == 1 else _DURATION_OF_THREE_S
    at_s = _FIRST_FAULT_S
    while at_s < seconds - _TAIL_S:
        # Out of a bag that is emptied before it is filled anew: rare kinds do not stay away for long.
        if not bag:
            bag = random.sample(kinds, len(kinds))
        kind = bag.pop()
        target = random.choice(broker_names(brokers) if kind in BROKER_FAULTS else _TARGETS[kind])
        duration_s = random.uniform(*durations_s.get(kind, _RESTART_S))
        concerned = set(busy_until_s) if kind is FaultKind.ALL_KILLED else {target}
        # Of several brokers, too, one is hit only while none is away.
        concerned |= {"all", KAFKA} if kind in NEED_KAFKA | TAKE_KAFKA else {"all"}
        at_s = max(at_s, *(busy_until_s.get(name, 0.0) for name in concerned))
        if at_s >= seconds - _TAIL_S:
            break
        arguments: dict[str, Any] = {"kind": kind.value}
        if kind is FaultKind.DEVICE_KILLED:
            arguments["wiped"] = [c.name for c in clients if c.device == target and random.random() < 0.3]
        steps.append(ScheduledStep(at_s, "fault", target, arguments))
        if duration_s:
            steps.append(ScheduledStep(at_s + duration_s, "heal", target, {"kind": kind.value}))
        busy_until_s[target] = at_s + duration_s + _REST_S
        if kind in TAKE_KAFKA:
            busy_until_s[KAFKA] = max(busy_until_s.get(KAFKA, 0.0), at_s + duration_s + 2 * _REST_S)
        at_s += random.expovariate(1 / every_s)


def _draw_clients_doing(
    random: Random, seconds: float, clients: tuple[ScheduledClient, ...], steps: list[ScheduledStep]
) -> None:
    """Each client comes, goes, registers and unregisters, at its own pace; half of them are awake at the end."""
    for client in clients:
        awake = random.random() < 0.8
        wanted = set(client.wanted)
        if awake:
            steps.append(ScheduledStep(random.uniform(0, 1.0), "connect", client.name))
        at_s = 1.0
        while (at_s := at_s + random.expovariate(1 / 4.0)) < seconds:
            drawn = random.random()
            if drawn < 0.45:
                awake = not awake
                steps.append(ScheduledStep(at_s, "connect" if awake else "disconnect", client.name))
            elif drawn < 0.6:
                steps.append(ScheduledStep(at_s, "fail_next", client.name))
            else:
                name = random.choice(OBJECTS)
                what = "unregister" if name in wanted else "register"
                wanted ^= {name}
                steps.append(ScheduledStep(at_s, what, client.name, {"object": name}))
        if not awake and random.random() < 0.7:
            steps.append(ScheduledStep(seconds, "connect", client.name))


def _draw_descriptions(random: Random, seconds: float, steps: list[ScheduledStep]) -> None:
    """Publishers describe objects, change descriptions, and publish objects that nobody wants by name."""
    versions: dict[str, int] = {}
    at_s = 0.0
    while (at_s := at_s + random.expovariate(DESCRIPTIONS_PER_S)) < seconds:
        group = f"{random.choice(DOMAINS)}/{random.choice(GROUPS)}"
        lamp = f"{group}/{random.choice(LAMPS)}"
        if random.random() < 0.3:
            versions[lamp] = versions.get(lamp, 0) + 1
            arguments = {"object": lamp, **version_arguments(lamp, 0, versions[lamp])}
            steps.append(ScheduledStep(at_s, "publish", random.choice(BACKENDS[:3]), arguments))
            continue
        name = lamp if random.random() < 0.7 else f"{group}/{random.choice(OBJECTS)}"
        description: dict[str, Any] | None = {"Room": random.choice((1, 1, 2, 3)), "Level": random.randint(0, 5)}
        if description is not None and random.random() < 0.5:
            description["Kind"] = random.choice(("lamp", "heater"))
        if description is not None and random.random() < 0.2:
            del description["Room"]
        if random.random() < 0.1:
            description = None
        steps.append(ScheduledStep(at_s, "describe", DESCRIBER, {"object": name, "description": description}))


def _draw_queries(
    random: Random, seconds: float, clients: tuple[ScheduledClient, ...], steps: list[ScheduledStep]
) -> tuple[ScheduledClient, ...]:
    """Half of the clients register by query, too, and change that now and then."""
    drawn = []
    for client in clients:
        if random.random() < 0.5:
            drawn.append(client)
            continue
        queries = set(random.sample(QUERIES, random.randint(1, 3)))
        drawn.append(replace(client, queries=tuple(sorted(queries))))
        at_s = 1.0
        while (at_s := at_s + random.expovariate(1 / 10.0)) < seconds:
            query = random.choice(QUERIES)
            what = "unregister_query" if query in queries else "register_query"
            queries ^= {query}
            steps.append(ScheduledStep(at_s, what, client.name, {"query": query}))
    return tuple(drawn)


def _draw_channels(
    random: Random, seconds: float, clients: tuple[ScheduledClient, ...], steps: list[ScheduledStep]
) -> tuple[ScheduledClient, ...]:
    """Half of the clients follow channels; publishers send messages, clients too."""
    followed = draw_followed(random, [client.name for client in clients])
    steps += [ScheduledStep(*drawn) for drawn in draw_steps(random, seconds, followed)]
    return tuple(replace(client, channels=followed.get(client.name, ())) for client in clients)


def _draw_mqtt(
    random: Random, seconds: float, number: int, kinds: Sequence[FaultKind], steps: list[ScheduledStep]
) -> tuple[ScheduledMqttDevice, ...]:
    """MQTT devices, and who publishes to them."""
    devices = mqtt_steps.draw_devices(random, number)
    for at_s, what, target, arguments in mqtt_steps.draw_steps(random, seconds, devices, BACKENDS):
        more = version_arguments(arguments["object"], 0, arguments["version"]) if what == "publish" else {}
        steps.append(ScheduledStep(at_s, what, target, {**arguments, **more}))
    steps += [ScheduledStep(*drawn) for drawn in mqtt_steps.draw_losses(random, seconds, devices, set(kinds))]
    return devices


def _draw_linked(
    random: Random,
    seconds: float,
    kinds: Sequence[FaultKind],
    clients: tuple[ScheduledClient, ...],
    steps: list[ScheduledStep],
) -> tuple[ScheduledClient, ...]:
    """Units whose clients share a connection; others ask how their objects are described, too."""
    linked = linked_steps.draw_clients(random, DOMAINS, GROUPS)
    steps += [ScheduledStep(*drawn) for drawn in linked_steps.draw_steps(random, seconds, linked)]
    losses = linked_steps.draw_losses(random, seconds, linked) if FaultKind.LINKED_KILLED in kinds else ()
    for at_s, back_s, unit, wiped in losses:
        kind = FaultKind.LINKED_KILLED.value
        steps.append(ScheduledStep(at_s, "fault", unit, {"kind": kind, "wiped": wiped}))
        steps.append(ScheduledStep(back_s, "heal", unit, {"kind": kind}))
    for client in random.sample(clients, len(clients) // 2):
        asks = {"query": random.choice(linked_steps.SHELF_QUERIES)}
        steps.append(ScheduledStep(random.uniform(0, 1.0), "register_query", client.name, asks))
    return tuple(
        ScheduledClient(
            one.name, one.unit, (), one.queries, tuple(Followed(pattern, "oldest", ()) for pattern in one.patterns)
        )
        for one in linked
    )
