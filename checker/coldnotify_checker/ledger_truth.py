"""P2 for the ledger: no client is reported to have applied a version whose callback has not returned, or has raised."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import (
    CaughtUp,
    Event,
    Forgotten,
    Ledger,
    Publish,
    Refused,
    Register,
    RegisterQuery,
    Started,
    Told,
    TopicLost,
    Unregister,
)
from coldnotify_checker.verdict import JudgeVerdict

UNNOTICED_US = 30_000_000
"""So long a lost registrations topic may go unnoticed: until then wakes are answered from memory, and it is the next
contact that finds out. A matcher looks every 5 s; it may be stopped meanwhile, or without Kafka."""

Version = tuple[int, int]
"""(incarnation, version)."""


@dataclass(slots=True)
class _Place:
    """One client and one object."""

    registered: int | None = None
    """The time of its last registration; None: it is not registered."""
    doubted: int = -1
    """A wake that begins until then does not show that the service knows the registration, as it may have lost it."""
    known_since: int | None = None
    """Since when the service surely knows the registration."""
    in_transit: bool = False
    """True if it may be told the object for another reason than this registration: an earlier one, or a query."""
    taken: Version = (-1, -1)
    """The highest that a callback has taken, in all its lives."""
    last: Told | None = None

    def unregister(self) -> None:
        """Notes that it is registered no more. What it is told from here on may have been sent before."""
        self.in_transit |= self.registered is not None
        self.registered = self.known_since = None

    def doubt(self, until: int) -> None:
        """Notes that the service may not know the registration until the client has come again behind that time."""
        self.doubted, self.known_since, self.in_transit = max(self.doubted, until), None, True


@dataclass(slots=True)
class LedgerLooks:
    """Follows the events, in their order, and judges the ledger's answers."""

    verdict: JudgeVerdict
    clock_skew_us: int
    names: TopicNames
    _places: dict[str, dict[str, _Place]] = field(default_factory=dict)
    """By object, then by client."""
    _sources: dict[str, set[str]] = field(default_factory=dict)
    """By object, the clients that have published it themselves: they are not told what they published."""
    _of_clients: dict[str, list[_Place]] = field(default_factory=dict)
    """The same places, by client."""
    _lives: dict[str, int] = field(default_factory=dict)
    _with_queries: set[str] = field(default_factory=set)
    """Clients that have registered a query. They may be told any object because of it."""
    _lost: set[str] = field(default_factory=set)
    """Topics that were recreated."""
    _looks: list[Ledger] = field(default_factory=list)
    """Answers to judge once all events are in that their clocks may date earlier."""

    def on_event(self, event: Event) -> None:
        """The next one."""
        while self._looks and event.t > self._looks[0].t + self.clock_skew_us:
            self._judge(self._looks.pop(0))
        match event:
            case Register():
                place = self._place(event.object, event.client)
                if place.registered is None:
                    place.registered = event.t
            case RegisterQuery():
                self._with_queries.add(event.client)
            case Started():
                if self._lives.get(event.client, event.life) != event.life:
                    self._begin_life(event.client)
                self._lives[event.client] = event.life
            case Forgotten():
                self._doubt([event.client], event.t + self.clock_skew_us)
            case TopicLost():
                self._on_lost(event)
            case CaughtUp():
                self._on_caught_up(event)
            case Unregister() | Refused():
                self._place(event.object, event.client).unregister()
            case Told():
                self._on_told(event)
            case Publish() if event.source:
                self._sources.setdefault(event.object, set()).add(event.source)
            case Ledger():
                self._looks.append(event)

    def finish(self) -> None:
        """Judges what is left, after the last event."""
        for look in self._looks:
            self._judge(look)
        self._looks.clear()

    def _on_lost(self, lost: TopicLost) -> None:
        """Notes a lost topic: registrations, or both others without which no record of a registration is believed."""
        self._lost.add(lost.topic)
        unbelieved = lost.topic in self._beside and self._beside <= self._lost
        if unbelieved or lost.topic == self.names.registrations:
            self._doubt(self._of_clients, lost.t + self.clock_skew_us + UNNOTICED_US)

    @property
    def _beside(self) -> set[str]:
        return {self.names.requests, self.names.sessions}

    def _doubt(self, clients: Iterable[str], until: int) -> None:
        for client in clients:
            for place in self._of_clients.get(client, ()):
                place.doubt(until)

    def _begin_life(self, client: str) -> None:
        """The client has lost its state, and with it what it wanted; its next Hello tells the service."""
        for place in self._of_clients.get(client, ()):
            place.unregister()

    def _place(self, object_: str, client: str) -> _Place:
        places = self._places.setdefault(object_, {})
        place = places.get(client)
        if place is None:
            place = places[client] = _Place()
            self._of_clients.setdefault(client, []).append(place)
        return place

    def _on_caught_up(self, event: CaughtUp) -> None:
        """Notes that the service has confirmed, in this wake, all that was registered before it."""
        for place in self._of_clients.get(event.client, ()):
            registered = place.registered is not None and place.registered < event.since
            if registered and place.known_since is None and place.doubted < event.since:
                place.known_since = event.t

    def _on_told(self, told: Told) -> None:
        place = self._place(told.object, told.client)
        place.last = told
        if place.registered is None:
            place.in_transit = True
        elif place.known_since is None and not place.in_transit and told.client not in self._with_queries:
            place.known_since = told.t
        if told.version is not None and not told.failed:
            # Where the application does not know the incarnation, it may be the highest of all.
            incarnation = (1 << 62) if told.incarnation is None else told.incarnation
            place.taken = max(place.taken, (incarnation, told.version))

    def _judge(self, look: Ledger) -> None:
        self.verdict.statistics.ledger_looks += 1
        lacking, sources = set(look.lacking), self._sources.get(look.object, set())
        wanted = look.incarnation, look.version
        for client, place in self._places.get(look.object, {}).items():
            known_for_long = place.known_since is not None and place.known_since + self.clock_skew_us < look.asked
            if not known_for_long or client in lacking:
                continue
            if place.taken >= wanted or client.rpartition("/")[2] in sources:
                continue
            self.verdict.add(
                "P2",
                f"the ledger said that {client} has applied version {look.version} of {look.object}, "
                "and none of its callbacks had taken it",
                (look, place.last),
            )
