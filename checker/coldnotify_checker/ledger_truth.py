"""P2 for the ledger: no client is reported to have applied a version whose callback has not returned, or has raised."""

from dataclasses import dataclass, field

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import (
    Connecting,
    Event,
    Forgotten,
    Ledger,
    Publish,
    Refused,
    Register,
    Started,
    Told,
    TopicLost,
    Unregister,
)
from coldnotify_checker.verdict import JudgeVerdict

Version = tuple[int, int]
"""(incarnation, version)."""


@dataclass(slots=True)
class _Place:
    """One client and one object."""

    registered: int | None = None
    """The time of its last registration; None: it is not registered."""
    told_since: int | None = None
    """When it was first told the object since then, which shows that the service knows the registration."""
    by_query: bool = False
    """True if it was told the object without a registration: what it is told then does not prove one."""
    taken: Version = (-1, -1)
    """The highest that a callback has taken, in all its lives."""
    last: Told | None = None

    def hear(self, told: Told) -> None:
        """Notes that the application is told something of the object."""
        self.last = told
        self.by_query |= self.registered is None


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
    _lives: dict[str, int] = field(default_factory=dict)
    _forgotten: set[str] = field(default_factory=set)
    """Clients that an operator has had forgotten, and that have not returned: until then the service may have sent them
    what they are told before it heard of the order.
    """
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
                    place.registered, place.told_since = event.t, None
            case Started():
                if self._lives.get(event.client, event.life) != event.life:
                    self._begin_life(event.client)
                self._lives[event.client] = event.life
            case Forgotten():
                self._doubt(event.client)
                self._forgotten.add(event.client)
            case Connecting():
                self._forgotten.discard(event.client)
            case TopicLost() if event.topic == self.names.registrations:
                self._doubt(None)
            case Unregister() | Refused():
                self._place(event.object, event.client).registered = None
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

    def _doubt(self, client: str | None) -> None:
        """The service may have forgotten this registration, until the client is told something. None: those of all
        clients.
        """
        for places in self._places.values():
            for name, place in places.items():
                if client is None or name == client:
                    place.told_since = None

    def _begin_life(self, client: str) -> None:
        """The client has lost its state, and with it what it wanted; its next Hello tells the service."""
        for places in self._places.values():
            if client in places:
                places[client].registered = None

    def _place(self, object_: str, client: str) -> _Place:
        return self._places.setdefault(object_, {}).setdefault(client, _Place())

    def _on_told(self, told: Told) -> None:
        place = self._place(told.object, told.client)
        place.hear(told)
        if place.told_since is None and told.client not in self._forgotten and not place.by_query:
            place.told_since = told.t
        if told.version is not None and not told.failed:
            # Where the application does not know the incarnation, it may be the highest of all.
            incarnation = (1 << 62) if told.incarnation is None else told.incarnation
            place.taken = max(place.taken, (incarnation, told.version))

    def _judge(self, look: Ledger) -> None:
        self.verdict.statistics.ledger_looks += 1
        lacking, sources = set(look.lacking), self._sources.get(look.object, set())
        wanted = look.incarnation, look.version
        for client, place in self._places.get(look.object, {}).items():
            known_for_long = place.told_since is not None and place.told_since + self.clock_skew_us < look.asked
            if place.registered is None or not known_for_long or client in lacking:
                continue
            if place.taken >= wanted or client.rpartition("/")[2] in sources:
                continue
            self.verdict.add(
                "P2",
                f"the ledger said that {client} has applied version {look.version} of {look.object}, "
                "and none of its callbacks had taken it",
                (look, place.last),
            )
