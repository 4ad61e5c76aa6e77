"""Records of the requests topic: each field is checked as they are read, so that no handler meets an unusable one.

A writer to the topic may write anything. An invalid request is set aside, and the next is read.
"""

from collections.abc import Sequence

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import check_id
from coldnotify_schemas.description_patches import PATCH_BYTES_MAX
from coldnotify_schemas.internal_protocol import FORMAT
from coldnotify_schemas.matcher_state import generation_max
from coldnotify_schemas.mqtt.kept_properties import check_kept
from coldnotify_schemas.mqtt.packets import PACKET_ID_MAX
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.partitioner import home_of
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX, PUBLISHES_UNANSWERED_MAX, REGISTRATIONS_MAX
from coldnotify_schemas.records import LARGEST_PAYLOAD_BYTES, InvalidRecord
from coldnotify_schemas.share_names import HELD_MAX, LEASE_S_MAX, LEASE_S_MIN, PREFETCH_MAX, RETRY_S_MAX, check_share
from google.protobuf.message import DecodeError

from coldnotify_matcher.engine.inputs.operating import KINDS as OF_AN_OPERATOR
from coldnotify_matcher.state_records import OFFSET_MAX, OPTIONS_MAX, PROTOCOL_CHARS_MAX, UnreadableState

PAGE_MAX = (1 << 32) - 2
"""The next page's number is one higher, and has 32 bits, too."""

_NUMBER_MAX = (1 << 32) - 1
_OF_A_GATEWAY = frozenset(("acks", "beat"))
"""Requests that do not come from a client."""
REASON_CHARS_MAX = 400
"""Maximum of an operator's reason for a client: gateways pass on at most 1,000."""


def parse_request(value: bytes, *, partition: int, partitions: int, inboxes: int, now_ms: int) -> internal_pb2.Request:
    """Returns the request in `value`, for one of `partitions` partitions. Raises UnreadableState, which names the
    field.

    `inboxes`: the number of partitions of the topic of notifications.
    """
    try:
        request = internal_pb2.Request.FromString(value)
    except DecodeError:
        raise UnreadableState("request: not a message of internal.proto") from None
    if request.format != FORMAT:
        raise UnreadableState(f"format: is {request.format}; this release knows {FORMAT}")
    kind = request.WhichOneof("body")
    if kind is None:
        raise UnreadableState("body: is missing, or of a kind that this release does not know")
    if kind == "forget_share":
        _check_home(request, partition, partitions)
        _check_share(request.forget_share)
        return request
    if kind in OF_AN_OPERATOR:
        _check_client(request, partition, partitions)
        reason = request.forget.reason if kind == "forget" else request.disconnect.reason
        if len(reason) > REASON_CHARS_MAX:
            raise UnreadableState(f"reason: has {len(reason)} characters (at most {REASON_CHARS_MAX})")
        return request
    if not request.gateway:
        raise UnreadableState("gateway: is 0, which stands for all gateways")
    if request.inbox >= inboxes:
        raise UnreadableState(f"inbox: is {request.inbox}, and there are {inboxes}")
    if kind not in _OF_A_GATEWAY:
        _check_client(request, partition, partitions)
        if not request.session:
            raise UnreadableState("session: is 0")
    _check_body(request, kind, now_ms)
    return request


def _check_client(request: internal_pb2.Request, partition: int, partitions: int) -> None:
    _check_home(request, partition, partitions)
    try:
        check_name("client", request.client)
    except InvalidName as error:
        raise UnreadableState(str(error)) from None


def _check_share(said: internal_pb2.ForgetShare) -> None:
    try:
        check_share(said.share, check_object(said.channel, "channel"))
    except InvalidName as error:
        raise UnreadableState(str(error)) from None


def _check_home(request: internal_pb2.Request, partition: int, partitions: int) -> None:
    try:
        home = home_of(request.domain, request.group, partitions)
    except InvalidName as error:
        raise UnreadableState(str(error)) from None
    if home != partition:
        raise UnreadableState(
            f"group: {request.domain}/{request.group} belongs to partition {home}, not to {partition}"
        )


def _check_body(request: internal_pb2.Request, kind: str, now_ms: int) -> None:
    match kind:
        case "open":
            _check_objects("register", request.open.register)
            _check_objects("unregister", request.open.unregister)
            _check_interests(request.open.interests)
            if len(request.open.kept.protocol) > PROTOCOL_CHARS_MAX:
                count = len(request.open.kept.protocol)
                raise UnreadableState(f"protocol: has {count} characters (at most {PROTOCOL_CHARS_MAX})")
            if request.open.kept.HasField("will"):
                _check_will(request.open.kept.will)
        case "register":
            _check_objects("objects", request.register.objects)
            _check_interests(request.register.interests)
        case "unregister":
            _check_objects("objects", request.unregister.objects)
        case "sync":
            _check_objects("objects", request.sync.objects)
            _check_interests(request.sync.interests)
        case "unsettled":
            _check_unsettled(request.unsettled)
        case "is_there":
            _check_objects("object", [request.is_there.object])
        case "hold":
            _check_hold(request.hold)
        case "receive":
            _check_receive(request.receive)
        case "describe":
            _check_objects("object", [request.describe.object])
            if len(request.describe.patch) > PATCH_BYTES_MAX:
                count = len(request.describe.patch)
                raise UnreadableState(f"patch: has {count} bytes (at most {PATCH_BYTES_MAX} are allowed)")
        case "ask_outcome":
            _check_objects("object", [request.ask_outcome.object])
        case "catch_up" if request.catch_up.page > PAGE_MAX:
            raise UnreadableState(f"page: is {request.catch_up.page} (at most {PAGE_MAX})")
        case "stream_catch_up" if request.stream_catch_up.page > PAGE_MAX:
            raise UnreadableState(f"page: is {request.stream_catch_up.page} (at most {PAGE_MAX})")
        case "acks":
            _check_acks(request.acks)
            for stream in request.acks.streams:
                _check_acks(stream)
        case "beat" if request.beat.generation > generation_max(now_ms):
            raise UnreadableState(f"generation: {request.beat.generation} takeovers cannot have been")


def _check_will(will: internal_pb2.Will) -> None:
    _check_objects("will topic", [will.topic])
    if len(will.payload) > LARGEST_PAYLOAD_BYTES:
        raise UnreadableState(f"will payload: has {len(will.payload)} bytes (at most {LARGEST_PAYLOAD_BYTES})")
    try:
        check_kept(will.properties)
    except ValueError as error:
        raise UnreadableState(f"will properties: {error}") from None


def _check_receive(said: internal_pb2.Receive) -> None:
    for field, count in (("received", len(said.received)), ("released", len(said.released))):
        if count > PUBLISHES_UNANSWERED_MAX:
            raise UnreadableState(f"{field}: has {count} entries (at most {PUBLISHES_UNANSWERED_MAX} are allowed)")
    _check_objects("received", [one.object for one in said.received if one.object])
    for one in said.received:
        if not 1 <= one.identifier <= PACKET_ID_MAX:
            raise UnreadableState(f"identifier: is {one.identifier} (1 to {PACKET_ID_MAX} is possible)")
        try:
            check_id(one.id)
        except InvalidRecord as error:
            raise UnreadableState(str(error)) from None


def _check_hold(said: wire_pb2.Hold) -> None:
    _check_number("number", said.number, 1, _NUMBER_MAX)
    _check_number("shares", len(said.shares), 0, REGISTRATIONS_MAX)
    _check_number("messages", sum(len(share.messages) for share in said.shares), 0, HELD_MAX)
    for share in said.shares:
        _check_number("prefetch", share.prefetch, 0, PREFETCH_MAX)
        if share.prefetch or share.lease_s:
            _check_number("lease_s", share.lease_s, LEASE_S_MIN, LEASE_S_MAX)
        for message in share.messages:
            _check_number("offset", message.offset, 0, OFFSET_MAX)
            _check_number("after_s", message.after_s, 0, RETRY_S_MAX)
            if message.state not in wire_pb2.HeldState.values():
                raise UnreadableState(f"state: is {message.state}, which this release does not know")


def _check_number(field: str, number: int, least: int, most: int) -> None:
    if not least <= number <= most:
        raise UnreadableState(f"{field}: is {number} ({least} to {most} is possible)")


def _check_unsettled(said: wire_pb2.Unsettled) -> None:
    if len(said.entries) > OBJECTS_PER_FRAME_MAX:
        raise UnreadableState(f"entries: has {len(said.entries)} entries (at most {OBJECTS_PER_FRAME_MAX} are allowed)")
    _check_objects("entries", [entry.name for entry in said.entries if not entry.HasField("hash")])
    for entry in said.entries:
        _check_objects("members", entry.members)
    _check_objects("settled", said.settled)
    if len(said.settled_hashes) > OBJECTS_PER_FRAME_MAX:
        raise UnreadableState(
            f"settled_hashes: {len(said.settled_hashes)} (at most {OBJECTS_PER_FRAME_MAX} are allowed)"
        )


def _check_acks(acks: internal_pb2.Acks | internal_pb2.AckedStream) -> None:
    if len(acks.sessions) != len(acks.completes):
        raise UnreadableState("acks: sessions and completes are not equally many")


def _check_interests(interests: Sequence[wire_pb2.Interest]) -> None:
    """Check interests, but not their texts: the engine refuses invalid ones, for which the client is responsible."""
    if len(interests) > OBJECTS_PER_FRAME_MAX:
        count = len(interests)
        raise UnreadableState(f"interests: has {count} interests (at most {OBJECTS_PER_FRAME_MAX} are allowed)")
    for interest in interests:
        if interest.since not in wire_pb2.Since.values():
            raise UnreadableState(f"since: is {interest.since}, which this release does not know")
        if interest.options > OPTIONS_MAX:
            raise UnreadableState(f"options: is {interest.options} (at most {OPTIONS_MAX})")


def _check_objects(field: str, objects: Sequence[str]) -> None:
    if len(objects) > OBJECTS_PER_FRAME_MAX:
        raise UnreadableState(f"{field}: has {len(objects)} objects (at most {OBJECTS_PER_FRAME_MAX} are allowed)")
    try:
        for name in objects:
            check_object(name)
    except InvalidName as error:
        raise UnreadableState(f"{field}: {error}") from None
