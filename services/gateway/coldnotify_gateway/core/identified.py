"""A session: a connection whose client said Hello. What the gateway knows of it."""

from sys import intern

from coldnotify_schemas.wire_pb2 import CAPABILITY_NAMES, Hello

from coldnotify_gateway.core.encoding import NONE
from coldnotify_gateway.core.limits import Limits
from coldnotify_gateway.core.pace import Pace
from coldnotify_gateway.core.partition import PartitionView
from coldnotify_gateway.core.states import TABLE, Event, State
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.unidentified import Unidentified

_SILENCE_FACTOR = 1.5
_SILENCE_EXTRA_S = 10.0
"""A session ends when nothing is heard for 1.5 times its keepalive and 10 s more: the protocol's numbers."""


class Identified:
    """One session. Registrations are not here: they are the matcher's.

    `complete` is what the client may believe while the session is not live; while it is, the partition's position
    counts too.
    """

    __slots__ = (
        "acked",
        "address",
        "agreed",
        "announced",
        "answer_due_s",
        "ask",
        "asked_s",
        "asked_times",
        "blocked",
        "check_wanted",
        "checking",
        "client",
        "complete",
        "connected_s",
        "domain",
        "doubted",
        "epoch",
        "frames",
        "group",
        "heard_s",
        "names",
        "number",
        "opened",
        "pace",
        "page_due",
        "page_sent",
        "peer",
        "register",
        "requested_s",
        "said",
        "silence_s",
        "state",
        "sync_began_s",
        "sync_chunks",
        "unanswered",
        "unregister",
        "view",
        "wait_due_s",
        "wake_s",
    )

    def __init__(
        self, before: Unidentified, hello: Hello, number: int, view: PartitionView, now_s: float, limits: Limits
    ) -> None:
        self.peer = before.peer
        self.address = before.address
        self.connected_s = before.connected_s
        self.frames = before.frames
        self.number = number
        self.view = view
        # A gateway's many clients are of few domains and groups: each name is there once.
        self.domain: str = intern(hello.domain)
        self.group: str = intern(hello.group)
        self.client: str = hello.client
        self.names = bool(hello.capabilities & CAPABILITY_NAMES)
        keepalive_s = min(hello.keepalive_s or limits.keepalive_default_s, limits.keepalive_max_s)
        self.silence_s = _SILENCE_FACTOR * keepalive_s + _SILENCE_EXTRA_S
        self.heard_s = now_s

        self.state = State.OPENING
        self.opened = False
        """An Opened has come: the epoch is known, acks count."""
        self.announced = False
        """The Open under way is an announcement: the client has had its Welcome and is not told another."""
        self.epoch: int | None = hello.epoch if hello.HasField("epoch") else None
        self.complete: int = hello.cursor if hello.HasField("epoch") and hello.HasField("cursor") else NONE
        self.acked: int = self.complete
        """What the client has applied: its Hello's cursor, and since then what it acknowledged."""
        self.blocked = False
        """The connection takes no more bytes for now."""

        self.register: tuple[str, ...] = tuple(hello.register)
        self.unregister: tuple[str, ...] = tuple(hello.unregister)
        """The Hello's pending operations, kept until the Opened."""
        self.said: int = hello.digest
        """The digest that the client said last."""
        self.agreed: int | None = None
        self.doubted = False
        """Another matcher has taken over since `agreed` was agreed, with what it found of the registrations."""
        self.check_wanted = False
        """`said` is of a Ping, differs from the agreed digest or that is doubted, and no operation came since."""
        self.checking = False
        """CheckDigest is the latest asking, and not answered."""

        self.ask = 0
        self.asked_s = now_s
        self.asked_times = 0
        """How often the same has been asked without an answer."""
        self.answer_due_s = NEVER_S
        self.wait_due_s = NEVER_S
        self.page_due = 0
        """The page that is to come next; 0: none is."""
        self.page_sent = 0
        """The page that the client is to acknowledge; 0: none is."""
        self.pace = Pace(limits.high_water_bytes)
        self.unanswered = 0
        self.requested_s = now_s
        self.sync_chunks = 0
        self.sync_began_s = now_s
        """SyncChunks passed on since then."""
        self.wake_s = NEVER_S

    @property
    def key(self) -> bytes:
        """Of the client's records in Kafka."""
        return f"{self.domain}/{self.group}/{self.client}".encode()

    def deadline_s(self) -> float:
        """When something about this session is due."""
        return min(self.heard_s + self.silence_s, self.answer_due_s, self.wait_due_s)

    def move(self, event: Event) -> None:
        """The table's step. Leaving LIVE, the session's `complete` is fixed where its partition stands."""
        before, after = self.state, TABLE[self.state][event]
        if before is State.LIVE and after is not State.LIVE:
            self.complete = self.complete_now
            self.view.leave_live(self.number)
        elif after is State.LIVE and before is not State.LIVE:
            self.view.enter_live(self.number, self.peer, names=self.names)
        self.state = after

    @property
    def complete_now(self) -> int:
        """What the client may believe: NONE, or an offset of its partition."""
        return max(self.complete, self.view.position) if self.state is State.LIVE else self.complete

    @property
    def welcomed(self) -> bool:
        """The client knows that it is in sync."""
        return self.announced if self.state is State.OPENING else self.state is not State.UNSYNCED

    def use_names(self) -> None:
        """From here on this session gets names instead of CRC-32s."""
        self.names = True
        if self.state is State.LIVE:
            self.view.enter_live(self.number, self.peer, names=True)

    def answered(self) -> None:
        """What was asked last is answered: nothing is waited for."""
        self.asked_times = 0
        self.answer_due_s = NEVER_S
        self.wait_due_s = NEVER_S
