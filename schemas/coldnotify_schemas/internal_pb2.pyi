from coldnotify_schemas import wire_pb2 as _wire_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WillEnd(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    WILL_UNSAID: _ClassVar[WillEnd]
    WILL_PUBLISH: _ClassVar[WillEnd]
    WILL_DROP: _ClassVar[WillEnd]
    WILL_WAIT: _ClassVar[WillEnd]

class Log(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_UNSAID: _ClassVar[Log]
    LOG_1H: _ClassVar[Log]
    LOG_1D: _ClassVar[Log]
    LOG_30D: _ClassVar[Log]

class PageKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PAGE: _ClassVar[PageKind]
    PAGE_WORKING: _ClassVar[PageKind]
    PAGE_ASK_ANEW: _ClassVar[PageKind]
    PAGE_AHEAD: _ClassVar[PageKind]
WILL_UNSAID: WillEnd
WILL_PUBLISH: WillEnd
WILL_DROP: WillEnd
WILL_WAIT: WillEnd
LOG_UNSAID: Log
LOG_1H: Log
LOG_1D: Log
LOG_30D: Log
PAGE: PageKind
PAGE_WORKING: PageKind
PAGE_ASK_ANEW: PageKind
PAGE_AHEAD: PageKind

class Request(_message.Message):
    __slots__ = ("format", "gateway", "inbox", "session", "domain", "group", "client", "open", "register", "unregister", "sync", "catch_up", "check_digest", "leave", "acks", "beat", "stream_catch_up", "disconnect", "forget", "is_there", "ask_outcome", "unsettled", "hold", "forget_share", "receive", "describe", "descriptions", "shares")
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
    STREAM_CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    FORGET_FIELD_NUMBER: _ClassVar[int]
    IS_THERE_FIELD_NUMBER: _ClassVar[int]
    ASK_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    FORGET_SHARE_FIELD_NUMBER: _ClassVar[int]
    RECEIVE_FIELD_NUMBER: _ClassVar[int]
    DESCRIBE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    format: int
    gateway: int
    inbox: int
    session: int
    domain: str
    group: str
    client: str
    open: Open
    register: _wire_pb2.Register
    unregister: _wire_pb2.Unregister
    sync: _wire_pb2.SyncChunk
    catch_up: CatchUp
    check_digest: CheckDigest
    leave: Leave
    acks: Acks
    beat: Beat
    stream_catch_up: CatchUp
    disconnect: Disconnect
    forget: Forget
    is_there: IsThere
    ask_outcome: AskOutcome
    unsettled: _wire_pb2.Unsettled
    hold: _wire_pb2.Hold
    forget_share: ForgetShare
    receive: Receive
    describe: Describe
    descriptions: bool
    shares: bool
    def __init__(self, format: _Optional[int] = ..., gateway: _Optional[int] = ..., inbox: _Optional[int] = ..., session: _Optional[int] = ..., domain: _Optional[str] = ..., group: _Optional[str] = ..., client: _Optional[str] = ..., open: _Optional[_Union[Open, _Mapping]] = ..., register: _Optional[_Union[_wire_pb2.Register, _Mapping]] = ..., unregister: _Optional[_Union[_wire_pb2.Unregister, _Mapping]] = ..., sync: _Optional[_Union[_wire_pb2.SyncChunk, _Mapping]] = ..., catch_up: _Optional[_Union[CatchUp, _Mapping]] = ..., check_digest: _Optional[_Union[CheckDigest, _Mapping]] = ..., leave: _Optional[_Union[Leave, _Mapping]] = ..., acks: _Optional[_Union[Acks, _Mapping]] = ..., beat: _Optional[_Union[Beat, _Mapping]] = ..., stream_catch_up: _Optional[_Union[CatchUp, _Mapping]] = ..., disconnect: _Optional[_Union[Disconnect, _Mapping]] = ..., forget: _Optional[_Union[Forget, _Mapping]] = ..., is_there: _Optional[_Union[IsThere, _Mapping]] = ..., ask_outcome: _Optional[_Union[AskOutcome, _Mapping]] = ..., unsettled: _Optional[_Union[_wire_pb2.Unsettled, _Mapping]] = ..., hold: _Optional[_Union[_wire_pb2.Hold, _Mapping]] = ..., forget_share: _Optional[_Union[ForgetShare, _Mapping]] = ..., receive: _Optional[_Union[Receive, _Mapping]] = ..., describe: _Optional[_Union[Describe, _Mapping]] = ..., descriptions: _Optional[bool] = ..., shares: _Optional[bool] = ...) -> None: ...

class Open(_message.Message):
    __slots__ = ("digest", "register", "unregister", "epoch", "cursor", "ask", "again", "acked", "page_bytes", "interests", "unregister_interests", "streams", "never_opened", "descriptions", "channels_in_order", "all_unsettled", "shares", "kept")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    INTERESTS_FIELD_NUMBER: _ClassVar[int]
    UNREGISTER_INTERESTS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    NEVER_OPENED_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_IN_ORDER_FIELD_NUMBER: _ClassVar[int]
    ALL_UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    digest: int
    register: _containers.RepeatedScalarFieldContainer[str]
    unregister: _containers.RepeatedScalarFieldContainer[str]
    epoch: int
    cursor: int
    ask: int
    again: bool
    acked: int
    page_bytes: int
    interests: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Interest]
    unregister_interests: _containers.RepeatedScalarFieldContainer[int]
    streams: _containers.RepeatedCompositeFieldContainer[OpenStream]
    never_opened: bool
    descriptions: bool
    channels_in_order: bool
    all_unsettled: bool
    shares: bool
    kept: Kept
    def __init__(self, digest: _Optional[int] = ..., register: _Optional[_Iterable[str]] = ..., unregister: _Optional[_Iterable[str]] = ..., epoch: _Optional[int] = ..., cursor: _Optional[int] = ..., ask: _Optional[int] = ..., again: _Optional[bool] = ..., acked: _Optional[int] = ..., page_bytes: _Optional[int] = ..., interests: _Optional[_Iterable[_Union[_wire_pb2.Interest, _Mapping]]] = ..., unregister_interests: _Optional[_Iterable[int]] = ..., streams: _Optional[_Iterable[_Union[OpenStream, _Mapping]]] = ..., never_opened: _Optional[bool] = ..., descriptions: _Optional[bool] = ..., channels_in_order: _Optional[bool] = ..., all_unsettled: _Optional[bool] = ..., shares: _Optional[bool] = ..., kept: _Optional[_Union[Kept, _Mapping]] = ...) -> None: ...

class Kept(_message.Message):
    __slots__ = ("clean", "expiry_s", "protocol", "will", "packet_bytes_max")
    CLEAN_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_S_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    WILL_FIELD_NUMBER: _ClassVar[int]
    PACKET_BYTES_MAX_FIELD_NUMBER: _ClassVar[int]
    clean: bool
    expiry_s: int
    protocol: str
    will: Will
    packet_bytes_max: int
    def __init__(self, clean: _Optional[bool] = ..., expiry_s: _Optional[int] = ..., protocol: _Optional[str] = ..., will: _Optional[_Union[Will, _Mapping]] = ..., packet_bytes_max: _Optional[int] = ...) -> None: ...

class Will(_message.Message):
    __slots__ = ("topic", "payload", "retain", "qos", "delay_s", "expiry_s", "properties", "doubled")
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    RETAIN_FIELD_NUMBER: _ClassVar[int]
    QOS_FIELD_NUMBER: _ClassVar[int]
    DELAY_S_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_S_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    DOUBLED_FIELD_NUMBER: _ClassVar[int]
    topic: str
    payload: bytes
    retain: bool
    qos: int
    delay_s: int
    expiry_s: int
    properties: bytes
    doubled: bool
    def __init__(self, topic: _Optional[str] = ..., payload: _Optional[bytes] = ..., retain: _Optional[bool] = ..., qos: _Optional[int] = ..., delay_s: _Optional[int] = ..., expiry_s: _Optional[int] = ..., properties: _Optional[bytes] = ..., doubled: _Optional[bool] = ...) -> None: ...

class KeptSet(_message.Message):
    __slots__ = ("present", "filters", "complete", "unreleased")
    PRESENT_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    UNRELEASED_FIELD_NUMBER: _ClassVar[int]
    present: bool
    filters: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Interest]
    complete: int
    unreleased: _containers.RepeatedCompositeFieldContainer[Unreleased]
    def __init__(self, present: _Optional[bool] = ..., filters: _Optional[_Iterable[_Union[_wire_pb2.Interest, _Mapping]]] = ..., complete: _Optional[int] = ..., unreleased: _Optional[_Iterable[_Union[Unreleased, _Mapping]]] = ...) -> None: ...

class Unreleased(_message.Message):
    __slots__ = ("identifier", "id", "object", "version", "written")
    IDENTIFIER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    WRITTEN_FIELD_NUMBER: _ClassVar[int]
    identifier: int
    id: str
    object: str
    version: int
    written: bool
    def __init__(self, identifier: _Optional[int] = ..., id: _Optional[str] = ..., object: _Optional[str] = ..., version: _Optional[int] = ..., written: _Optional[bool] = ...) -> None: ...

class Receive(_message.Message):
    __slots__ = ("received", "released", "ask")
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    received: _containers.RepeatedCompositeFieldContainer[Unreleased]
    released: _containers.RepeatedScalarFieldContainer[int]
    ask: int
    def __init__(self, received: _Optional[_Iterable[_Union[Unreleased, _Mapping]]] = ..., released: _Optional[_Iterable[int]] = ..., ask: _Optional[int] = ...) -> None: ...

class OpenStream(_message.Message):
    __slots__ = ("log", "epoch", "cursor", "ask", "acked")
    LOG_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    ACKED_FIELD_NUMBER: _ClassVar[int]
    log: Log
    epoch: int
    cursor: int
    ask: int
    acked: int
    def __init__(self, log: _Optional[_Union[Log, str]] = ..., epoch: _Optional[int] = ..., cursor: _Optional[int] = ..., ask: _Optional[int] = ..., acked: _Optional[int] = ...) -> None: ...

class BegunStream(_message.Message):
    __slots__ = ("log", "epoch", "positions", "catch_up", "complete")
    LOG_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    log: Log
    epoch: int
    positions: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Position]
    catch_up: bool
    complete: int
    def __init__(self, log: _Optional[_Union[Log, str]] = ..., epoch: _Optional[int] = ..., positions: _Optional[_Iterable[_Union[_wire_pb2.Position, _Mapping]]] = ..., catch_up: _Optional[bool] = ..., complete: _Optional[int] = ...) -> None: ...

class AckedStream(_message.Message):
    __slots__ = ("log", "epoch", "sessions", "completes")
    LOG_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETES_FIELD_NUMBER: _ClassVar[int]
    log: Log
    epoch: int
    sessions: _containers.RepeatedScalarFieldContainer[int]
    completes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, log: _Optional[_Union[Log, str]] = ..., epoch: _Optional[int] = ..., sessions: _Optional[_Iterable[int]] = ..., completes: _Optional[_Iterable[int]] = ...) -> None: ...

class CompleteStream(_message.Message):
    __slots__ = ("log", "epoch", "complete", "ask", "age_ms")
    LOG_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    log: Log
    epoch: int
    complete: int
    ask: int
    age_ms: int
    def __init__(self, log: _Optional[_Union[Log, str]] = ..., epoch: _Optional[int] = ..., complete: _Optional[int] = ..., ask: _Optional[int] = ..., age_ms: _Optional[int] = ...) -> None: ...

class CatchUp(_message.Message):
    __slots__ = ("cursor", "ask", "page", "epoch", "page_bytes", "paging", "entries_max")
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    PAGING_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_MAX_FIELD_NUMBER: _ClassVar[int]
    cursor: int
    ask: int
    page: int
    epoch: int
    page_bytes: int
    paging: int
    entries_max: int
    def __init__(self, cursor: _Optional[int] = ..., ask: _Optional[int] = ..., page: _Optional[int] = ..., epoch: _Optional[int] = ..., page_bytes: _Optional[int] = ..., paging: _Optional[int] = ..., entries_max: _Optional[int] = ...) -> None: ...

class CheckDigest(_message.Message):
    __slots__ = ("digest", "ask")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    digest: int
    ask: int
    def __init__(self, digest: _Optional[int] = ..., ask: _Optional[int] = ...) -> None: ...

class Leave(_message.Message):
    __slots__ = ("complete", "epoch", "streams", "expiry_s", "will", "bye")
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    EXPIRY_S_FIELD_NUMBER: _ClassVar[int]
    WILL_FIELD_NUMBER: _ClassVar[int]
    BYE_FIELD_NUMBER: _ClassVar[int]
    complete: int
    epoch: int
    streams: _containers.RepeatedCompositeFieldContainer[CompleteStream]
    expiry_s: int
    will: WillEnd
    bye: bool
    def __init__(self, complete: _Optional[int] = ..., epoch: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[CompleteStream, _Mapping]]] = ..., expiry_s: _Optional[int] = ..., will: _Optional[_Union[WillEnd, str]] = ..., bye: _Optional[bool] = ...) -> None: ...

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

class ForgetShare(_message.Message):
    __slots__ = ("share", "channel")
    SHARE_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    share: str
    channel: str
    def __init__(self, share: _Optional[str] = ..., channel: _Optional[str] = ...) -> None: ...

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

class Describe(_message.Message):
    __slots__ = ("object", "patch", "ask")
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    PATCH_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    object: str
    patch: bytes
    ask: int
    def __init__(self, object: _Optional[str] = ..., patch: _Optional[bytes] = ..., ask: _Optional[int] = ...) -> None: ...

class Acks(_message.Message):
    __slots__ = ("sessions", "completes", "epoch", "streams")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    COMPLETES_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedScalarFieldContainer[int]
    completes: _containers.RepeatedScalarFieldContainer[int]
    epoch: int
    streams: _containers.RepeatedCompositeFieldContainer[AckedStream]
    def __init__(self, sessions: _Optional[_Iterable[int]] = ..., completes: _Optional[_Iterable[int]] = ..., epoch: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[AckedStream, _Mapping]]] = ...) -> None: ...

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
    __slots__ = ("fan_out", "opened", "answered", "page", "closed", "beat", "stream_page", "stream_fan_out", "there", "became", "noted", "described", "handed")
    FAN_OUT_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    CLOSED_FIELD_NUMBER: _ClassVar[int]
    BEAT_FIELD_NUMBER: _ClassVar[int]
    STREAM_PAGE_FIELD_NUMBER: _ClassVar[int]
    STREAM_FAN_OUT_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    BECAME_FIELD_NUMBER: _ClassVar[int]
    NOTED_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    HANDED_FIELD_NUMBER: _ClassVar[int]
    fan_out: FanOut
    opened: Opened
    answered: Answered
    page: Page
    closed: Closed
    beat: BeatAnswer
    stream_page: Page
    stream_fan_out: FanOut
    there: There
    became: Became
    noted: Noted
    described: Described
    handed: Handed
    def __init__(self, fan_out: _Optional[_Union[FanOut, _Mapping]] = ..., opened: _Optional[_Union[Opened, _Mapping]] = ..., answered: _Optional[_Union[Answered, _Mapping]] = ..., page: _Optional[_Union[Page, _Mapping]] = ..., closed: _Optional[_Union[Closed, _Mapping]] = ..., beat: _Optional[_Union[BeatAnswer, _Mapping]] = ..., stream_page: _Optional[_Union[Page, _Mapping]] = ..., stream_fan_out: _Optional[_Union[FanOut, _Mapping]] = ..., there: _Optional[_Union[There, _Mapping]] = ..., became: _Optional[_Union[Became, _Mapping]] = ..., noted: _Optional[_Union[Noted, _Mapping]] = ..., described: _Optional[_Union[Described, _Mapping]] = ..., handed: _Optional[_Union[Handed, _Mapping]] = ...) -> None: ...

class Newest(_message.Message):
    __slots__ = ("name", "version", "incarnation", "offset", "behind", "payload", "deleted", "answer", "entered", "left", "description", "raw", "answers", "properties", "expires_in_ms", "more")
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
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
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
    properties: bytes
    expires_in_ms: int
    more: bool
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., incarnation: _Optional[int] = ..., offset: _Optional[int] = ..., behind: _Optional[int] = ..., payload: _Optional[bytes] = ..., deleted: _Optional[bool] = ..., answer: _Optional[bool] = ..., entered: _Optional[_Iterable[int]] = ..., left: _Optional[_Iterable[int]] = ..., description: _Optional[bytes] = ..., raw: _Optional[bool] = ..., answers: _Optional[_Iterable[int]] = ..., properties: _Optional[bytes] = ..., expires_in_ms: _Optional[int] = ..., more: _Optional[bool] = ...) -> None: ...

class FanOut(_message.Message):
    __slots__ = ("newest", "sessions", "published_ms", "traceparent", "urgent", "pagings", "known_since", "entry")
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_MS_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
    PAGINGS_FIELD_NUMBER: _ClassVar[int]
    KNOWN_SINCE_FIELD_NUMBER: _ClassVar[int]
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    newest: Newest
    sessions: bytes
    published_ms: int
    traceparent: str
    urgent: bool
    pagings: _containers.RepeatedScalarFieldContainer[int]
    known_since: _containers.RepeatedScalarFieldContainer[int]
    entry: Entry
    def __init__(self, newest: _Optional[_Union[Newest, _Mapping]] = ..., sessions: _Optional[bytes] = ..., published_ms: _Optional[int] = ..., traceparent: _Optional[str] = ..., urgent: _Optional[bool] = ..., pagings: _Optional[_Iterable[int]] = ..., known_since: _Optional[_Iterable[int]] = ..., entry: _Optional[_Union[Entry, _Mapping]] = ...) -> None: ...

class Opened(_message.Message):
    __slots__ = ("session", "ask", "in_sync", "epoch", "digest", "refused", "kinds", "streams", "kept")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    IN_SYNC_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    in_sync: bool
    epoch: int
    digest: int
    refused: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Refusal]
    kinds: int
    streams: _containers.RepeatedCompositeFieldContainer[BegunStream]
    kept: KeptSet
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., in_sync: _Optional[bool] = ..., epoch: _Optional[int] = ..., digest: _Optional[int] = ..., refused: _Optional[_Iterable[_Union[_wire_pb2.Refusal, _Mapping]]] = ..., kinds: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[BegunStream, _Mapping]]] = ..., kept: _Optional[_Union[KeptSet, _Mapping]] = ...) -> None: ...

class Answered(_message.Message):
    __slots__ = ("session", "request", "unregistered", "refused", "newest", "digest", "kinds", "catch_up", "streams", "there")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    UNREGISTERED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    NEWEST_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    CATCH_UP_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    session: int
    request: int
    unregistered: bool
    refused: _containers.RepeatedCompositeFieldContainer[_wire_pb2.Refusal]
    newest: _containers.RepeatedCompositeFieldContainer[Newest]
    digest: int
    kinds: int
    catch_up: bool
    streams: _containers.RepeatedCompositeFieldContainer[BegunStream]
    there: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[int] = ..., request: _Optional[int] = ..., unregistered: _Optional[bool] = ..., refused: _Optional[_Iterable[_Union[_wire_pb2.Refusal, _Mapping]]] = ..., newest: _Optional[_Iterable[_Union[Newest, _Mapping]]] = ..., digest: _Optional[int] = ..., kinds: _Optional[int] = ..., catch_up: _Optional[bool] = ..., streams: _Optional[_Iterable[_Union[BegunStream, _Mapping]]] = ..., there: _Optional[_Iterable[int]] = ...) -> None: ...

class Page(_message.Message):
    __slots__ = ("session", "ask", "page", "newest", "last", "complete", "answered", "refused", "sets_digest", "query", "reached", "reached_at", "sets_unknown", "unchanged", "begun", "paging", "streams", "kind", "entries", "urgent")
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
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    URGENT_FIELD_NUMBER: _ClassVar[int]
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
    streams: _containers.RepeatedCompositeFieldContainer[CompleteStream]
    kind: PageKind
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    urgent: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., page: _Optional[int] = ..., newest: _Optional[_Iterable[_Union[Newest, _Mapping]]] = ..., last: _Optional[bool] = ..., complete: _Optional[int] = ..., answered: _Optional[_Iterable[int]] = ..., refused: _Optional[_Iterable[_Union[_wire_pb2.Refusal, _Mapping]]] = ..., sets_digest: _Optional[int] = ..., query: _Optional[int] = ..., reached: _Optional[str] = ..., reached_at: _Optional[int] = ..., sets_unknown: _Optional[bool] = ..., unchanged: _Optional[_Iterable[int]] = ..., begun: _Optional[_Iterable[int]] = ..., paging: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[CompleteStream, _Mapping]]] = ..., kind: _Optional[_Union[PageKind, str]] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ..., urgent: _Optional[_Iterable[int]] = ...) -> None: ...

class Entry(_message.Message):
    __slots__ = ("message", "missed", "properties", "expires_in_ms")
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    MISSED_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    message: _wire_pb2.Message
    missed: _wire_pb2.Missed
    properties: bytes
    expires_in_ms: int
    def __init__(self, message: _Optional[_Union[_wire_pb2.Message, _Mapping]] = ..., missed: _Optional[_Union[_wire_pb2.Missed, _Mapping]] = ..., properties: _Optional[bytes] = ..., expires_in_ms: _Optional[int] = ...) -> None: ...

class There(_message.Message):
    __slots__ = ("session", "ask", "there")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    THERE_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    there: bool
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., there: _Optional[bool] = ...) -> None: ...

class Handed(_message.Message):
    __slots__ = ("session", "leases", "entries")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LEASES_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    session: int
    leases: _wire_pb2.Leases
    entries: _containers.RepeatedCompositeFieldContainer[Entry]
    def __init__(self, session: _Optional[int] = ..., leases: _Optional[_Union[_wire_pb2.Leases, _Mapping]] = ..., entries: _Optional[_Iterable[_Union[Entry, _Mapping]]] = ...) -> None: ...

class Noted(_message.Message):
    __slots__ = ("session", "ask", "received")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    received: _containers.RepeatedCompositeFieldContainer[Unreleased]
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., received: _Optional[_Iterable[_Union[Unreleased, _Mapping]]] = ...) -> None: ...

class Described(_message.Message):
    __slots__ = ("session", "ask", "reason")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    ASK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session: int
    ask: int
    reason: str
    def __init__(self, session: _Optional[int] = ..., ask: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

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
    __slots__ = ("agreed", "complete", "serial", "streams", "age_ms", "held")
    AGREED_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    SERIAL_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    HELD_FIELD_NUMBER: _ClassVar[int]
    agreed: bool
    complete: int
    serial: int
    streams: _containers.RepeatedCompositeFieldContainer[CompleteStream]
    age_ms: int
    held: _containers.RepeatedCompositeFieldContainer[Held]
    def __init__(self, agreed: _Optional[bool] = ..., complete: _Optional[int] = ..., serial: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[CompleteStream, _Mapping]]] = ..., age_ms: _Optional[int] = ..., held: _Optional[_Iterable[_Union[Held, _Mapping]]] = ...) -> None: ...

class Held(_message.Message):
    __slots__ = ("domain", "age_ms")
    DOMAIN_FIELD_NUMBER: _ClassVar[int]
    AGE_MS_FIELD_NUMBER: _ClassVar[int]
    domain: str
    age_ms: int
    def __init__(self, domain: _Optional[str] = ..., age_ms: _Optional[int] = ...) -> None: ...

class Became(_message.Message):
    __slots__ = ("session", "outcome")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    session: int
    outcome: _wire_pb2.Outcome
    def __init__(self, session: _Optional[int] = ..., outcome: _Optional[_Union[_wire_pb2.Outcome, _Mapping]] = ...) -> None: ...
