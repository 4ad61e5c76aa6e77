"""The verdict: violations with their evidence, what could not be judged and why, statistics."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from coldnotify_checker.histories import Event, shown

Promise = Literal[
    "P1", "P2", "P3", "P4", "P5", "P6", "P8", "P9", "P10", "P11", "P12", "P13", "M1", "M2", "M3", "M4", "M5", "M8", "P7"
]  # fmt: skip
PROMISES: dict[Promise, str] = {
    "P1": "an acknowledged publish is not lost",
    "P2": "every connected client learns the newest, and a wake misses nothing",
    "P3": "versions do not go backwards",
    "P4": "only what was published is told, and once",
    "P5": "registrations survive",
    "P6": "an offline client costs nothing",
    "P8": "every message of a channel is told, in order and once, or it is told what is missed",
    "P9": "the members of a query are what the log says",
    "P10": "who is refused is above the agreement, is told so, and what was refused is nowhere",
    "P11": "who says how fresh it is has been told what was acknowledged before",
    "P12": "a publish with a condition is done at most once for a version, and a set as a whole or not at all",
    "P13": "every message of a share is done by one of its members, dead or missing, and nobody has what another has",
}
MQTT_PROMISES: dict[Promise, str] = {
    "M1": "what was acknowledged to an MQTT device is not lost",
    "M2": "a device has the newest retained payload, or the deletion, of each topic",
    "M3": "versions do not go back within a connection, and only what was not acknowledged is sent again",
    "M4": "a device is told only what was published",
    "M5": "a session is present exactly if its set is there",
    "M8": "every message is told, in order, or said to be missed",
    "P7": "the first PINGREQ of a connection is answered behind what the device lacked",
}
"""Those for MQTT devices: judged where a history has their lines."""
VIOLATIONS_MAX = 1000
"""Kept of each promise: a history that is wrong from its beginning on must not fill the memory. All are counted."""


@dataclass(frozen=True, slots=True)
class BrokenPromise:
    """A promise that was broken."""

    promise: Promise
    what: str
    evidence: tuple[str, ...] = ()
    """The lines concerned: "file:line: JSON"."""

    def __str__(self) -> str:
        return "\n".join([f"{self.promise}: {self.what}", *(f"    {line}" for line in self.evidence)])


@dataclass(slots=True)
class Statistics:
    """Counts of what the history contains."""

    publishes: int = 0
    acknowledged: int = 0
    failed: int = 0
    indeterminate: int = 0
    """Publishes without an answer, or with an unknown one."""
    refused: int = 0
    """Publishes that an agreement's limit did not let in; `failed` counts them, too."""
    decided: int = 0
    """Publishes with a condition, and members of sets, that were answered."""
    told: int = 0
    clients: int = 0
    wakes: int = 0
    """Times that a client reported to be caught up."""
    entered: int = 0
    """Members that applications were told to have entered a query."""
    left: int = 0
    sets: int = 0
    """Queries whose members were judged when their client reported to be caught up."""
    descriptions: int = 0
    """Members of these whose description, as told to the application, was judged then."""
    fresh: int = 0
    """Words of clients on how fresh they are."""
    ledger_looks: int = 0
    """Answers of the ledger that were judged."""
    sent: int = 0
    """Messages of channels that were acknowledged."""
    messages: int = 0
    """Messages that applications were told."""
    missed: dict[str, int] = field(default_factory=dict)
    """By reason, how often applications were told that messages may be missing."""
    shared_begun: int = 0
    """Callbacks of members of shares that have begun."""
    shared_settled: int = 0
    """Settlements of theirs that were answered to the application."""
    dead_letters: int = 0
    mqtt_told: int = 0
    """PUBLISH packets that MQTT devices were sent."""
    mqtt_acknowledged: int = 0
    """Publishes of MQTT devices that were acknowledged."""
    mqtt_wakes: int = 0
    """Connections whose first PINGREQ was answered in time to be judged."""
    wire: int = 0
    """Notification frames that a proxy saw."""
    wire_duplicates: int = 0
    """Those of them whose version had been sent to that client before."""
    faults: int = 0
    catch_up_s_max: float = 0.0
    """The longest time from a fault, or its end, until all awake clients had the newest versions of
    that moment, in s.
    """
    catch_ups_unfinished: int = 0
    """Versions after which an awake client was told neither the version nor a newer one."""

    def count_decided(self, *, answered: bool) -> None:
        """Adds a publish with a condition, or a member of a set, if it was answered."""
        self.decided += answered

    def count_shared(self, begun: int = 0, settled: int = 0, dead: int = 0) -> None:
        """Adds what members of shares did."""
        self.shared_begun += begun
        self.shared_settled += settled
        self.dead_letters += dead

    def count_mqtt(self, told: int = 0, acknowledged: int = 0, wakes: int = 0) -> None:
        """Adds packets and wakes of MQTT devices."""
        self.mqtt_told += told
        self.mqtt_acknowledged += acknowledged
        self.mqtt_wakes += wakes


@dataclass(slots=True)
class JudgeVerdict:
    """The result of `judge`."""

    violations: list[BrokenPromise] = field(default_factory=list)
    counts: dict[Promise, int] = field(default_factory=lambda: dict.fromkeys(PROMISES | MQTT_PROMISES, 0))
    """Violations by promise, also those beyond VIOLATIONS_MAX."""
    not_judged: dict[Promise, str] = field(default_factory=dict)
    """Why a promise could not be judged: what the history lacks, and how to get it."""
    judged_in_part: dict[Promise, str] = field(default_factory=dict)
    """By promise: the part that was judged, and what the rest needs."""
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def promises(self) -> dict[Promise, str]:
        """Returns the words of all promises that concern the history: those for MQTT devices only if it has some."""
        found = self.statistics
        has_devices = found.mqtt_told or found.mqtt_acknowledged or found.mqtt_wakes
        return PROMISES | MQTT_PROMISES if has_devices or any(map(self.counts.get, MQTT_PROMISES)) else PROMISES

    @property
    def clean(self) -> bool:
        """Returns true if the history shows no broken promise."""
        return not any(self.counts.values())

    def of(self, promise: Promise) -> list[BrokenPromise]:
        """The violations of one promise."""
        return [violation for violation in self.violations if violation.promise == promise]

    def add(self, promise: Promise, what: str, evidence: Iterable[Event | None] = ()) -> None:
        """One more violation."""
        self.counts[promise] += 1
        if self.counts[promise] <= VIOLATIONS_MAX:
            self.violations.append(BrokenPromise(promise, what, tuple(shown(event) for event in evidence if event)))

    def __str__(self) -> str:
        """Lists all violations, or says that there are none."""
        return "\n".join(map(str, self.violations)) if self.violations else "no violation"
