"""Judges a history: takes events, returns a verdict; itself judges P1, P6, and the promises at the end (P2, P5, P9).
Pure.

The first pass takes in what was published and what the topics hold; the second follows the clients. After sorting, time
is linear in the events: a wake checks what was published or registered since the previous one, and so does a fault, for
each client. Memory grows with objects, clients and published versions.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from coldnotify_schemas.topics import DEFAULT_PREFIX, TopicNames

from coldnotify_checker.catching_up import CatchUps, beginnings
from coldnotify_checker.clients import CheckedClient, Clients
from coldnotify_checker.conditions_kept import judge_conditions
from coldnotify_checker.freshness import FreshClaims
from coldnotify_checker.histories import (
    Connecting,
    End,
    Event,
    Fault,
    Forgotten,
    Killed,
    MqttConnected,
    MqttDisconnected,
    Sleep,
    Stopped,
    Topic,
    TopicLost,
    in_order,
)
from coldnotify_checker.how_many import judge_how_many
from coldnotify_checker.ledger_truth import UNNOTICED_US, LedgerLooks
from coldnotify_checker.limits_kept import judge_agreements
from coldnotify_checker.memberships import CheckedMemberships
from coldnotify_checker.messages import CheckedMessages
from coldnotify_checker.messages_kept import judge_kept
from coldnotify_checker.mqtt.devices import MqttDevices
from coldnotify_checker.mqtt.topic_publishes import said_by_devices
from coldnotify_checker.publishes import CheckedPublishes, PublishCall
from coldnotify_checker.shares_kept import judge_shares
from coldnotify_checker.topic_contents import DumpedTopics, HeldVersion, merge
from coldnotify_checker.verdict import JudgeVerdict

OFFLINE_RECORDS_MAX = 8
"""State records a client may cost while it is away: that it left, its last acknowledgements, and what a change of
matcher or a dead gateway adds. Far fewer than are published meanwhile."""
_NEEDS_AN_END = "needs --at-rest: that nothing had been published for a while when the dump began"
_NAMED_MAX = 5
"""Objects that a violation names."""


def judge(
    events: Iterable[Event],
    *,
    clock_skew_s: float = 0.0,
    at_rest: bool = False,
    topics_prefix: str = DEFAULT_PREFIX,
) -> JudgeVerdict:
    """Returns the verdict on a history. `clock_skew_s`: the largest difference between the writers' clocks.

    `at_rest`: no line says `end`, but all was at rest when its dump began, or else at its last line. `topics_prefix`:
    that of the installation. Raises ValueError for one that cannot be.
    """
    names = TopicNames(topics_prefix)
    history = in_order(events)
    if at_rest and not any(isinstance(event, End) for event in history):
        history = _ended(history)
    verdict = JudgeVerdict()
    topics = merge(history, names)
    publishes = CheckedPublishes(history, verdict.statistics, topics.removed, names)
    catch_ups = CatchUps(publishes, verdict.statistics)
    skew_us = round(clock_skew_s * 1e6)
    memberships = CheckedMemberships(history, publishes, topics, verdict, skew_us)
    by_devices = said_by_devices(history)
    clients = Clients(publishes, topics, verdict, catch_ups, memberships, skew_us, by_devices)
    messages = CheckedMessages(history, verdict, names, by_devices)
    ledger = LedgerLooks(verdict, skew_us, names)
    fresh = FreshClaims(history, clients, memberships, messages, publishes, verdict, names, skew_us)
    devices = MqttDevices(history, publishes, topics, verdict, names, skew_us)
    faults = beginnings(history)
    end: End | None = None
    for position, event in enumerate(history):
        clients.on_event(event)
        messages.on_event(event)
        ledger.on_event(event)
        fresh.on_event(event)
        devices.on_event(event)
        verdict.statistics.faults += isinstance(event, Fault)
        if position in faults:
            for client in clients.by_name.values():
                if client.connected:
                    lacking = clients.lacking(client, event.t)
                    known = {object_: client.knows(object_) for object_ in lacking}
                    catch_ups.begin(client.name, lacking, known, event.t)
        if isinstance(event, End):
            end = event
            _judge_end(end, clients, publishes, memberships, topics, verdict, skew_us)
    catch_ups.finish()
    ledger.finish()
    devices.finish()
    verdict.statistics.clients = len(clients.by_name)
    _judge_lost(publishes, topics, verdict)
    memberships.judge_lost()
    judge_kept(history, verdict, names)
    judge_agreements(history, publishes, topics, verdict)
    judge_how_many(history, publishes, topics, verdict)
    judge_conditions(history, publishes, topics, verdict, skew_us)
    judge_shares(history, verdict, names, skew_us)
    if end is None:
        verdict.judged_in_part["P2"] = f"wakes only; who stays connected: {_NEEDS_AN_END}"
        verdict.not_judged["P5"] = _NEEDS_AN_END
    elif names.registrations not in topics.dumped:
        verdict.not_judged["P5"] = f"needs a dump of the topic {names.registrations}"
    if end is not None and names.registrations in topics.dumped:
        lost_at = max(
            (event.t for event in history if isinstance(event, TopicLost) and event.topic == names.registrations),
            default=0,
        )
        forgotten_at = {event.client: event.t for event in history if isinstance(event, Forgotten)}
        for name in clients.by_name.keys() - set(end.connected):
            lost_for_it_at = max(lost_at, forgotten_at.get(name, 0))
            _judge_kept(clients.of(name), memberships, topics, lost_for_it_at, verdict)
    if {names.registrations, names.sessions} <= topics.dumped.keys():
        for client in clients.by_name.values():
            _judge_offline(client, topics, verdict)
    else:
        verdict.not_judged["P6"] = f"needs a dump of the topics {names.registrations} and {names.sessions}"
    return verdict


def _ended(history: list[Event]) -> list[Event]:
    """Adds the missing `end`: it names the clients that began to connect and did not leave until then."""
    t = next((event.t for event in history if isinstance(event, Topic) and event.t), history[-1].t if history else 0)
    connected: dict[str, None] = {}
    for event in history:
        if event.t > t:
            break
        if isinstance(event, Connecting | MqttConnected):
            connected[event.client] = None
        elif isinstance(event, Stopped | Sleep | Killed | MqttDisconnected):
            connected.pop(event.client, None)
    return in_order([*history, End(t=t, connected=list(connected))])


def _judge_lost(publishes: CheckedPublishes, topics: DumpedTopics, verdict: JudgeVerdict) -> None:
    """P1: of every object, the topic holds the newest that was acknowledged, or a newer one."""
    names = topics.names
    dumped = topics.dumped.get(names.objects)
    if dumped is None:
        verdict.not_judged["P1"] = f"needs a dump of the topic {names.objects}"
        return
    for object_ in publishes.objects:
        call = publishes.newest(object_)
        if call is None:
            continue
        held = topics.newest.get(object_)
        if held is None or held.key < call.sure_key:
            there = f"version {held.key[1]} (incarnation {held.key[0]})" if held else "nothing"
            verdict.add(
                "P1",
                f"version {call.version} (incarnation {call.begun.incarnation}) of {object_} was acknowledged; "
                f"the newest in {names.objects} is {there}",
                (call.begun, call.answer, held.record if held else dumped),
            )


def _judge_end(
    end: End,
    clients: Clients,
    publishes: CheckedPublishes,
    memberships: CheckedMemberships,
    topics: DumpedTopics,
    verdict: JudgeVerdict,
    skew_us: int,
) -> None:
    """P2: a connected client knows the newest version of all it wants. P5: it is registered for just that. P9: it holds
    the right members.
    """
    for name in end.connected:
        client = clients.of(name)
        memberships.at_end(name, end)
        for object_, register in clients.wanted(client):
            owed = _newest(publishes.newest(object_), topics.newest.get(object_), end)
            if owed is None:
                continue
            key = owed.sure_key if isinstance(owed, PublishCall) else owed.key
            if client.caused(publishes, object_, key, end.t, skew_us):
                continue
            known = client.knows(object_)
            if known is None or known < key:
                proof = (owed.begun, owed.answer) if isinstance(owed, PublishCall) else (owed.record,)
                verdict.add(
                    "P2",
                    f"{name} is connected and was never told version {key[1]} (incarnation {key[0]}) of {object_}; "
                    f"it knows {'nothing' if known is None else f'version {known[1]} (incarnation {known[0]})'}",
                    (*proof, register, client.told[object_].last, end),
                )
        if topics.names.registrations in topics.dumped:
            _judge_registrations(client, memberships, topics, end, verdict)


def _newest(call: PublishCall | None, held: HeldVersion | None, end: End) -> PublishCall | HeldVersion | None:
    """Returns the newer one of the acknowledged version and the one in the topic when the history ended."""
    if held is None or held.record.timestamp * 1000 > end.t:
        return call
    return held if call is None or held.key > call.sure_key else call


def _judge_registrations(
    client: CheckedClient, memberships: CheckedMemberships, topics: DumpedTopics, end: End, verdict: JudgeVerdict
) -> None:
    queries = {text: held.register for text, held in memberships.held.get(client.name, {}).items()}
    asked: dict[str, Event] = {**client.wanted, **queries}
    registered = topics.registered.get(client.name, set()) | topics.queries.get(client.name, set())
    missing, extra = sorted(asked.keys() - registered), sorted(registered - asked.keys())
    if missing or extra:
        words = [
            f"{len(names)} {what}: {', '.join(names[:_NAMED_MAX])}"
            for what, names in (("missing", missing), ("too many", extra))
            if names
        ]
        verdict.add(
            "P5",
            f"the registrations of {client.name} are not what it wants; {'; '.join(words)}",
            (*(asked[name] for name in missing[:_NAMED_MAX]), *topics.buckets.get(client.name, ()), end),
        )


def _judge_kept(
    client: CheckedClient, memberships: CheckedMemberships, topics: DumpedTopics, lost_at: int, verdict: JudgeVerdict
) -> None:
    """P5: a client that is away is registered for what its last wake confirmed, unless that was lost since, for all or
    for this one, which an operator has had forgotten."""
    queries = {text: held.register for text, held in memberships.held.get(client.name, {}).items()}
    asked: dict[str, Event] = {**client.wanted, **queries}
    registered = topics.registered.get(client.name, set()) | topics.queries.get(client.name, set())
    missing = sorted(
        object_
        for object_, register in asked.items()
        if register.t < client.agreed and client.agreed > lost_at + UNNOTICED_US and object_ not in registered
    )
    if missing:
        verdict.add(
            "P5",
            f"{client.name} is away, and of what it was registered for is missing: {', '.join(missing[:_NAMED_MAX])}",
            (
                *(asked[name] for name in missing[:_NAMED_MAX]),
                *topics.buckets.get(client.name, ()),
                client.left,
            ),
        )


def _judge_offline(client: CheckedClient, topics: DumpedTopics, verdict: JudgeVerdict) -> None:
    """P6: from leaving to coming back, a client costs a few state records.

    Its last requests may be written after it left: each bucket of its registrations once.
    """
    records = topics.written_for.get(client.name, [])
    times_us = [record.timestamp * 1000 for record in records]
    absences = client.absences + ([(client.left, None)] if client.left else [])
    for left, back in absences:
        begin = bisect_right(times_us, left.t)
        written = records[begin : bisect_left(times_us, back.t) if back else len(records)]
        cost = len(written) - len({record.key for record in written if record.topic == topics.names.registrations})
        if cost > OFFLINE_RECORDS_MAX:
            verdict.add(
                "P6",
                f"{cost} state records were written for {client.name} while it was away",
                (left, *records[begin : begin + _NAMED_MAX], back),
            )
