"""The state that the device keeps on disk: all that docs/protocol.md has a client store, as one JSON document."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

BEGINNING = -1
"""The position in front of a log's first offset."""


class RawInterest(NamedTuple):
    """Something to be registered for. `kind` is object, query or channel; a channel's text has its attributes."""

    kind: str
    text: str


def object_(name: str) -> RawInterest:
    """An object by its name."""
    return RawInterest("object", name)


def query(text: str) -> RawInterest:
    """All objects that fit."""
    return RawInterest("query", text)


def channel(text: str) -> RawInterest:
    """A channel, with its attributes."""
    return RawInterest("channel", text)


@dataclass(slots=True)
class QueryState:
    """One query that is wanted."""

    registered: bool = False
    """The service has had it."""
    described: bool = False
    """The application wants to know how the members are described."""
    members: list[str] = field(default_factory=list)
    """The members, as the application received them."""
    answer: list[str] | None = None
    """The part that has arrived of an incomplete answer."""
    reached: str = ""
    """The name up to which `answer` need not be sent again, as of `reached_at`."""
    reached_at: int = 0
    in_doubt: bool = False
    """It is registered again because not all differences were known, so the members' digest is sent."""


@dataclass(slots=True)
class ChannelState:
    """One channel that is wanted."""

    since: str = ""
    """Where it has to begin, until the service has reported the position: now, oldest, newest or time. "": the service
    has.
    """
    at: int = 0
    """With `time`: Unix time in ms."""
    position: int | None = None
    """The offset up to which everything is known, while it is pending. None: it is as far as the cursor."""
    told: int | None = None
    """The offset of this log that the application received last."""
    lost: bool = False
    """The application has yet to learn that the log is another one."""


@dataclass(slots=True)
class RawState:
    """All of it."""

    epoch: int | None = None
    cursor: int | None = None
    pending: dict[RawInterest, str] = field(default_factory=dict)
    """Operations that are not settled: register or unregister."""
    objects: set[str] = field(default_factory=set)
    """Those that are wanted by their names."""
    queries: dict[str, QueryState] = field(default_factory=dict)
    channels: dict[str, ChannelState] = field(default_factory=dict)
    floors: dict[str, tuple[int, int]] = field(default_factory=dict)
    """The highest (incarnation, version) that the application received, by object."""
    newest: dict[str, tuple[str, bool]] = field(default_factory=dict)
    """The payload of the version in `floors`, and whether the object is deleted, by object."""
    descriptions: dict[str, str] = field(default_factory=dict)
    """The description that the application received last, by object: JSON; "": the object has none."""
    again: set[str] = field(default_factory=set)
    """Objects that are delivered even if their version equals the one in `floors`, because they
    were registered again.
    """
    channels_epoch: int | None = None
    channels_cursor: int | None = None
    unsettled: bool = False
    """The service may believe that something is unsettled."""


class Disk(Protocol):
    """Stores the document."""

    def read(self) -> bytes | None:
        """Returns the document that was written last; None if there is none."""

    def write(self, data: bytes) -> None:
        """Replaces it. A crash leaves the old one or the new one."""


class FileDisk:
    """A file. It survives the end of the process, not a power cut: a test kills processes only."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> bytes | None:
        """See Disk."""
        return self._path.read_bytes() if self._path.exists() else None

    def write(self, data: bytes) -> None:
        """See Disk."""
        new = self._path.with_name(self._path.name + ".new")
        new.write_bytes(data)
        new.replace(self._path)


def encode(state: RawState) -> bytes:
    """The document."""
    said: dict[str, Any] = {
        "epoch": state.epoch,
        "cursor": state.cursor,
        "pending": [[*interest, operation] for interest, operation in state.pending.items()],
        "objects": sorted(state.objects),
        "queries": {text: asdict(one) for text, one in state.queries.items()},
        "channels": {text: asdict(one) for text, one in state.channels.items()},
        "floors": state.floors,
        "newest": state.newest,
        "descriptions": state.descriptions,
        "again": sorted(state.again),
        "channels_epoch": state.channels_epoch,
        "channels_cursor": state.channels_cursor,
        "unsettled": state.unsettled,
    }
    return json.dumps(said).encode()


def decode(data: bytes) -> RawState:
    """Parses a document. Raises ValueError, KeyError, TypeError if it is invalid."""
    said = json.loads(data)
    return RawState(
        epoch=said["epoch"],
        cursor=said["cursor"],
        pending={RawInterest(kind, text): operation for kind, text, operation in said["pending"]},
        objects=set(said["objects"]),
        queries={text: QueryState(**one) for text, one in said["queries"].items()},
        channels={text: ChannelState(**one) for text, one in said["channels"].items()},
        floors={name: (one[0], one[1]) for name, one in said["floors"].items()},
        newest={name: (one[0], one[1]) for name, one in said["newest"].items()},
        descriptions=said["descriptions"],
        again=set(said["again"]),
        channels_epoch=said["channels_epoch"],
        channels_cursor=said["channels_cursor"],
        unsettled=said["unsettled"],
    )
