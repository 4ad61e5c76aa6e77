"""For tests: records that nobody honest writes, for any of the topics. Pure: drawn by a seeded random generator.

Each begins as a valid record, with keys, gateways and sessions that there are or made-up ones, and is bent: in its
fields, in its bytes, in where and as what it is written. What is believable by itself and would tell honest clients
something wrong cannot be found out by anybody, and is not drawn: see `_Honest`.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from coldnotify_matcher.state_records import (
    Unreadable,
    generation_of,
    is_generation_key,
    parse_generation,
    parse_registrations,
    parse_session,
)
from coldnotify_schemas import internal_pb2, topics
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import GENERATION_KEY, generation_max
from coldnotify_schemas.names import InvalidName, parse_object_key
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.records import (
    MOVED_HEADER,
    PLACE_HEADER,
    REASON_HEADER,
    SINCE_HEADER,
    InvalidRecord,
    parse_public_record,
)
from coldnotify_streams.errors import NewerFormat
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

DOMAIN = "animal.observer"
WEIGHTS = {
    topics.OBJECTS: 25,
    topics.REQUESTS: 25,
    topics.REGISTRATIONS: 15,
    topics.SESSIONS: 15,
    topics.NOTIFICATIONS: 15,
    topics.REJECTED: 5,
}
"""How often a record is of each topic."""
HUGE_BYTES = 900_000
NESTED = 10_000

_HUGE_SHARE = 0.0003
"""Of values: a few are enough, and each is a megabyte in Kafka."""
_REAL_SESSION_SHARE = 0.05
"""Of requests: each costs an honest client some of its time."""
_DESCRIPTION_SHARE = 0.2
_DESCRIPTIONS = (
    "null", "{}", '{"Room": 410, "Kind": "lamp", "on": true}', '{"Location/Room": -0.0}', '{"9": 1}', '{"a": [1]}',
    '{"a": null}', '{"a": 1e999}', f'{{"a": "{"x" * 257}"}}',
    "{" + ",".join(f'"k{number}": {number}' for number in range(65)) + "}",
)  # fmt: skip
_OUTBIDDING_SHARE = 0.02
"""Of records that say that the partition has a new owner: each is believed, and costs its matcher a load of it."""
_READ_WITHIN_MS = 3_600_000
"""A record is read again for so long after it was drawn, while a test goes on."""
_MADE_UP = 200
"""So many made-up clients, gateways and objects: a fuzzer of records is no test of memory."""
_BELIEVABLE_BELOW = 1 << 31
"""No offset of a test is so high, and no asking of a session."""

NUMBERS = (
    -1, 0, 1, 2, 63, 64, 65, 10_001, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 53, (1 << 53) + 1,
    1 << 62, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64,
)  # fmt: skip
TEXTS = (
    "", " ", "\0", "a/b", "a/b/c/d", "@generation", "..", "%s%n", "\ud800", "\udfff\ud800", "\ufeff", "x" * 64,
    "x" * 65, "x" * 255, "x" * 256, "ü", "\U0001f9ca" * 64, "0", "null", "look." + "0" * 24, "coldnotify.objects",
)  # fmt: skip
_RAW = (
    "1" + "0" * 400, "-1" + "0" * 400, "1e400", "-1e400", "1e3", "1.5", "0.0", "-0", "NaN", "Infinity", "-Infinity",
    "01", "0x10", "null", "true", "false", "[]", "{}", "[null]", "[[1]]", '{"a":1,"a":2}', '["a","a"]', '"\\u0000"',
    '"\\ud800"', '"\\udc00\\ud800"', '"\\x"', '"', "", "'a'", "\x00", "1,", "/**/1",
)  # fmt: skip
"""Values as JSON says them, and does not."""
_COMES_BACK = (0, 1, 2, 3, 4, int(CloseCode.UNKNOWN_SESSION), int(CloseCode.HANDSHAKE_TIMEOUT), 9, 63)
"""Codes of a Closed after which a client comes back soon."""


Headers = list[tuple[str, str | bytes | None]]
"""As librdkafka takes them."""


class Hostile(NamedTuple):
    """A record to be written."""

    topic: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int
    """0: as of now."""


class Session(NamedTuple):
    """A session of an honest client."""

    gateway: int
    inbox: int
    partition: int
    number: int
    group: str
    client: str


class Known(NamedTuple):
    """What an attacker who reads all topics knows."""

    partitions: int
    inboxes: int
    groups: Sequence[str]
    """Of DOMAIN; in each are the same clients and objects."""
    clients: Sequence[str]
    objects: Sequence[str]
    now_ms: int
    requests_topic_id: str = ""
    gateways: Mapping[int, int] = {}
    """Their inboxes, by id."""
    sessions: Sequence[Session] = ()
    generations: Mapping[int, int] = {}
    """By partition."""
    numbers: Mapping[tuple[int, int], int] = {}
    """By gateway and partition, the number of the last inbox record."""


class Generator:
    """Draws records."""

    def __init__(self, seed: int, only: Sequence[str] = tuple(WEIGHTS), *, newer_format: bool = False) -> None:
        """`only`: these topics. `newer_format`: state records of a later release too, whose partitions stand still."""
        self._random = random.Random(seed)
        self._topics = [topic for topic in WEIGHTS if topic in only]
        self._weights = [WEIGHTS[topic] for topic in self._topics]
        self._newer_format = newer_format
        self._bodies: dict[str, Callable[[Known], tuple[int, bytes | None, bytes | None]]] = {
            topics.OBJECTS: self._object,
            topics.REQUESTS: self._request,
            topics.REGISTRATIONS: self._registrations,
            topics.SESSIONS: self._session,
            topics.NOTIFICATIONS: self._inbox,
            topics.REJECTED: self._rejected,
        }

    def record(self, known: Known) -> Hostile:
        """The next one."""
        draw = self._random
        (topic,) = draw.choices(self._topics, self._weights)
        partition, key, value = self._bodies[topic](known)
        key, value = self._tamed(topic, key, value, known)
        if draw.random() < 0.05 and topic not in (topics.NOTIFICATIONS, topics.REJECTED):
            partition = draw.randrange(known.partitions)
        timestamp_ms = draw.choice(self._timestamps(known.now_ms)) if draw.random() < 0.02 else 0
        return Hostile(topic, partition, key, value, self._headers(), timestamp_ms)

    # ---- what honest clients rest on ---------------------------------------------------------------------------

    def _tamed(
        self, topic: str, key: bytes | None, value: bytes | None, known: Known
    ) -> tuple[bytes | None, bytes | None]:
        """The same, but for what would have to be believed."""
        if value is None:
            return key, value
        honest = _Honest(known)
        if topic == topics.OBJECTS and honest.would_publish(key, value):
            return f"{DOMAIN}/{self._group(known)}/{self._made_up('object')}".encode(), value
        if topic in (topics.REGISTRATIONS, topics.SESSIONS):
            if not self._newer_format and _is_newer(value, known.now_ms):
                return key, value[:-1]
            if honest.would_register(topic, key, value):
                return f"{DOMAIN}/{self._group(known)}/{self._made_up('client')}".encode(), value
            if honest.would_restart(key, value):
                return key, value[:-1]
            if honest.would_outbid(key, value) and self._random.random() > _OUTBIDDING_SHARE:
                return key, value[:-1]
        if topic == topics.REQUESTS and honest.would_displace(value):
            return key, value[:-1]
        if topic == topics.NOTIFICATIONS and honest.would_mislead(value):
            return key, None
        if honest.would_succeed(topic, value) and self._random.random() > _OUTBIDDING_SHARE:
            return key, value[:-1]
        return key, value

    # ---- each topic --------------------------------------------------------------------------------------------

    def _object(self, known: Known) -> tuple[int, bytes | None, bytes | None]:
        draw, group = self._random, self._group(known)
        name = draw.choice([self._made_up("object"), draw.choice(known.objects)])
        if draw.random() < _DESCRIPTION_SHARE:
            said = {"description": draw.choice(_DESCRIPTIONS)}
            return self._home(known, group), self._key(f"{KEY_PREFIX}{DOMAIN}/{group}/{name}"), self._json(said)
        fields = {
            "version": str(draw.choice((0, 1, 5, draw.randrange(1 << 40)))),
            "source": f'"{draw.choice(known.clients)}"',
            "payload": draw.choice(('{"a": [1, null]}', "7", '"x"')),
            "expires_at": str(draw.choice((1, known.now_ms + 60_000))),
            "deleted": draw.choice(("true", "false")),
            "incarnation": str(draw.choice((0, 1, 2))),
        }
        some = {field: fields[field] for field in draw.sample(list(fields), draw.randint(0, len(fields)))}
        key = self._key(f"{DOMAIN}/{group}/{name}")
        return self._home(known, group), key, self._json(some)

    def _registrations(self, known: Known) -> tuple[int, bytes | None, bytes | None]:
        draw, group = self._random, self._group(known)
        bucket = draw.choice((0, 0, 0, 1, 2, 9_999, *NUMBERS))
        objects = [self._made_up("object") for _ in range(draw.choice((0, 1, 3, 64, 65)))]
        fields = {
            "format": "1",
            "generation": str(self._generation(known, self._home(known, group))),
            "applied": str(draw.choice((-1, 0, 1, 1000))),
            "objects": "[" + ",".join(f'"{name}"' for name in objects) + "]",
        }
        return self._home(known, group), self._key(f"{self._client_key(known, group)}/{bucket}"), self._json(fields)

    def _session(self, known: Known) -> tuple[int, bytes | None, bytes | None]:
        draw, group = self._random, self._group(known)
        home = self._home(known, group)
        common = {"format": "1", "generation": str(self._generation(known, home))}
        if draw.random() < 0.2:
            topic_id = f'"{known.requests_topic_id}"'
            claim = {"owner": '"matcher-9:0badcafe"', "requests_topic_id": topic_id, "epoch": "7"}
            if draw.random() < 0.5:
                claim["requests_since"] = str(draw.choice(NUMBERS))
            return home, self._key(GENERATION_KEY), self._json(common | claim)
        gateway = draw.choice([*known.gateways, draw.getrandbits(64)])
        fields = {
            "applied": str(draw.choice((-1, 0, 1, 1000))),
            "online": draw.choice(("true", "false")),
            "gateway": f'"{gateway:016x}"',
            "inbox": str(draw.randrange(known.inboxes)),
            "session": str(draw.choice((1, 2, (1 << 32) - 1))),
            "epoch": str(draw.getrandbits(32)),
            "cursor": str(draw.choice((-1, 0, 5))),
            "last_seen": str(known.now_ms - draw.randrange(1 << 40)),
        }
        return home, self._key(self._client_key(known, group)), self._json(common | fields)

    def _request(self, known: Known) -> tuple[int, bytes | None, bytes | None]:
        draw, group = self._random, self._group(known)
        gateway = self._gateway(known)
        request = internal_pb2.Request(
            format=1,
            gateway=gateway,
            inbox=known.gateways.get(gateway, draw.randrange(known.inboxes)),
            session=draw.randint(1, _MADE_UP),
            domain=DOMAIN,
            group=group,
            client=self._made_up("client"),
        )
        if known.sessions and draw.random() < _REAL_SESSION_SHARE:
            real = draw.choice(known.sessions)
            request.gateway, request.inbox, request.session = real.gateway, real.inbox, real.number
            request.group, request.client, group = real.group, real.client, real.group
        kinds = _fields(internal_pb2.Request.DESCRIPTOR.oneofs_by_name["body"])
        body = getattr(request, draw.choice(kinds).name)
        body.SetInParent()
        self._fill(body, 0.5, known)
        if request.WhichOneof("body") == "acks" and draw.random() < 0.7:
            del request.acks.completes[len(request.acks.sessions) :]
            request.acks.completes.extend(0 for _ in range(len(request.acks.sessions) - len(request.acks.completes)))
        if draw.random() < 0.3:
            self._bend(request, known)
        return self._home(known, group), None, self._bytes_bent(request.SerializeToString())

    def _inbox(self, known: Known) -> tuple[int, bytes | None, bytes | None]:
        draw = self._random
        gateway = draw.choice([*known.gateways, *known.gateways, 0, draw.getrandbits(64)])
        partition = draw.choice([*(one.partition for one in known.sessions), draw.randrange(known.partitions)])
        last = known.numbers.get((gateway, partition), 0)
        inbox = internal_pb2.Inbox(
            format=1,
            partition=partition,
            generation=draw.choice((known.generations.get(partition, 1),) * 4 + (self._later(known, partition),)),
            gateway=gateway,
            number=draw.choice((last + 1, last, last + 2, 0, 1, self._number(64))) % (1 << 64),
        )
        for _ in range(draw.choice((0, 1, 1, 2, 5))):
            self._item(inbox.items.add(), known)
        if draw.random() < 0.2:
            self._bend(inbox, known)
        where = known.gateways.get(gateway, draw.randrange(known.inboxes))
        return where, draw.choice((None, b"key")), self._bytes_bent(inbox.SerializeToString())

    def _item(self, item: internal_pb2.Item, known: Known) -> None:
        draw = self._random
        kind = draw.choice(_fields(internal_pb2.Item.DESCRIPTOR.oneofs_by_name["item"]))
        body = getattr(item, kind.name)
        body.SetInParent()
        self._fill(body, 0.6, known)
        if known.sessions and draw.random() < 0.7:
            number = draw.choice(known.sessions).number
            if isinstance(body, internal_pb2.FanOut | internal_pb2.ChannelFanOut):
                body.sessions = number.to_bytes(4, "little") * draw.choice((1, 2, 100)) + b"\1" * draw.choice(
                    (0, 0, 1, 3)
                )
            elif isinstance(body, internal_pb2.Closed):
                body.session = number
                body.code = draw.choice(_COMES_BACK)
            elif not isinstance(body, internal_pb2.BeatAnswer):
                body.session = number

    def _rejected(self, known: Known) -> tuple[int, bytes | None, bytes | None]:
        topic = self._random.choice((topics.OBJECTS, topics.SESSIONS, topics.REQUESTS))
        _, key, value = self._bodies[topic](known)
        return self._random.randrange(2), key, value

    # ---- names and numbers -------------------------------------------------------------------------------------

    def _group(self, known: Known) -> str:
        return self._random.choice(known.groups)

    def _home(self, known: Known, group: str) -> int:
        return partition_of(DOMAIN, group, known.partitions)

    def _made_up(self, what: str) -> str:
        return f"hostile-{what}-{self._random.randrange(_MADE_UP)}"

    def _gateway(self, known: Known) -> int:
        draw = self._random
        return draw.choice([*known.gateways, *(0xBAD0000000000000 + draw.randrange(20) for _ in range(4))])

    def _client_key(self, known: Known, group: str) -> str:
        return f"{DOMAIN}/{group}/{self._random.choice([self._made_up('client'), self._random.choice(known.clients)])}"

    def _generation(self, known: Known, partition: int) -> int:
        present = known.generations.get(partition, 1)
        most = generation_max(known.now_ms)
        return self._random.choice((0, 1, present - 1, present, present + 1, most, most + 1, most + 10**6, *NUMBERS))

    def _later(self, known: Known, partition: int) -> int:
        """A generation as protobuf can say it."""
        return max(0, self._generation(known, partition)) % (1 << 64)

    def _number(self, bits: int) -> int:
        return self._random.choice([number for number in NUMBERS if 0 <= number < 1 << bits])

    def _timestamps(self, now_ms: int) -> tuple[int, ...]:
        day_ms = 86_400_000
        return 1, now_ms - 400 * day_ms, now_ms + 1_000, now_ms + 4_000 * day_ms, 1 << 53, 1 << 62, (1 << 63) - 1

    def _key(self, key: str) -> bytes | None:
        draw = self._random
        if draw.random() > 0.1:
            return key.encode()
        domain, _, rest = key.partition("/")
        bent = (
            None, b"", b"/", b"//", b"///", b"\xff\xfe", b"@generation", b"@generation/0", b"@/@/@generation",
            b"a/b/c/d", key.encode()[:-1], b"/" + key.encode(), key.encode() + b"/", key.encode() + b"\0",
            key.upper().encode(), key.encode().replace(b"/", b"\xc0\xaf"), f"{domain}//{rest}".encode(),
            key.encode() * 1000, key.encode("utf-16"),
        )  # fmt: skip
        return draw.choice(bent)

    def _text(self) -> str:
        draw = self._random
        if draw.random() < _HUGE_SHARE:
            return "x" * HUGE_BYTES
        return draw.choice([draw.choice(TEXTS), self._made_up("object")])

    def _headers(self) -> Headers:
        draw = self._random
        if draw.random() < 0.6:
            return []
        names = (MOVED_HEADER, SINCE_HEADER, REASON_HEADER, PLACE_HEADER, "traceparent", "tracestate", "", "\0", "ü")
        values: tuple[bytes | None, ...] = (
            None, b"", b"\xff\xfe", b"0/0", b"00000000/18446744073709551616", b"7@9", b"-1@-1", b"@",
            b"x" * 5000, b"1" * 400, b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", b"00-zz-zz-zz",
            b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01",
        )  # fmt: skip
        return [(draw.choice(names), draw.choice(values)) for _ in range(draw.randint(1, 3))]

    # ---- JSON --------------------------------------------------------------------------------------------------

    def _json(self, fields: Mapping[str, str]) -> bytes | None:
        """The document, bent in some fields, then perhaps in its bytes."""
        draw = self._random
        if draw.random() < 0.05:
            return None
        pairs = [(f'"{name}"', value) for name, value in fields.items()]
        for _ in range(draw.choice((0, 0, 1, 1, 1, 2, 3))):
            at = draw.randrange(len(pairs)) if pairs else 0
            match draw.randrange(6):
                case 0 | 1 | 2 if pairs:
                    pairs[at] = pairs[at][0], self._json_value()
                case 3 if pairs:
                    del pairs[at]
                case 4 if pairs:
                    pairs.insert(draw.randint(0, len(pairs)), (pairs[at][0], self._json_value()))
                case _:
                    pairs.append(
                        (draw.choice(('"more"', '""', '"\\ud800"', "7", "null", '"format"')), self._json_value())
                    )
        text = "{" + ",".join(f"{name}:{value}" for name, value in pairs) + "}"
        return self._bytes_bent(text.encode(errors="replace"))

    def _json_value(self) -> str:
        draw = self._random
        if draw.random() < _HUGE_SHARE:
            return f'"{"x" * HUGE_BYTES}"'
        if draw.random() < 0.01:
            return draw.choice(("[" * NESTED + "]" * NESTED, '{"a":' * NESTED + "1" + "}" * NESTED, "[" * NESTED))
        text = draw.choice(TEXTS).encode(errors="backslashreplace").decode()
        return draw.choice((str(draw.choice(NUMBERS)), f'"{text}"', draw.choice(_RAW)))

    def _bytes_bent(self, value: bytes) -> bytes | None:
        draw = self._random
        if draw.random() > 0.15:
            return value
        at = draw.randint(0, len(value))
        match draw.randrange(9):
            case 0:
                return None
            case 1:
                return value[:at]
            case 2:
                return draw.randbytes(draw.choice((0, 1, 2, 16, 200)))
            case 3:
                return value[:at] + draw.randbytes(draw.randint(1, 4)) + value[at:]
            case 4:
                return value[:at] + draw.randbytes(1) + value[at + 1 :]
            case 5:
                return value + value
            case 6:
                return b"\xef\xbb\xbf" + value
            case 7:
                return b"[" + value + b"]"
            case _:
                return value + b"\0"

    # ---- protobuf ----------------------------------------------------------------------------------------------

    def _fill(self, message: Message, share: float, known: Known, depth: int = 0) -> None:
        """Give this share of its fields hostile values."""
        for field in _fields(message.DESCRIPTOR):
            if self._random.random() < share:
                self._set(message, field, known, depth)

    def _bend(self, message: Message, known: Known) -> None:
        """Give one field a hostile value, or take it away."""
        field = self._random.choice(_fields(message.DESCRIPTOR))
        if self._random.random() < 0.2:
            message.ClearField(field.name)
        else:
            self._set(message, field, known, 0)

    def _set(self, message: Message, field: FieldDescriptor, known: Known, depth: int) -> None:
        draw = self._random
        if field.message_type is not None:
            if depth > 3:
                return
            inner = getattr(message, field.name)
            if not field.is_repeated:
                inner.SetInParent()
                self._fill(inner, 0.7, known, depth + 1)
                return
            for _ in range(draw.choice((0, 1, 2, 65))):
                self._fill(inner.add(), 0.7, known, depth + 1)
            return
        values = [self._scalar(field) for _ in range(draw.choice((0, 1, 2, 64, 65)) if field.is_repeated else 1)]
        if field.is_repeated:
            getattr(message, field.name).extend(values)
        else:
            setattr(message, field.name, values[0])

    def _scalar(self, field: FieldDescriptor) -> Any:
        draw = self._random
        match field.cpp_type:
            case FieldDescriptor.CPPTYPE_BOOL:
                return draw.random() < 0.5
            case FieldDescriptor.CPPTYPE_ENUM:
                return draw.choice((0, 1, 2, 3, 4, 5, 77))
            case FieldDescriptor.CPPTYPE_UINT32:
                return self._number(32)
            case FieldDescriptor.CPPTYPE_UINT64:
                return self._number(64)
            case _ if field.type == FieldDescriptor.TYPE_BYTES:
                return draw.choice((b"", b"\0", b"{", b'{"a": 1}', b"\xff" * 7, b"x" * 5000))
            case _:
                return self._text().encode(errors="replace").decode()


class _Honest:
    """What honest clients rest on: records that say it as its writer would are not to be told from that writer's."""

    def __init__(self, known: Known) -> None:
        self._known = known
        # What is of the future when it is written may not be any more when it is read.
        self._now_ms = known.now_ms + _READ_WITHIN_MS
        self._numbers = {one.number for one in known.sessions}

    def would_publish(self, key: bytes | None, value: bytes) -> bool:
        """Whether it is a version of an honest object that may be newer than what its publisher says."""
        try:
            named = parse_object_key(key)
            record = parse_public_record(value)
        except (InvalidName, InvalidRecord):
            return False
        honest = named.domain == DOMAIN and named.object in self._known.objects
        return honest and (record.version != 0 or bool(record.incarnation))

    def would_register(self, topic: str, key: bytes | None, value: bytes) -> bool:
        """Whether it is a whole record of an honest client's state."""
        parts = (key or b"").decode(errors="replace").split("/")
        if len(parts) < 3 or parts[2] not in self._known.clients:
            return False
        try:
            if topic == topics.SESSIONS:
                parse_session(value, self._now_ms, inboxes=self._known.inboxes)
            else:
                parse_registrations(value, self._now_ms)
        except (Unreadable, NewerFormat):
            return False
        return True

    def would_restart(self, key: bytes | None, value: bytes) -> bool:
        """Whether it is a claim that says that the requests topic was made anew.

        Whoever takes over next handles all requests again. The Opens of long ago displace the sessions of today.
        """
        if not is_generation_key(key):
            return False
        try:
            claimed = parse_generation(value, self._now_ms)
        except (Unreadable, NewerFormat):
            return False
        return claimed.requests_topic_id != self._known.requests_topic_id

    def would_outbid(self, key: bytes | None, value: bytes) -> bool:
        """Whether it is a claim that the partition's owner must give way to."""
        if not is_generation_key(key):
            return False
        try:
            return parse_generation(value, self._now_ms).generation > 0
        except (Unreadable, NewerFormat):
            return False

    def would_displace(self, value: bytes) -> bool:
        """Whether it opens a session of an honest client, whose own ends by that."""
        try:
            request = internal_pb2.Request.FromString(value)
        except DecodeError:
            return False
        return request.HasField("open") and request.client in self._known.clients

    def would_succeed(self, topic: str, value: bytes) -> bool:
        """Whether it says that the partition has, or had, a later owner."""
        try:
            if topic == topics.REQUESTS:
                generation = internal_pb2.Request.FromString(value).beat.generation
            elif topic == topics.NOTIFICATIONS:
                generation = internal_pb2.Inbox.FromString(value).generation
            else:
                return False
        except DecodeError:
            return False
        return min(self._known.generations.values(), default=0) < generation <= generation_max(self._now_ms)

    def would_mislead(self, value: bytes) -> bool:
        """Whether it sends an honest client away for long, or tells it that it is complete at some offset."""
        try:
            items = internal_pb2.Inbox.FromString(value).items
        except DecodeError:
            return False
        for item in items:
            if item.closed.session in self._numbers and item.closed.code not in _COMES_BACK:
                return True
            for answer in (item.page, item.opened):
                if answer.session in self._numbers and answer.ask < _BELIEVABLE_BELOW:
                    return True
            for newest in (item.fan_out.newest, *item.page.newest, *item.answered.newest):
                if newest.name in self._known.objects or 1 < newest.offset - newest.behind < _BELIEVABLE_BELOW - 1:
                    return True
            for refused in (*item.opened.refused, *item.answered.refused):
                if refused.object in self._known.objects:
                    return True
            if item.HasField("beat") and 1 < item.beat.complete < _BELIEVABLE_BELOW - 1:
                return True
        return False


def _fields(descriptor: Any) -> list[FieldDescriptor]:
    """Of a message, or of a choice in it."""
    return list(descriptor.fields)


def _is_newer(value: bytes, now_ms: int) -> bool:
    """Whether it is a state record of a later release."""
    try:
        generation_of(value, now_ms)
    except NewerFormat:
        return True
    except Unreadable:
        return False
    return False
