from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Capability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CAPABILITY_NONE: _ClassVar[Capability]
    CAPABILITY_NAMES: _ClassVar[Capability]
    CAPABILITY_QUERIES: _ClassVar[Capability]
    CAPABILITY_DESCRIPTIONS: _ClassVar[Capability]
    CAPABILITY_RAW: _ClassVar[Capability]
    CAPABILITY_UNSETTLED: _ClassVar[Capability]
    CAPABILITY_AT_HOME: _ClassVar[Capability]
    CAPABILITY_MOVES: _ClassVar[Capability]
    CAPABILITY_IN_ORDER: _ClassVar[Capability]

class Kinds(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KINDS_UNSAID: _ClassVar[Kinds]
    KINDS_NAMES: _ClassVar[Kinds]
    KINDS_QUERIES: _ClassVar[Kinds]
    KINDS_CHANNELS: _ClassVar[Kinds]
    KINDS_SHARES: _ClassVar[Kinds]
    KINDS_DESCRIPTIONS: _ClassVar[Kinds]

class InterestKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INTEREST_UNSAID: _ClassVar[InterestKind]
    INTEREST_QUERY: _ClassVar[InterestKind]
    INTEREST_CHANNEL: _ClassVar[InterestKind]
    INTEREST_FILTER: _ClassVar[InterestKind]
    INTEREST_PATTERN: _ClassVar[InterestKind]
    INTEREST_SHARE: _ClassVar[InterestKind]

class Since(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SINCE_NOW: _ClassVar[Since]
    SINCE_OLDEST: _ClassVar[Since]
    SINCE_NEWEST: _ClassVar[Since]
    SINCE_TIME: _ClassVar[Since]
    SINCE_POSITION: _ClassVar[Since]
    SINCE_BEGINNING: _ClassVar[Since]

class HeldState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HELD_WAITS: _ClassVar[HeldState]
    HELD_BEGUN: _ClassVar[HeldState]
    HELD_DONE: _ClassVar[HeldState]
    HELD_BACK: _ClassVar[HeldState]
    HELD_REJECTED: _ClassVar[HeldState]

class Priority(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PRIORITY_NORMAL: _ClassVar[Priority]
    PRIORITY_HIGH: _ClassVar[Priority]

class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REASON_UNSAID: _ClassVar[Reason]
    RETENTION: _ClassVar[Reason]
    EXPIRED: _ClassVar[Reason]
    LOST: _ClassVar[Reason]
    UNREADABLE: _ClassVar[Reason]

class OutcomeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNKNOWN: _ClassVar[OutcomeKind]
    OUTCOME_PUBLISHED: _ClassVar[OutcomeKind]
    OUTCOME_REPEATED: _ClassVar[OutcomeKind]
    OUTCOME_ALTERED: _ClassVar[OutcomeKind]
    OUTCOME_STALE: _ClassVar[OutcomeKind]
    OUTCOME_REJECTED: _ClassVar[OutcomeKind]
CAPABILITY_NONE: Capability
CAPABILITY_NAMES: Capability
CAPABILITY_QUERIES: Capability
CAPABILITY_DESCRIPTIONS: Capability
CAPABILITY_RAW: Capability
CAPABILITY_UNSETTLED: Capability
CAPABILITY_AT_HOME: Capability
CAPABILITY_MOVES: Capability
CAPABILITY_IN_ORDER: Capability
KINDS_UNSAID: Kinds
KINDS_NAMES: Kinds
KINDS_QUERIES: Kinds
KINDS_CHANNELS: Kinds
KINDS_SHARES: Kinds
KINDS_DESCRIPTIONS: Kinds
INTEREST_UNSAID: InterestKind
INTEREST_QUERY: InterestKind
INTEREST_CHANNEL: InterestKind
INTEREST_FILTER: InterestKind
INTEREST_PATTERN: InterestKind
INTEREST_SHARE: InterestKind
SINCE_NOW: Since
SINCE_OLDEST: Since
SINCE_NEWEST: Since
SINCE_TIME: Since
SINCE_POSITION: Since
SINCE_BEGINNING: Since
HELD_WAITS: HeldState
HELD_BEGUN: HeldState
HELD_DONE: HeldState
HELD_BACK: HeldState
HELD_REJECTED: HeldState
PRIORITY_NORMAL: Priority
PRIORITY_HIGH: Priority
REASON_UNSAID: Reason
RETENTION: Reason
EXPIRED: Reason
LOST: Reason
UNREADABLE: Reason
OUTCOME_UNKNOWN: OutcomeKind
OUTCOME_PUBLISHED: OutcomeKind
OUTCOME_REPEATED: OutcomeKind
OUTCOME_ALTERED: OutcomeKind
OUTCOME_STALE: OutcomeKind
OUTCOME_REJECTED: OutcomeKind

class ClientFrame(_message.Message):
    __slots__ = ("hello", "register", "unregister", "sync", "ack", "ping", "use_names", "bye", "publish", "ask_outcome", "unsettled", "hold", "session")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    USE_NAMES_FIELD_NUMBER: _ClassVar[int]
    BYE_FIELD_NUMBER: _ClassVar[int]
    PUBLISH_FIELD_NUMBER: _ClassVar[int]
    ASK_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    register: Register
    unregister: Unregister
    sync: SyncChunk
    ack: Ack
    ping: Ping
    use_names: UseNames
    bye: Bye
    publish: Publish
    ask_outcome: AskOutcome
    unsettled: Unsettled
    hold: Hold
    session: int
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., unregister: _Optional[_Union[Unregister, _Mapping]] = ..., sync: _Optional[_Union[SyncChunk, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., ping: _Optional[_Union[Ping, _Mapping]] = ..., use_names: _Optional[_Union[UseNames, _Mapping]] = ..., bye: _Optional[_Union[Bye, _Mapping]] = ..., publish: _Optional[_Union[Publish, _Mapping]] = ..., ask_outcome: _Optional[_Union[AskOutcome, _Mapping]] = ..., unsettled: _Optional[_Union[Unsettled, _Mapping]] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., session: _Optional[int] = ...) -> None: ...

class GatewayFrame(_message.Message):
    __slots__ = ("welcome", "notification", "caught_up", "registered", "unregistered", "page_end", "pong", "wait", "close", "message", "missed", "leases", "published", "not_published", "outcome", "session")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    NOTIFICATION_FIELD_NUMBER: _ClassVar[int]
    CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    PAGE_END_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    WAIT_FIELD_NUMBER: _ClassVar[int]
    CLOSE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    NOT_PUBLISHED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    notification: Notification
    caught_up: CaughtUp
    registered: Registered
    unregistered: Unregistered
    page_end: PageEnd
    pong: Pong
    wait: Wait
    close: Close
    message: Message
    missed: Missed
    leases: Leases
    published: Published
    not_published: NotPublished
    outcome: Outcome
    session: int
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., notification: _Optional[_Union[Notification, _Mapping]] = ..., caught_up: _Optional[_Union[CaughtUp, _Mapping]] = ..., registered: _Optional[_Union[Registered, _Mapping]] = ..., unregistered: _Optional[_Union[Unregistered, _Mapping]] = ..., page_end: _Optional[_Union[PageEnd, _Mapping]] = ..., pong: _Optional[_Union[Pong, _Mapping]] = ..., wait: _Optional[_Union[Wait, _Mapping]] = ..., close: _Optional[_Union[Close, _Mapping]] = ..., message: _Optional[_Union[Message, _Mapping]] = ..., missed: _Optional[_Union[Missed, _Mapping]] = ..., leases: _Optional[_Union[Leases, _Mapping]] = ..., published: _Optional[_Union[Published, _Mapping]] = ..., not_published: _Optional[_Union[NotPublished, _Mapping]] = ..., outcome: _Optional[_Union[Outcome, _Mapping]] = ..., session: _Optional[int] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("epoch", "complete", "page", "positions", "age_s")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    complete: int
    page: int
    positions: _containers.RepeatedCompositeFieldContainer[Position]
    age_s: int
    def __init__(self, epoch: _Optional[int] = ..., complete: _Optional[int] = ..., page: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[Position, _Mapping]]] = ..., age_s: _Optional[int] = ...) -> None: ...

class Position(_message.Message):
    __slots__ = ("interest", "position")
    INTEREST_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    interest: int
    position: int
    def __init__(self, interest: _Optional[int] = ..., position: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("protocol", "capabilities", "domain", "group", "client", "digest", "register", "unregister", "epoch", "cursor", "keepalive_s", "token", "interests", "unregister_interests", "streams")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    KEEPALIVE_S_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    INTERESTS_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_INTERESTS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    capabilities: int
    domain: str
    group: str
    client: str
    digest: int
    register: _containers.RepeatedScalarFieldContainer[str]
    unregister: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    cursor: int
    keepalive_s: int
    token: str
    interests: _containers.RepeatedCompositeFieldContainer[Interest]
    unregister_interests: _containers.RepeatedScalarFieldContainer[int]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, protocol: _Optional[int] = ..., capabilities: _Optional[int] = ..., domain: _Optional[str] = ..., group: _Optional[str] = ..., client: _Optional[str] = ..., digest: _Optional[int] = ..., register: _Optional[_Iterable[str]] = ..., unregister: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ..., cursor: _Optional[int] = ..., keepalive_s: _Optional[int] = ..., token: _Optional[str] = ..., interests: _Optional[_Iterable[_Union[Interest, _Mapping]]] = ..., unregister_interests: _Optional[_Iterable[int]] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Interest(_message.Message):
    __slots__ = ("kind", "text", "attributes", "since", "at", "held", "reached", "reached_at", "options", "identifier", "share")
    KIND_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    REACHED_AT_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    kind: InterestKind
    text: str
    attributes: _containers.RepeatedScalarFieldContainer[str]
    since: Since
    at: int
    held: int
    reached: str
    reached_at: int
    options: int
    identifier: int
    share: str
    def __init__(self, kind: _Optional[_Union[InterestKind, str]] = ..., text: _Optional[str] = ..., attributes: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[Since, str]] = ..., at: _Optional[int] = ..., held: _Optional[int] = ..., reached: _Optional[str] = ..., reached_at: _Optional[int] = ..., options: _Optional[int] = ..., identifier: _Optional[int] = ..., share: _Optional[str] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("request", "objects", "interests")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    INTERESTS_FIELD_NUMBER: _ClassVar[int]
    request: int
    objects: _containers.RepeatedScalarFieldContainer[str]
    interests: _containers.RepeatedCompositeFieldContainer[Interest]
    def __init__(self, request: _Optional[int] = ..., objects: _Optional[_Iterable[str]] = ..., interests: _Optional[_Iterable[_Union[Interest, _Mapping]]] = ...) -> None: ...

class Unregister(_message.Message):
    __slots__ = ("request", "objects", "interests")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    INTERESTS_FIELD_NUMBER: _ClassVar[int]
    request: int
    objects: _containers.RepeatedScalarFieldContainer[str]
    interests: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[int] = ..., objects: _Optional[_Iterable[str]] = ..., interests: _Optional[_Iterable[int]] = ...) -> None: ...

class SyncChunk(_message.Message):
    __slots__ = ("index", "last", "objects", "interests")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    INTERESTS_FIELD_NUMBER: _ClassVar[int]
    index: int
    last: bool
    objects: _containers.RepeatedScalarFieldContainer[str]
    interests: _containers.RepeatedCompositeFieldContainer[Interest]
    def __init__(self, index: _Optional[int] = ..., last: _Optional[bool] = ..., objects: _Optional[_Iterable[str]] = ..., interests: _Optional[_Iterable[_Union[Interest, _Mapping]]] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("complete", "page", "streams")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    complete: int
    page: int
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, complete: _Optional[int] = ..., page: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Unsettled(_message.Message):
    __slots__ = ("entries", "settled", "settled_hashes", "all", "request")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    SETTLED_HASHES_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[UnsettledEntry]
    settled: _containers.RepeatedScalarFieldContainer[str]
    settled_hashes: _containers.RepeatedScalarFieldContainer[int]
    all: bool
    request: int
    def __init__(self, entries: _Optional[_Iterable[_Union[UnsettledEntry, _Mapping]]] = ..., settled: _Optional[_Iterable[str]] = ..., settled_hashes: _Optional[_Iterable[int]] = ..., all: _Optional[bool] = ..., request: _Optional[int] = ...) -> None: ...

class UnsettledEntry(_message.Message):
    __slots__ = ("name", "hash", "parked", "since_s", "failures", "error", "members", "position")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    PARKED_FIELD_NUMBER: _ClassVar[int]
    SINCE_S_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    name: str
    hash: int
    parked: bool
    since_s: int
    failures: int
    error: str
    members: _containers.RepeatedScalarFieldContainer[str]
    position: int
    def __init__(self, name: _Optional[str] = ..., hash: _Optional[int] = ..., parked: _Optional[bool] = ..., since_s: _Optional[int] = ..., failures: _Optional[int] = ..., error: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., position: _Optional[int] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("number", "all", "shares")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    number: int
    all: bool
    shares: _containers.RepeatedCompositeFieldContainer[HeldShare]
    def __init__(self, number: _Optional[int] = ..., all: _Optional[bool] = ..., shares: _Optional[_Iterable[_Union[HeldShare, _Mapping]]] = ...) -> None: ...

class HeldShare(_message.Message):
    __slots__ = ("share", "messages", "lease_s", "prefetch", "closed")
    SHARE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    LEASE_S_FIELD_NUMBER: _ClassVar[int]
    PREFETCH_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    share: int
    messages: _containers.RepeatedCompositeFieldContainer[HeldMessage]
    lease_s: int
    prefetch: int
    closed: bool
    def __init__(self, share: _Optional[int] = ..., messages: _Optional[_Iterable[_Union[HeldMessage, _Mapping]]] = ..., lease_s: _Optional[int] = ..., prefetch: _Optional[int] = ..., closed: _Optional[bool] = ...) -> None: ...

class HeldMessage(_message.Message):
    __slots__ = ("offset", "hand_out", "state", "after_s")
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    HAND_OUT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AFTER_S_FIELD_NUMBER: _ClassVar[int]
    offset: int
    hand_out: int
    state: HeldState
    after_s: int
    def __init__(self, offset: _Optional[int] = ..., hand_out: _Optional[int] = ..., state: _Optional[_Union[HeldState, str]] = ..., after_s: _Optional[int] = ...) -> None: ...

class Ping(_message.Message):
    __slots__ = ("digest",)
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    digest: int
    def __init__(self, digest: _Optional[int] = ...) -> None: ...

class UseNames(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Bye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Publish(_message.Message):
    __slots__ = ("request", "object", "channel", "version", "incarnation", "payload", "deleted", "id", "expires_at", "to", "priority", "clock_ms", "describe", "only_describe", "key")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    ONLY_DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    request: int
    object: str
    channel: str
    version: int
    incarnation: int
    payload: bytes
    deleted: bool
    id: str
    expires_at: int
    to: _containers.RepeatedScalarFieldContainer[str]
    priority: Priority
    clock_ms: int
    describe: bytes
    only_describe: bool
    key: str
    def __init__(self, request: _Optional[int] = ..., object: _Optional[str] = ..., channel: _Optional[str] = ..., version: _Optional[int] = ..., incarnation: _Optional[int] = ..., payload: _Optional[bytes] = ..., deleted: _Optional[bool] = ..., id: _Optional[str] = ..., expires_at: _Optional[int] = ..., to: _Optional[_Iterable[str]] = ..., priority: _Optional[_Union[Priority, str]] = ..., clock_ms: _Optional[int] = ..., describe: _Optional[bytes] = ..., only_describe: _Optional[bool] = ..., key: _Optional[str] = ...) -> None: ...

class AskOutcome(_message.Message):
    __slots__ = ("ask", "object", "offset")
    ASK_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ask: int
    object: str
    offset: int
    def __init__(self, ask: _Optional[int] = ..., object: _Optional[str] = ..., offset: _Optional[int] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("in_sync", "epoch", "refused", "kinds", "streams")
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    in_sync: bool
    epoch: int
    refused: _containers.RepeatedCompositeFieldContainer[Refusal]
    kinds: int
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, in_sync: _Optional[bool] = ..., epoch: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ..., kinds: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Refusal(_message.Message):
    __slots__ = ("object", "reason", "interest")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    INTEREST_FIELD_NUMBER: _ClassVar[int]
    object: str
    reason: str
    interest: int
    def __init__(self, object: _Optional[str] = ..., reason: _Optional[str] = ..., interest: _Optional[int] = ...) -> None: ...

class Notification(_message.Message):
    __slots__ = ("crc", "name", "version", "incarnation", "offset", "behind", "payload", "deleted", "answer", "entered", "left", "description", "raw", "answers", "more")
    CRC_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    ENTERED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    RAW_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    crc: int
    name: str
    version: int
    incarnation: int
    offset: int
    behind: int
    payload: bytes
    deleted: bool
    answer: bool
    entered: _containers.RepeatedScalarFieldContainer[int]
    left: _containers.RepeatedScalarFieldContainer[int]
    description: bytes
    raw: bool
    answers: _containers.RepeatedScalarFieldContainer[int]
    more: bool
    def __init__(self, crc: _Optional[int] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., incarnation: _Optional[int] = ..., offset: _Optional[int] = ..., behind: _Optional[int] = ..., payload: _Optional[bytes] = ..., deleted: _Optional[bool] = ..., answer: _Optional[bool] = ..., entered: _Optional[_Iterable[int]] = ..., left: _Optional[_Iterable[int]] = ..., description: _Optional[bytes] = ..., raw: _Optional[bool] = ..., answers: _Optional[_Iterable[int]] = ..., more: _Optional[bool] = ...) -> None: ...

class CaughtUp(_message.Message):
    __slots__ = ("complete", "sets_digest", "streams", "age_s")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    SETS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    complete: int
    sets_digest: int
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    age_s: int
    def __init__(self, complete: _Optional[int] = ..., sets_digest: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., age_s: _Optional[int] = ...) -> None: ...

class Message(_message.Message):
    __slots__ = ("channel", "offset", "back", "payload", "id", "source", "published_ms", "paged", "name", "hand_out", "attempts", "hold", "key")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    BACK_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_MS_FIELD_NUMBER: _ClassVar[int]
    PAGED_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    HAND_OUT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    channel: int
    offset: int
    back: int
    payload: bytes
    id: str
    source: str
    published_ms: int
    paged: bool
    name: str
    hand_out: int
    attempts: int
    hold: int
    key: str
    def __init__(self, channel: _Optional[int] = ..., offset: _Optional[int] = ..., back: _Optional[int] = ..., payload: _Optional[bytes] = ..., id: _Optional[str] = ..., source: _Optional[str] = ..., published_ms: _Optional[int] = ..., paged: _Optional[bool] = ..., name: _Optional[str] = ..., hand_out: _Optional[int] = ..., attempts: _Optional[int] = ..., hold: _Optional[int] = ..., key: _Optional[str] = ...) -> None: ...

class Missed(_message.Message):
    __slots__ = ("channel", "after", "before", "reason", "paged", "hand_out", "attempts", "hold")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PAGED_FIELD_NUMBER: _ClassVar[int]
    HAND_OUT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    channel: int
    after: int
    before: int
    reason: Reason
    paged: bool
    hand_out: int
    attempts: int
    hold: int
    def __init__(self, channel: _Optional[int] = ..., after: _Optional[int] = ..., before: _Optional[int] = ..., reason: _Optional[_Union[Reason, str]] = ..., paged: _Optional[bool] = ..., hand_out: _Optional[int] = ..., attempts: _Optional[int] = ..., hold: _Optional[int] = ...) -> None: ...

class Leases(_message.Message):
    __slots__ = ("number", "lost")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    number: int
    lost: _containers.RepeatedCompositeFieldContainer[LostLeases]
    def __init__(self, number: _Optional[int] = ..., lost: _Optional[_Iterable[_Union[LostLeases, _Mapping]]] = ...) -> None: ...

class LostLeases(_message.Message):
    __slots__ = ("share", "offsets")
    SHARE_FIELD_NUMBER: _ClassVar[int]
    OFFSETS_FIELD_NUMBER: _ClassVar[int]
    share: int
    offsets: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, share: _Optional[int] = ..., offsets: _Optional[_Iterable[int]] = ...) -> None: ...

class Published(_message.Message):
    __slots__ = ("request", "offset")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    request: int
    offset: int
    def __init__(self, request: _Optional[int] = ..., offset: _Optional[int] = ...) -> None: ...

class Outcome(_message.Message):
    __slots__ = ("ask", "kind", "version", "incarnation", "published_ms", "reason")
    ASK_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_MS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    ask: int
    kind: OutcomeKind
    version: int
    incarnation: int
    published_ms: int
    reason: str
    def __init__(self, ask: _Optional[int] = ..., kind: _Optional[_Union[OutcomeKind, str]] = ..., version: _Optional[int] = ..., incarnation: _Optional[int] = ..., published_ms: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class NotPublished(_message.Message):
    __slots__ = ("request", "reason", "retry_after_ms", "clock_ms")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    CLOCK_MS_FIELD_NUMBER: _ClassVar[int]
    request: int
    reason: str
    retry_after_ms: int
    clock_ms: int
    def __init__(self, request: _Optional[int] = ..., reason: _Optional[str] = ..., retry_after_ms: _Optional[int] = ..., clock_ms: _Optional[int] = ...) -> None: ...

class Registered(_message.Message):
    __slots__ = ("request", "refused", "kinds", "answered", "unchanged", "begun", "streams")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    request: int
    refused: _containers.RepeatedCompositeFieldContainer[Refusal]
    kinds: int
    answered: _containers.RepeatedScalarFieldContainer[int]
    unchanged: _containers.RepeatedScalarFieldContainer[int]
    begun: _containers.RepeatedScalarFieldContainer[int]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    def __init__(self, request: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[Refusal, _Mapping]]] = ..., kinds: _Optional[int] = ..., answered: _Optional[_Iterable[int]] = ..., unchanged: _Optional[_Iterable[int]] = ..., begun: _Optional[_Iterable[int]] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ...) -> None: ...

class Unregistered(_message.Message):
    __slots__ = ("request",)
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    request: int
    def __init__(self, request: _Optional[int] = ...) -> None: ...

class PageEnd(_message.Message):
    __slots__ = ("page", "query", "reached", "reached_at", "sets_unknown", "stream", "last", "complete", "age_s")
    PAGE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    REACHED_AT_FIELD_NUMBER: _ClassVar[int]
    SETS_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    page: int
    query: int
    reached: str
    reached_at: int
    sets_unknown: bool
    stream: int
    last: bool
    complete: int
    age_s: int
    def __init__(self, page: _Optional[int] = ..., query: _Optional[int] = ..., reached: _Optional[str] = ..., reached_at: _Optional[int] = ..., sets_unknown: _Optional[bool] = ..., stream: _Optional[int] = ..., last: _Optional[bool] = ..., complete: _Optional[int] = ..., age_s: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("complete", "streams", "age_s")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    AGE_S_FIELD_NUMBER: _ClassVar[int]
    complete: int
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    age_s: int
    def __init__(self, complete: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., age_s: _Optional[int] = ...) -> None: ...

class Wait(_message.Message):
    __slots__ = ("seconds",)
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    seconds: int
    def __init__(self, seconds: _Optional[int] = ...) -> None: ...

class Close(_message.Message):
    __slots__ = ("code", "reason", "retry_after_s", "not_here_s")
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_S_FIELD_NUMBER: _ClassVar[int]
    NOT_HERE_S_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    retry_after_s: int
    not_here_s: int
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., retry_after_s: _Optional[int] = ..., not_here_s: _Optional[int] = ...) -> None: ...
