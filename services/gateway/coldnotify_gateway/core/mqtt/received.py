"""PUBLISHes of QoS 2 that an MQTT device has not released, by packet identifier.

The six steps of one: PUBLISH; the service holds the id or version that it becomes; its record is in Kafka; PUBREC;
PUBREL; the service holds it no more. Then PUBCOMP. A session that ends with its connection has messages held by nobody:
a PUBLISH of a former connection never comes again in it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas.internal_pb2 import Receive, Unreleased
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.wire_pb2 import Publish

from coldnotify_gateway.core.timers import NEVER_S

UNRELEASED_MAX = PUBLISHES_UNANSWERED_MAX
"""Most of a session that the service holds. The others wait."""
WAITING_MAX = 1000
"""Most publishes of a session that wait, because UNRELEASED_MAX are not released."""
WAITING_BYTES_MAX = 256 * 1024
"""Most bytes of the payloads of these."""


@dataclass(slots=True)
class Received:
    """One of them."""

    identifier: int
    id: str = ""
    """The message's; empty: it is a version alone."""
    object: str = ""
    """The name of the object that it is a version of; empty: it is a message."""
    version: int | None = None
    """The version's; None: the service has not given it."""
    placed: bool = False
    """It has one of the places of its session, and the service was asked to hold it."""
    held: bool = False
    """The service holds it."""
    request: int = 0
    """The publish that it is in this connection, while that is not answered; 0: none is under way."""
    written: bool = False
    """It is in Kafka, and PUBREC answers it."""
    releasing: bool = False
    """The service was asked to hold it no more."""
    refused: ReasonCode | None = None
    """The reason in its PUBREC, once the service holds it no more."""

    def begin(self, request: int) -> None:
        """Notes the publish that it is in this connection."""
        self.request = request

    def place(self) -> None:
        """Gives it one of the places."""
        self.placed = True

    def hold(self, version: int | None) -> None:
        """Notes that the service holds it, and has given it this version."""
        self.held, self.version = True, version

    def answer(self) -> None:
        """Notes that it is in Kafka, and that its PUBREC is sent."""
        self.request, self.written = 0, True

    def release(self) -> None:
        """Notes that the service was asked to hold it no more."""
        self.releasing = True

    def refuse(self, reason: ReasonCode) -> None:
        """Notes why it is never taken."""
        self.refused = reason

    def publish_of(self, publish: Publish) -> Publish:
        """Returns its publish with its id, or its version."""
        if self.version is None:
            publish.MergeFrom(Publish(id=self.id))
        else:
            publish.MergeFrom(Publish(version=self.version))
        return publish


@dataclass(slots=True)
class ReceivedPublishes:
    """All of one device, and its publishes that wait for them. Times are seconds of the core's clock."""

    entries: dict[int, Received] = field(default_factory=dict)
    waiting: deque[int] = field(default_factory=deque)
    """Requests that are not handed on, in the client's order: the first one waits for the service."""
    waiting_bytes: int = 0
    """Bytes of the payloads of these."""
    asks: dict[int, Receive] = field(default_factory=dict)
    """Requests to the service without an answer, by number."""
    repeat_s: float = NEVER_S
    """The time at which these are repeated."""
    _last_ask: int = 0

    @property
    def room(self) -> int:
        """Returns how many more have a place."""
        return UNRELEASED_MAX - sum(one.placed for one in self.entries.values())

    @property
    def overfull(self) -> bool:
        """Returns true if too much waits."""
        return max(len(self.waiting), len(self.entries)) > WAITING_MAX or self.waiting_bytes > WAITING_BYTES_MAX

    def begin(self, unreleased: Iterable[Unreleased]) -> None:
        """Takes over what the service holds of a former connection."""
        for one in unreleased:
            version = one.version if one.HasField("version") else None
            self.entries[one.identifier] = Received(
                one.identifier, one.id, one.object, version, placed=True, held=True, written=one.written
            )

    def wait(self, publish: Publish) -> None:
        """Adds a publish that is handed on later."""
        self.waiting.append(publish.request)
        self.waiting_bytes += len(publish.payload)

    def take(self, publish: Publish) -> None:
        """Removes the first one that waits."""
        self.waiting.popleft()
        self.waiting_bytes -= len(publish.payload)

    def ask(self, repeat_s: float, received: Iterable[Unreleased] = (), released: Iterable[int] = ()) -> Receive:
        """Returns a request to hold these, and to hold those no more. It is repeated at `repeat_s`."""
        self._last_ask += 1
        said = self.asks[self._last_ask] = Receive(received=received, released=released, ask=self._last_ask)
        self.repeat_s = min(self.repeat_s, repeat_s)
        return said

    def again(self, repeat_s: float) -> list[Receive]:
        """Returns the requests without an answer, which are repeated now, and at `repeat_s`."""
        self.repeat_s = repeat_s
        return list(self.asks.values())

    def answered(self, ask: int) -> Receive | None:
        """Returns the request that is answered; None: it was before."""
        found = self.asks.pop(ask, None)
        if not self.asks:
            self.repeat_s = NEVER_S
        return found

    def hold(self, said: Unreleased) -> None:
        """Notes that the service holds one."""
        one = self.entries.get(said.identifier)
        if one is not None:
            one.hold(said.version if said.HasField("version") else None)

    def answer(self, identifier: int, reason: ReasonCode) -> None:
        """Notes that a PUBREC with this reason is sent. One that says an error ends it."""
        if reason >= ReasonCode.UNSPECIFIED_ERROR:
            self.entries.pop(identifier, None)
        elif (one := self.entries.get(identifier)) is not None:
            one.answer()
