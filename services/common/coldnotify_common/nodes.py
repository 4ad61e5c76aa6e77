"""Nodes: the running processes of an installation, as their records in the nodes topic describe them. Pure.

Each node writes its record every RENEW_S under its own key, role/principal/id, and a null when it ends in order.
Records are of other processes, perhaps of another release or a stranger's: one that cannot be understood is passed over
and counted. A field that this release does not know is ignored.
"""

import re
from collections.abc import Mapping
from typing import Annotated, NamedTuple
from urllib.parse import quote, unquote

import msgspec
from coldnotify_schemas.host_port import parse_host_port
from coldnotify_schemas.records import name_the_field

RENEW_S = 5.0
"""Interval at which a node writes its record."""
SILENT_S = 30.0
"""A node whose record is so old counts no longer: it missed six."""
KEPT_S = 600.0
"""A silent node is shown for so long after its last record, so that operators see what died."""
NODES_MAX = 2_000
"""Limit on the nodes that a table holds, silent ones included: at most 16 MiB."""
NODE_BYTES_MAX = 8 * 1024
"""Limit on a record's value."""
ANONYMOUS = "anonymous"
"""The principal of a node whose Kafka does not authenticate it."""
DEVICE, WEB, INSIDE, HTTP = "device", "web", "inside", "http"
"""Names of addresses: a gateway's two for clients; the port for operators and other nodes; the HTTP service's."""
HTTPS = "https://"

_PRUNE_S = 60.0
_KEY_CHARS_MAX = 1024
_ENTRIES_MAX = 16
_NUMBER_MAX = 1_000_000_000
_SHOWN_CHARS_MAX = 80
_ROLE = re.compile(r"[a-z][a-z0-9_-]{0,31}", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9._:%-]{1,255}", re.ASCII)
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,62}", re.ASCII)

_Count = Annotated[int, msgspec.Meta(ge=0, le=_NUMBER_MAX)]
_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]


class InvalidNode(ValueError):
    """A record of a node that cannot be understood; the message begins with the field at fault."""


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A record: a node describes itself."""

    role: str
    """Name of its part: gateway, matcher, http, usage ..."""
    id: _Name
    addresses: dict[str, str] = {}
    """[https://]host:port by name: DEVICE, WEB, INSIDE, HTTP."""
    ready: bool = False
    connections: _Count = 0
    limit: _Count = 0
    """Connections that it takes; 0: it takes none, or does not say."""
    home: _Count = 0
    """Connections of clients whose home it is."""
    payload_bytes_max: _Count = 0
    """Its limit on a version's payload; 0: it has none, or does not say."""
    weight: Annotated[float, msgspec.Meta(ge=0, le=1000)] = 1.0
    """Its share of new clients, relative to others; 0: it is given none."""
    labels: dict[str, str] = {}
    load: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    """The part of one core that it used lately."""
    version: Annotated[str, msgspec.Meta(max_length=64)] = ""
    kafka_heard_s: Annotated[float, msgspec.Meta(ge=0, le=_NUMBER_MAX)] = 0.0
    """Seconds since Kafka last answered it."""


class NodeKey(NamedTuple):
    """The parsed key of a record."""

    role: str
    principal: str
    """Kafka's name of who writes, as the node knows it; ANONYMOUS without authentication."""
    id: str


class SeenNode(NamedTuple):
    """A node, and how old its record is."""

    key: NodeKey
    node: Node
    age_s: float

    @property
    def counts(self) -> bool:
        """Returns true unless its record is too old."""
        return self.age_s < SILENT_S


class _Entry(NamedTuple):
    node: Node
    at_ms: int
    heard_s: float


_decoder = msgspec.json.Decoder(Node)
_encoder = msgspec.json.Encoder()


def encode_key(key: NodeKey) -> bytes:
    """Returns the key of the node's record."""
    return "/".join(quote(part, safe="") for part in key).encode()


def parse_key(data: bytes | None) -> NodeKey:
    """Returns the parsed key of a record. Raises InvalidNode."""
    if data is None or len(data) > _KEY_CHARS_MAX:
        raise InvalidNode(f"key: is missing, or longer than {_KEY_CHARS_MAX} bytes")
    try:
        parts = [unquote(part, errors="strict") for part in data.decode("ascii").split("/")]
    except UnicodeDecodeError:
        raise InvalidNode(f"key: {_shown(data)} is not role/principal/id") from None
    if len(parts) != 3 or not all(parts) or encode_key(key := NodeKey(*parts)) != data:
        raise InvalidNode(f"key: {_shown(data)} is not role/principal/id")
    if not _ROLE.fullmatch(key.role) or not "".join(key).isprintable():
        raise InvalidNode(f"key: {_shown(data)} has no role, or cannot be printed")
    return key


def encode_node(node: Node) -> bytes:
    """Returns the value of the node's record. Raises InvalidNode."""
    value = _encoder.encode(node)
    parse_node(NodeKey(node.role, ANONYMOUS, node.id), value)
    return value


def parse_node(key: NodeKey, value: bytes) -> Node:
    """Returns the node in a record with this key. Raises InvalidNode."""
    if len(value) > NODE_BYTES_MAX:
        raise InvalidNode(f"record: has {len(value)} bytes (at most {NODE_BYTES_MAX} are allowed)")
    try:
        node = _decoder.decode(value)
    except msgspec.ValidationError as error:
        raise InvalidNode(name_the_field(str(error))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidNode(f"record: is not JSON: {error}") from None
    # A role writes its own keys only: a record that says otherwise is nobody's.
    if (node.role, node.id) != (key.role, key.id):
        raise InvalidNode(f"role, id: {node.role[:_SHOWN_CHARS_MAX]}, {node.id[:_SHOWN_CHARS_MAX]} are not the key's")
    if not node.version.isprintable():
        raise InvalidNode("version: cannot be printed")
    check_addresses("addresses", node.addresses)
    check_labels("labels", node.labels)
    return node


def check_addresses(field: str, addresses: Mapping[str, str]) -> None:
    """Checks addresses by their names. Raises InvalidNode, with the field."""
    _check_number(field, addresses)
    for name, address in addresses.items():
        if not _ROLE.fullmatch(name):
            raise InvalidNode(f"{field}: {name[:_SHOWN_CHARS_MAX]!r} is not the name of an address")
        try:
            host, _ = parse_host_port(address.removeprefix(HTTPS))
        except ValueError as error:
            raise InvalidNode(f"{field}: {name}: {address[:_SHOWN_CHARS_MAX]!r} {error}") from None
        if not _HOST.fullmatch(host):
            raise InvalidNode(f"{field}: {name}: {host[:_SHOWN_CHARS_MAX]!r} is not a host")


def check_labels(field: str, labels: Mapping[str, str]) -> None:
    """Checks labels: names as Prometheus allows them, values that can be printed. Raises InvalidNode, with the
    field."""
    _check_number(field, labels)
    for name, value in labels.items():
        if not _LABEL.fullmatch(name):
            raise InvalidNode(f"{field}: {name[:_SHOWN_CHARS_MAX]!r} is not a name (letters, digits, _; at most 63)")
        if len(value) > _SHOWN_CHARS_MAX or not value.isprintable():
            raise InvalidNode(f"{field}: {name}: its value is longer than {_SHOWN_CHARS_MAX}, or cannot be printed")


def _check_number(field: str, entries: Mapping[str, str]) -> None:
    if len(entries) > _ENTRIES_MAX:
        raise InvalidNode(f"{field}: has {len(entries)} entries (at most {_ENTRIES_MAX} are allowed)")


def _shown(data: bytes) -> str:
    return repr(data[:_SHOWN_CHARS_MAX].decode(errors="replace"))


class NodeTable:
    """The nodes of the records read so far, in the order of the topic.

    A record's age is counted up to the last record that was read: in time of the log, and in time of the reader, and
    the greater of the two counts. So nobody ages while Kafka is silent, and neither a clock that is wrong nor one that
    jumps makes a node younger. Times of the reader are of one clock, in s.
    """

    def __init__(self) -> None:
        self._entries: dict[NodeKey, _Entry] = {}
        self._last_ms = 0
        self._last_heard_s = 0.0
        self._pruned_s = 0.0
        self.passed_over = 0
        """Number of records passed over."""
        self.last_passed_over = ""
        """The reason for the last one."""

    def on_record(self, key: bytes | None, value: bytes | None, at_ms: int, heard_s: float) -> None:
        """Takes a record. `at_ms`: the time at which Kafka appended it; `heard_s`: the reader's time."""
        self._last_ms, self._last_heard_s = at_ms, heard_s
        if heard_s - self._pruned_s > _PRUNE_S:
            self._prune(heard_s)
        try:
            parsed = parse_key(key)
            if value is None:
                self._entries.pop(parsed, None)
                return
            node = parse_node(parsed, value)
        except InvalidNode as error:
            self.pass_over(str(error))
            return
        if parsed not in self._entries and len(self._entries) >= NODES_MAX:
            self._prune(heard_s, SILENT_S)
            if len(self._entries) >= NODES_MAX:
                self.pass_over(f"record: {NODES_MAX} nodes are known already")
                return
        self._entries[parsed] = _Entry(node, at_ms, heard_s)

    def pass_over(self, reason: str) -> None:
        """Counts a record that cannot be understood, or not even be read."""
        self.passed_over += 1
        self.last_passed_over = reason

    def seen(self, role: str = "") -> list[SeenNode]:
        """Returns the nodes of a role, or all of them, silent ones included, by their keys."""
        found = [SeenNode(key, one.node, self._age_s(one)) for key, one in self._entries.items()]
        return sorted(one for one in found if role in ("", one.key.role) and one.age_s < KEPT_S)

    def nodes(self, role: str = "") -> list[Node]:
        """Returns the nodes of a role, or all of them, that count."""
        return [one.node for one in self.seen(role) if one.counts]

    def _age_s(self, entry: _Entry) -> float:
        return max(0.0, (self._last_ms - entry.at_ms) / 1000, self._last_heard_s - entry.heard_s)

    def _prune(self, heard_s: float, older_s: float = KEPT_S) -> None:
        self._pruned_s = heard_s
        for key in [key for key, one in self._entries.items() if self._age_s(one) >= older_s]:
            del self._entries[key]
