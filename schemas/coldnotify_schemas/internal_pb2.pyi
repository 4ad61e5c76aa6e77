from coldnotify_schemas import wire_pb2 as _wire_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Retention(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RETENTION_UNSAID: _ClassVar[Retention]
    RETENTION_1H: _ClassVar[Retention]
    RETENTION_1D: _ClassVar[Retention]
    RETENTION_30D: _ClassVar[Retention]
RETENTION_UNSAID: Retention
RETENTION_1H: Retention
RETENTION_1D: Retention
RETENTION_30D: Retention

class Request(_message.Message):
    __slots__ = ("format", "gateway", "inbox", "session", "domain", "group", "client", "open", "register", "unregister", "sync", "catch_up", "check_digest", "leave", "acks", "beat", "catch_up_channels", "disconnect", "forget", "is_there", "ask_outcome", "unsettled", "descriptions")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    INBOX_FIELD_NUMBER: _ClassVar[int]
    SESSION_FIELD_NUMBER: _ClassVar[int]
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    SYNC_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    CHECK_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    ACKS_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    IS_THERE_FIELD_NUMBER: _ClassVar[int]
    ASK_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    format: int
    gateway: int
    inbox: int
    session: int
    domain: str
    group: str
    client: str
    open: Open
    register: Register
    unregister: Unregister
    sync: SyncChunk
    catch_up: CatchUp
    check_digest: CheckDigest
    leave: Leave
    acks: Acks
    beat: Beat
    catch_up_channels: CatchUpChannels
    disconnect: Disconnect
    forget: Forget
    is_there: IsThere
    ask_outcome: AskOutcome
    unsettled: _wire_pb2.Unsettled
    descriptions: bool
    def __init__(self, format: _Optional[int] = ..., gateway: _Optional[int] = ..., inbox: _Optional[int] = ..., session: _Optional[int] = ..., domain: _Optional[str] = ..., group: _Optional[str] = ..., client: _Optional[str] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., register: _Optional[_Union[Register, _Mapping]] = ..., unregister: _Optional[_Union[Unregister, _Mapping]] = ..., sync: _Optional[_Union[SyncChunk, _Mapping]] = ..., catch_up: _Optional[_Union[CatchUp, _Mapping]] = ..., check_digest: _Optional[_Union[CheckDigest, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., acks: _Optional[_Union[Acks, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., catch_up_channels: _Optional[_Union[CatchUpChannels, _Mapping]] = ..., disconnect: _Optional[_Union[Disconnect, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., is_there: _Optional[_Union[IsThere, _Mapping]] = ..., ask_outcome: _Optional[_Union[AskOutcome, _Mapping]] = ..., unsettled: _Optional[_Union[_wire_pb2.Unsettled, _Mapping]] = ..., descriptions: _Optional[bool] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("digest", "register", "unregister", "epoch", "cursor", "ask", "again", "acked", "page_bytes", "queries", "unregister_queries", "channels", "unregister_channels", "channels_epoch", "channels_cursor", "channels_ask", "channels_acked", "never_opened", "descriptions", "channels_in_order", "all_unsettled")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_QUERIES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_CURSOR_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_ASK_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_ACKED_FIELD_NUMBER: _ClassVar[int]
    NEVER_OPENED_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_IN_ORDER_FIELD_NUMBER: _ClassVar[int]
    ALL_UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    digest: int
    register: _containers.RepeatedScalarFieldContainer[str]
    unregister: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    cursor: int
    ask: int
    again: bool
    acked: int
    page_bytes: int
    queries: _containers.RepeatedCompositeFieldContainer[Query]
    unregister_queries: _containers.RepeatedScalarFieldContainer[int]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    unregister_channels: _containers.RepeatedScalarFieldContainer[int]
    channels_epoch: int
    channels_cursor: int
    channels_ask: int
    channels_acked: int
    never_opened: bool
    descriptions: bool
    channels_in_order: bool
    all_unsettled: bool
    def __init__(self, digest: _Optional[int] = ..., register: _Optional[_Iterable[str]] = ..., unregister: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ..., cursor: _Optional[int] = ..., ask: _Optional[int] = ..., again: _Optional[bool] = ..., acked: _Optional[int] = ..., page_bytes: _Optional[int] = ..., queries: _Optional[_Iterable[_Union[Query, _Mapping]]] = ..., unregister_queries: _Optional[_Iterable[int]] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ..., unregister_channels: _Optional[_Iterable[int]] = ..., channels_epoch: _Optional[int] = ..., channels_cursor: _Optional[int] = ..., channels_ask: _Optional[int] = ..., channels_acked: _Optional[int] = ..., never_opened: _Optional[bool] = ..., descriptions: _Optional[bool] = ..., channels_in_order: _Optional[bool] = ..., all_unsettled: _Optional[bool] = ...) -> None: ...

class Query(_message.Message):
    __slots__ = ("text", "held", "reached", "reached_at")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    REACHED_AT_FIELD_NUMBER: _ClassVar[int]
    text: str
    held: int
    reached: str
    reached_at: int
    def __init__(self, text: _Optional[str] = ..., held: _Optional[int] = ..., reached: _Optional[str] = ..., reached_at: _Optional[int] = ...) -> None: ...

class Channel(_message.Message):
    __slots__ = ("name", "attributes", "since", "at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    attributes: _containers.RepeatedScalarFieldContainer[str]
    since: _wire_pb2.Since
    at: int
    def __init__(self, name: _Optional[str] = ..., attributes: _Optional[_Iterable[str]] = ..., since: _Optional[_Union[_wire_pb2.Since, str]] = ..., at: _Optional[int] = ...) -> None: ...

class ChannelPosition(_message.Message):
    __slots__ = ("channel", "position")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    channel: int
    position: int
    def __init__(self, channel: _Optional[int] = ..., position: _Optional[int] = ...) -> None: ...

class Register(_message.Message):
    __slots__ = ("request", "objects", "queries", "channels")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    request: int
    objects: _containers.RepeatedScalarFieldContainer[str]
    queries: _containers.RepeatedCompositeFieldContainer[Query]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    def __init__(self, request: _Optional[int] = ..., objects: _Optional[_Iterable[str]] = ..., queries: _Optional[_Iterable[_Union[Query, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ...) -> None: ...

class Unregister(_message.Message):
    __slots__ = ("request", "objects", "queries", "channels")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    request: int
    objects: _containers.RepeatedScalarFieldContainer[str]
    queries: _containers.RepeatedScalarFieldContainer[int]
    channels: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, request: _Optional[int] = ..., objects: _Optional[_Iterable[str]] = ..., queries: _Optional[_Iterable[int]] = ..., channels: _Optional[_Iterable[int]] = ...) -> None: ...

class SyncChunk(_message.Message):
    __slots__ = ("index", "last", "objects", "queries", "channels")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    OBJECTS_FIELD_NUMBER: _ClassVar[int]
    QUERIES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    index: int
    last: bool
    objects: _containers.RepeatedScalarFieldContainer[str]
    queries: _containers.RepeatedCompositeFieldContainer[Query]
    channels: _containers.RepeatedCompositeFieldContainer[Channel]
    def __init__(self, index: _Optional[int] = ..., last: _Optional[bool] = ..., objects: _Optional[_Iterable[str]] = ..., queries: _Optional[_Iterable[_Union[Query, _Mapping]]] = ..., channels: _Optional[_Iterable[_Union[Channel, _Mapping]]] = ...) -> None: ...

class CatchUpChannels(_message.Message):
    __slots__ = ("cursor", "ask", "page", "epoch", "page_bytes", "paging")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    cursor: int
    ask: int
    page: int
    epoch: int
    page_bytes: int
    paging: int
    def __init__(self, cursor: _Optional[int] = ..., ask: _Optional[int] = ..., page: _Optional[int] = ..., epoch: _Optional[int] = ..., page_bytes: _Optional[int] = ..., paging: _Optional[int] = ...) -> None: ...

class CatchUp(_message.Message):
    __slots__ = ("cursor", "ask", "page", "epoch", "page_bytes", "paging")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    cursor: int
    ask: int
    page: int
    epoch: int
    page_bytes: int
    paging: int
    def __init__(self, cursor: _Optional[int] = ..., ask: _Optional[int] = ..., page: _Optional[int] = ..., epoch: _Optional[int] = ..., page_bytes: _Optional[int] = ..., paging: _Optional[int] = ...) -> None: ...

class CheckDigest(_message.Message):
    __slots__ = ("digest", "ask")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    digest: int
    ask: int
    def __init__(self, digest: _Optional[int] = ..., ask: _Optional[int] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("complete", "channels_complete", "epoch", "channels_epoch")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    complete: int
    channels_complete: int
    epoch: int
    channels_epoch: int
    def __init__(self, complete: _Optional[int] = ..., channels_complete: _Optional[int] = ..., epoch: _Optional[int] = ..., channels_epoch: _Optional[int] = ...) -> None: ...

class Disconnect(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Forget(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class IsThere(_message.Message):
    __slots__ = ("object", "ask")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    object: str
    ask: int
    def __init__(self, object: _Optional[str] = ..., ask: _Optional[int] = ...) -> None: ...

class AskOutcome(_message.Message):
    __slots__ = ("object", "offset", "ask")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    object: str
    offset: int
    ask: int
    def __init__(self, object: _Optional[str] = ..., offset: _Optional[int] = ..., ask: _Optional[int] = ...) -> None: ...

class Acks(_message.Message):
    __slots__ = ("sessions", "completes", "channels_sessions", "channels_completes", "epoch", "channels_epoch")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_COMPLETES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedScalarFieldContainer[int]
    completes: _containers.RepeatedScalarFieldContainer[int]
    channels_sessions: _containers.RepeatedScalarFieldContainer[int]
    channels_completes: _containers.RepeatedScalarFieldContainer[int]
    epoch: int
    channels_epoch: int
    def __init__(self, sessions: _Optional[_Iterable[int]] = ..., completes: _Optional[_Iterable[int]] = ..., channels_sessions: _Optional[_Iterable[int]] = ..., channels_completes: _Optional[_Iterable[int]] = ..., epoch: _Optional[int] = ..., channels_epoch: _Optional[int] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("sessions", "checksum", "generation", "number", "serial")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    sessions: int
    checksum: int
    generation: int
    number: int
    serial: int
    def __init__(self, sessions: _Optional[int] = ..., checksum: _Optional[int] = ..., generation: _Optional[int] = ..., number: _Optional[int] = ..., serial: _Optional[int] = ...) -> None: ...

class Inbox(_message.Message):
    __slots__ = ("format", "partition", "generation", "gateway", "number", "items")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    GATEWAY_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    format: int
    partition: int
    generation: int
    gateway: int
    number: int
    items: _containers.RepeatedCompositeFieldContainer[Item]
    def __init__(self, format: _Optional[int] = ..., partition: _Optional[int] = ..., generation: _Optional[int] = ..., gateway: _Optional[int] = ..., number: _Optional[int] = ..., items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("fan_out", "opened", "answered", "page", "closed", "beat", "channel_page", "channel_fan_out", "there", "became")
    FAN_OUT_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_PAGE_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FAN_OUT_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    BECAME_FIELD_NUMBER: _ClassVar[int]
    fan_out: FanOut
    opened: Opened
    answered: Answered
    page: Page
    closed: Closed
    beat: BeatAnswer
    channel_page: ChannelPage
    channel_fan_out: ChannelFanOut
    there: There
    became: Became
    def __init__(self, fan_out: _Optional[_Union[FanOut, _Mapping]] = ..., opened: _Optional[_Union[Opened, _Mapping]] = ..., answered: _Optional[_Union[Answered, _Mapping]] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., closed: _Optional[_Union[Closed, _Mapping]] = ..., beat: _Optional[_Union[BeatAnswer, _Mapping]] = ..., channel_page: _Optional[_Union[ChannelPage, _Mapping]] = ..., channel_fan_out: _Optional[_Union[ChannelFanOut, _Mapping]] = ..., there: _Optional[_Union[There, _Mapping]] = ..., became: _Optional[_Union[Became, _Mapping]] = ...) -> None: ...

class Newest(_message.Message):
    __slots__ = ("name", "version", "incarnation", "offset", "behind", "payload", "deleted", "answer", "entered", "left", "description")
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
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., incarnation: _Optional[int] = ..., offset: _Optional[int] = ..., behind: _Optional[int] = ..., payload: _Optional[bytes] = ..., deleted: _Optional[bool] = ..., answer: _Optional[bool] = ..., entered: _Optional[_Iterable[int]] = ..., left: _Optional[_Iterable[int]] = ..., description: _Optional[bytes] = ...) -> None: ...

class FanOut(_message.Message):
    __slots__ = ("newest", "sessions", "published_ms", "traceparent", "urgent", "pagings", "known_since")
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    PAGINGS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SINCE_FIELD_NUMBER: _ClassVar[int]
    newest: Newest
    sessions: bytes
    published_ms: int
    traceparent: str
    urgent: bool
    pagings: _containers.RepeatedScalarFieldContainer[int]
    known_since: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, newest: _Optional[_Union[Newest, _Mapping]] = ..., sessions: _Optional[bytes] = ..., published_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., urgent: _Optional[bool] = ..., pagings: _Optional[_Iterable[int]] = ..., known_since: _Optional[_Iterable[int]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("session", "ask", "in_sync", "epoch", "digest", "refused", "kinds", "channels_epoch", "positions", "retention")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    in_sync: bool
    epoch: int
    digest: int
    refused: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Refusal]
    kinds: int
    channels_epoch: int
    positions: _containers.RepeatedCompositeFieldContainer[ChannelPosition]
    retention: Retention
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., in_sync: _Optional[bool] = ..., epoch: _Optional[int] = ..., digest: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[_wire_pb2.Refusal, _Mapping]]] = ..., kinds: _Optional[int] = ..., channels_epoch: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[ChannelPosition, _Mapping]]] = ..., retention: _Optional[_Union[Retention, str]] = ...) -> None: ...

class Answered(_message.Message):
    __slots__ = ("session", "request", "unregistered", "refused", "newest", "digest", "kinds", "catch_up", "positions", "channels_epoch", "catch_up_channels", "retention")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_EPOCH_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_CHANNELS_FIELD_NUMBER: _ClassVar[int]
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    session: int
    request: int
    unregistered: bool
    refused: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Refusal]
    newest: _containers.RepeatedCompositeFieldContainer[Newest]
    digest: int
    kinds: int
    catch_up: bool
    positions: _containers.RepeatedCompositeFieldContainer[ChannelPosition]
    channels_epoch: int
    catch_up_channels: bool
    retention: Retention
    def __init__(self, session: _Optional[int] = ..., request: _Optional[int] = ..., unregistered: _Optional[bool] = ..., refused: _Optional[_Iterable[_Union[_wire_pb2.Refusal, _Mapping]]] = ..., newest: _Optional[_Iterable[_Union[Newest, _Mapping]]] = ..., digest: _Optional[int] = ..., kinds: _Optional[int] = ..., catch_up: _Optional[bool] = ..., positions: _Optional[_Iterable[_Union[ChannelPosition, _Mapping]]] = ..., channels_epoch: _Optional[int] = ..., catch_up_channels: _Optional[bool] = ..., retention: _Optional[_Union[Retention, str]] = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ("session", "ask", "page", "newest", "last", "complete", "answered", "refused", "sets_digest", "query", "reached", "reached_at", "sets_unknown", "unchanged", "begun", "paging", "channels_complete", "channels_ask")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SETS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    REACHED_AT_FIELD_NUMBER: _ClassVar[int]
    SETS_UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    BEGUN_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_ASK_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    page: int
    newest: _containers.RepeatedCompositeFieldContainer[Newest]
    last: bool
    complete: int
    answered: _containers.RepeatedScalarFieldContainer[int]
    refused: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Refusal]
    sets_digest: int
    query: int
    reached: str
    reached_at: int
    sets_unknown: bool
    unchanged: _containers.RepeatedScalarFieldContainer[int]
    begun: _containers.RepeatedScalarFieldContainer[int]
    paging: int
    channels_complete: int
    channels_ask: int
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., page: _Optional[int] = ..., newest: _Optional[_Iterable[_Union[Newest, _Mapping]]] = ..., last: _Optional[bool] = ..., complete: _Optional[int] = ..., answered: _Optional[_Iterable[int]] = ..., refused: _Optional[_Iterable[_Union[_wire_pb2.Refusal, _Mapping]]] = ..., sets_digest: _Optional[int] = ..., query: _Optional[int] = ..., reached: _Optional[str] = ..., reached_at: _Optional[int] = ..., sets_unknown: _Optional[bool] = ..., unchanged: _Optional[_Iterable[int]] = ..., begun: _Optional[_Iterable[int]] = ..., paging: _Optional[int] = ..., channels_complete: _Optional[int] = ..., channels_ask: _Optional[int] = ...) -> None: ...

class ChannelPage(_message.Message):
    __slots__ = ("session", "ask", "page", "paging", "entries", "last", "complete", "urgent", "ahead")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    AHEAD_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    page: int
    paging: int
    entries: _containers.RepeatedCompositeFieldContainer[ChannelEntry]
    last: bool
    complete: int
    urgent: _containers.RepeatedScalarFieldContainer[int]
    ahead: bool
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., page: _Optional[int] = ..., paging: _Optional[int] = ..., entries: _Optional[_Iterable[_Union[ChannelEntry, _Mapping]]] = ..., last: _Optional[bool] = ..., complete: _Optional[int] = ..., urgent: _Optional[_Iterable[int]] = ..., ahead: _Optional[bool] = ...) -> None: ...

class ChannelEntry(_message.Message):
    __slots__ = ("message", "missed")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    message: _wire_pb2.Message
    missed: _wire_pb2.Missed
    def __init__(self, message: _Optional[_Union[_wire_pb2.Message, _Mapping]] = ..., missed: _Optional[_Union[_wire_pb2.Missed, _Mapping]] = ...) -> None: ...

class ChannelFanOut(_message.Message):
    __slots__ = ("entry", "sessions", "urgent")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    entry: ChannelEntry
    sessions: bytes
    urgent: bool
    def __init__(self, entry: _Optional[_Union[ChannelEntry, _Mapping]] = ..., sessions: _Optional[bytes] = ..., urgent: _Optional[bool] = ...) -> None: ...

class ChannelsComplete(_message.Message):
    __slots__ = ("retention", "complete")
    RETENTION_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    retention: Retention
    complete: int
    def __init__(self, retention: _Optional[_Union[Retention, str]] = ..., complete: _Optional[int] = ...) -> None: ...

class There(_message.Message):
    __slots__ = ("session", "ask", "there")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    there: bool
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., there: _Optional[bool] = ...) -> None: ...

class Closed(_message.Message):
    __slots__ = ("session", "code", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: int
    code: int
    reason: str
    def __init__(self, session: _Optional[int] = ..., code: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class BeatAnswer(_message.Message):
    __slots__ = ("agreed", "complete", "serial", "channels")
    AGREED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    agreed: bool
    complete: int
    serial: int
    channels: _containers.RepeatedCompositeFieldContainer[ChannelsComplete]
    def __init__(self, agreed: _Optional[bool] = ..., complete: _Optional[int] = ..., serial: _Optional[int] = ..., channels: _Optional[_Iterable[_Union[ChannelsComplete, _Mapping]]] = ...) -> None: ...

class Became(_message.Message):
    __slots__ = ("session", "outcome")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    session: int
    outcome: _wire_pb2.Outcome
    def __init__(self, session: _Optional[int] = ..., outcome: _Optional[_Union[_wire_pb2.Outcome, _Mapping]] = ...) -> None: ...
