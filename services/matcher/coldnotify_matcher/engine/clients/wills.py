"""Wills: what is published when a session ends otherwise than by its client's word. When, and whether, is decided here.

Each is published exactly once, whoever owns the partition:

- It becomes *owed*, and what it is published as is decided then: a version, or a message whose id names the session.
  That is durable before it is published, and a successor that finds it writes the same: a repeat, or stale.
- Who has decided waits until its claim, which it writes again behind the decision, has come back from the log. If
  another one has claimed the partition before, it reads that first, and gives up: a matcher that was only stopped
  publishes nothing.
- That one is over is remembered for a while: requests from before may be handled again, and must not bring it back. Its
  session is not let in again: its client connects again, and says what it is.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from coldnotify_schemas.arrival_versions import arrival_version
from coldnotify_schemas.internal_pb2 import WILL_DROP, WILL_WAIT
from coldnotify_schemas.internal_pb2 import Will as SaidWill
from coldnotify_schemas.message_places import MessagePlace

UNDECIDED = -1
BACK_S = 30
"""A client whose gateway was stopped is back within this time, and its will falls away."""
OVER_KEPT_MS = 300_000
"""Longer than a request can wait to be handled again after a crash, or a gateway can stand still."""
OWED_A_STEP_MAX = 1_000
"""All wills of a gateway that died are published within a minute."""
IsCurrent = Callable[[str, int, int], bool]
"""Returns true if the session of this client, gateway and number is known to go on."""


@dataclass(slots=True, eq=False)
class Will:
    """The will of one session."""

    gateway: int
    session: int
    begun_ms: int
    topic: str
    payload: bytes = b""
    retain: bool = False
    qos: int = 0
    delay_s: int = 0
    expiry_s: int | None = None
    """Seconds from when it was due until what is published expires; None: never."""
    properties: bytes = b""
    """Its properties for MQTT devices, encoded."""
    due_ms: int = 0
    """0: its session goes on."""
    waits: bool = False
    """It falls away if its client is back by then."""
    version: int = UNDECIDED
    """The version that it is published as; 0 for a message."""
    incarnation: int = 0
    """The version's."""
    doubled: bool = False
    """It is published as a message before it is as a version."""
    place: MessagePlace | None = None
    """The place of that message, once it has come back from the log."""

    def decide(self, version: int, incarnation: int) -> None:
        """Note what it is published as."""
        self.version, self.incarnation = version, incarnation

    def message_written(self, place: MessagePlace) -> None:
        """Note that its message is in the log."""
        self.place = place

    def wait(self, due_ms: int, *, waits: bool) -> None:
        """Note when it is due; 0: its session goes on. `waits`: it falls away if its client is back by then."""
        self.due_ms, self.waits = due_ms, waits

    def is_of(self, gateway: int, session: int) -> bool:
        """Returns true if it is this session's."""
        return (self.gateway, self.session) == (gateway, session)


@dataclass(slots=True, eq=False)
class ClientWills:
    """The wills of one client."""

    applied: int
    """Offset of the last request that concerns them."""
    now: Will | None = None
    """The will of its latest session; None: that has none, or it is over or owed."""
    owed: list[Will] = field(default_factory=list)
    """Wills of sessions before, which are to be published."""
    over_ms: int = 0
    """Time since which all are over; 0: they are not."""
    begun_ms: int = 0
    """Time at which the last one began."""

    def begin(self, will: Will, offset: int) -> None:
        """Begin the latest one, as the request at this offset says."""
        self.now, self.applied, self.over_ms, self.begun_ms = will, offset, 0, will.begun_ms

    def handles(self, offset: int) -> None:
        """Note that a request up to this offset concerns them."""
        self.applied = max(self.applied, offset)

    def take_now(self) -> Will | None:
        """Returns the latest one, which ends."""
        will, self.now = self.now, None
        return will

    def rest(self, now_ms: int) -> None:
        """Note that all are over."""
        self.over_ms = max(now_ms, 1)


# --- the rules


def seconds_to_wait(end: int, delay_s: int, expiry_s: int) -> int:
    """Returns how long after the end of its session a will is published. `end`: a WillEnd, but not WILL_DROP.

    `expiry_s`: what is kept of the client expires so long after it, and that ends the session for the client.
    """
    delay_s = min(delay_s, expiry_s)
    return max(BACK_S, delay_s) if end == WILL_WAIT else delay_s


def falls_away(will: Will, *, goes_on: bool) -> bool:
    """Returns true if a will is not published once its client has opened another session. `goes_on`: with what was
    kept, so that it is the same session for the client."""
    return will.waits or (goes_on and will.delay_s > 0)


def version_of(will: Will, newest: int) -> int:
    """Returns the version that it is published as, by arrival at the time at which it was due. `newest`: the object's
    newest version; below 0: there is none."""
    return arrival_version(newest, will.due_ms or will.begun_ms)


def expires_at_ms(will: Will) -> int | None:
    """Returns when what is published expires; None: never, as a deletion. It is the same whoever publishes it."""
    return None if will.expiry_s is None or not will.payload else (will.due_ms or will.begun_ms) + will.expiry_s * 1000


def message_id(will: Will) -> str:
    """Returns the id of the message that it is published as."""
    return f"will-{will.gateway:016x}-{will.session}"


# --- the wills of a partition


class Wills:
    """The wills of one partition, by the keys of their clients."""

    def __init__(self) -> None:
        self._of: dict[str, ClientWills] = {}
        self._due: list[tuple[int, int, str, Will | None]] = []
        """A heap of times, with what is due then; None: to be forgotten. What was changed since is passed over."""
        self._numbers = count()
        self.changed: dict[str, None] = {}
        """Clients whose record is to be written in this step."""
        self._decided: list[tuple[str, Will]] = []
        """Owed ones whose decision is durable with this step, or was before."""
        self._fenced: list[tuple[str, Will]] = []
        """Those of them that wait for our claim to come back."""
        self.ready: list[tuple[str, Will]] = []
        """Those that are published with this step."""
        self._messages: dict[str, tuple[str, Will]] = {}
        """Those whose message has not come back from the log, by its id."""
        self.written: frozenset[str] = frozenset()
        """Clients whose record is written in this step."""
        self.now_ms = 0
        """Unix time of the step."""
        self.handled = -1
        """Offset of the last request that was handled."""

    def __len__(self) -> int:
        return len(self._of)

    def of(self, key: str) -> ClientWills | None:
        """Returns the client's wills, also if all are over; None: nothing is known of any."""
        return self._of.get(key)

    def has(self, key: str) -> bool:
        """Returns true if the client's latest session has one that is not over."""
        ours = self._of.get(key)
        return ours is not None and ours.now is not None

    def shown(self, key: str) -> tuple[str | None, int | None]:
        """Returns the topic of the will of the client's latest session, and when it is due, Unix ms. None: it has none
        that is not over; it is not due while the session goes on."""
        ours = self._of.get(key)
        if ours is None or ours.now is None:
            return None, None
        return ours.now.topic, ours.now.due_ms or None

    def at(self, now_ms: int) -> None:
        """Note the time."""
        self.now_ms = now_ms

    def handles(self, offset: int) -> None:
        """Note the request that is being handled."""
        self.handled = offset

    # --- sessions

    def is_over(self, key: str, gateway: int, session: int) -> bool:
        """Returns true if a session that says that it has a will has none any more: it must not go on."""
        ours = self._of.get(key)
        return ours is None or ours.now is None or not ours.now.is_of(gateway, session)

    def begin(self, key: str, gateway: int, session: int, said: SaidWill | None, offset: int, *, goes_on: bool) -> None:
        """Begin a session at this offset, with or without a will. `goes_on`: see `falls_away`."""
        ours = self._of.get(key)
        if ours is not None:
            if ours.now is not None and ours.now.is_of(gateway, session):
                self.resume(key, gateway, session, offset)
                return
            if offset <= ours.applied:
                return  # it is handled again, and what came of it is known
            if ours.now is not None:
                self._end(key, ours, owed=not falls_away(ours.now, goes_on=goes_on))
        if said is None:
            return
        ours = self._of.setdefault(key, ClientWills(offset))
        will = Will(
            gateway,
            session,
            self.now_ms,
            said.topic,
            said.payload,
            retain=said.retain,
            qos=said.qos,
            delay_s=said.delay_s,
            expiry_s=said.expiry_s if said.HasField("expiry_s") else None,
            properties=said.properties,
            doubled=said.doubled,
        )
        ours.begin(will, offset)
        self.changed[key] = None

    def resume(self, key: str, gateway: int, session: int, offset: int) -> None:
        """Note that a session is announced at this offset: its will is not due."""
        ours = self._of.get(key)
        if ours is None or ours.now is None or not ours.now.is_of(gateway, session):
            return
        if ours.now.due_ms and offset >= ours.applied:
            ours.now.wait(0, waits=False)
            self.changed[key] = None

    def end(self, key: str, gateway: int, session: int, how: int, expiry_s: int) -> None:
        """End a session. `how`: a WillEnd. `expiry_s`: see `seconds_to_wait`."""
        ours = self._of.get(key)
        if ours is None or ours.now is None or not ours.now.is_of(gateway, session):
            return
        if how == WILL_DROP:
            self._end(key, ours, owed=False)
            return
        will = ours.now
        due_ms = self.now_ms + seconds_to_wait(how, will.delay_s, expiry_s) * 1000
        if will.due_ms and will.due_ms <= due_ms:
            return
        ours.handles(self.handled)
        self.changed[key] = None
        self._wait(key, will, due_ms, waits=how == WILL_WAIT)

    def expire(self, key: str) -> None:
        """Note that what was kept of a client is forgotten: its delayed will waits no longer."""
        ours = self._of.get(key)
        if ours is not None and ours.now is not None and ours.now.due_ms > self.now_ms and not ours.now.waits:
            self._wait(key, ours.now, self.now_ms, waits=False)
            self.changed[key] = None

    def _end(self, key: str, ours: ClientWills, *, owed: bool) -> None:
        """End the will of the latest session: it is owed, or it falls away."""
        will = ours.take_now()
        ours.handles(self.handled)
        self.changed[key] = None
        if owed and will is not None:
            will.wait(will.due_ms or self.now_ms, waits=False)
            ours.owed.append(will)
        self._look(key, ours)

    # --- loading

    def load(self, key: str, ours: ClientWills) -> None:
        """Load a client's, as a predecessor has stored them."""
        self._of[key] = ours

    def take_over(self, now_ms: int, is_current: IsCurrent) -> None:
        """Begin to own them. What is decided is published. `is_current`: see there."""
        self.now_ms = now_ms
        for key, ours in self._of.items():
            self.ready += [(key, will) for will in ours.owed]
            will = ours.now
            if will is None:
                self._push(key, None, min(ours.over_ms, now_ms) + OVER_KEPT_MS)
                continue
            longest_ms = max(BACK_S, will.delay_s) * 1000
            if will.due_ms:
                # Its time is another matcher's.
                self._wait(key, will, min(will.due_ms, now_ms + longest_ms), waits=will.waits)
            elif not is_current(key, will.gateway, will.session):
                # Its session's record is lost, or its Open is handled again.
                self._wait(key, will, now_ms + longest_ms, waits=True)

    # --- the step

    def fire(self, now_ms: int) -> None:
        """Have those owed whose time has come, and forget what is long over."""
        self.now_ms = now_ms
        fired = 0
        while self._due and self._due[0][0] <= now_ms and fired < OWED_A_STEP_MAX:
            due_ms, _, key, will = heappop(self._due)
            ours = self._of.get(key)
            if ours is None:
                continue
            if will is None:
                if ours.over_ms and due_ms >= ours.over_ms + OVER_KEPT_MS:
                    self._forget(key)
            elif ours.now is will and will.due_ms == due_ms:
                fired += 1
                self._end(key, ours, owed=True)

    def decided(self, key: str, will: Will) -> None:
        """Note that what an owed one is published as is written in this step."""
        self._decided.append((key, will))

    def drop(self, key: str, will: Will) -> None:
        """Note that an owed one is published, or cannot be."""
        ours = self._of.get(key)
        if ours is not None and will in ours.owed:
            ours.owed.remove(will)
            self._look(key, ours)

    def take_fence(self) -> bool:
        """Returns true if our claim is to be written again, behind the records of this step."""
        if self._fenced or not self._decided:
            return False
        self._fenced, self._decided = self._decided, []
        return True

    def pass_fence(self) -> None:
        """Note that our claim has come back: what was decided before it is published."""
        self.ready += self._fenced
        self._fenced = []

    def take_ready(self) -> list[tuple[str, Will]]:
        """Returns those that are published with this step."""
        taken, self.ready = self.ready, []
        return taken

    def await_message(self, key: str, will: Will) -> None:
        """Note that an owed one's message is written with this step: the version follows once it has come back."""
        self._messages[message_id(will)] = key, will

    def message_written(self, id_: str, place: MessagePlace) -> None:
        """Note that the message of this id is in the log: its version is published with this step."""
        found = self._messages.pop(id_, None)
        if found is not None:
            found[1].message_written(place)
            self.ready.append(found)

    def take_changed(self) -> dict[str, None]:
        """Returns the clients whose record is to be written."""
        taken, self.changed = self.changed, {}
        self.written = frozenset(taken)
        return taken

    def _look(self, key: str, ours: ClientWills) -> None:
        """See if all are over. That is remembered only if the Open of the last one may be handled again."""
        if ours.now is not None or ours.owed:
            return
        if self.now_ms - ours.begun_ms >= OVER_KEPT_MS:
            self._forget(key)
            return
        ours.rest(self.now_ms)
        self._push(key, None, ours.over_ms + OVER_KEPT_MS)

    def _forget(self, key: str) -> None:
        self._of.pop(key, None)
        self.changed[key] = None

    def _wait(self, key: str, will: Will, due_ms: int, *, waits: bool) -> None:
        will.wait(due_ms, waits=waits)
        self._push(key, will, due_ms)

    def _push(self, key: str, will: Will | None, due_ms: int) -> None:
        heappush(self._due, (due_ms, next(self._numbers), key, will))
