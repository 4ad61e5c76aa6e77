"""Violations of the protocol by clients, and the checks that find them."""

from collections.abc import Collection, Iterable

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.frames import FrameError, FrameTooLarge
from coldnotify_schemas.interests import channel_text, check_query, pattern_name, share_text
from coldnotify_schemas.names import InvalidName, check_name, check_object
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX, PROTOCOL_VERSION
from coldnotify_schemas.share_names import HELD_MAX, LEASE_S_MAX, LEASE_S_MIN, PREFETCH_MAX, RETRY_S_MAX
from coldnotify_schemas.wire_pb2 import ClientFrame, HeldState, Hello, Hold, Interest, Since, Unsettled

from coldnotify_gateway.core.come_back import AS_YOU_LIKE, ComeBack

OFFSET_MAX = (1 << 63) - 1
"""Kafka's offsets are signed 64-bit integers."""
_REASON_CHARS_MAX = 200
"""Longest reason. A reason quotes the client's input, but a radio link need not carry all of that."""


class Violation(Exception):
    """The client broke the protocol. Its connection is closed with this code and reason."""

    def __init__(self, code: CloseCode, reason: str, come_back: ComeBack = AS_YOU_LIKE) -> None:
        super().__init__(reason[:_REASON_CHARS_MAX])
        self.code = code
        self.reason = reason[:_REASON_CHARS_MAX]
        self.come_back = come_back


def of_frame_error(error: FrameError) -> Violation:
    """Returns the violation for bytes that are not a valid frame."""
    code = CloseCode.FRAME_TOO_LARGE if isinstance(error, FrameTooLarge) else CloseCode.PROTOCOL_ERROR
    return Violation(code, str(error))


def check_session(frame: ClientFrame) -> None:
    """Raises Violation for a frame of another session than the connection's only one."""
    if frame.session:
        raise Violation(CloseCode.PROTOCOL_ERROR, f"session: is {frame.session}, a connection has session 0 only")


def check_hello(hello: Hello) -> None:
    """Checks a Hello. Raises Violation, whose reason begins with the invalid field."""
    if hello.protocol != PROTOCOL_VERSION:
        raise Violation(
            CloseCode.UNSUPPORTED_PROTOCOL, f"protocol: {hello.protocol} is not spoken here, only {PROTOCOL_VERSION}"
        )
    try:
        check_name("domain", hello.domain)
        check_name("group", hello.group)
        check_name("client", hello.client)
    except InvalidName as error:
        raise Violation(CloseCode.BAD_NAME, str(error)) from None
    interests = len(hello.interests) + len(hello.unregister_interests)
    _check_count("register and unregister", len(hello.register) + len(hello.unregister) + interests)
    _check_names("register", hello.register)
    _check_names("unregister", hello.unregister)
    _check_interests("interests", hello.interests)


def check_objects(field: str, objects: Collection[str], interests: Collection[Interest] | Collection[int] = ()) -> None:
    """Checks the object names, the interests and the total count of one frame. Raises Violation.

    `interests`: the interests to register, or the hashes of the interests to unregister.
    """
    _check_count(field, len(objects) + len(interests))
    _check_names(field, objects)
    _check_interests(field, (one for one in interests if isinstance(one, Interest)))


def check_unsettled(unsettled: Unsettled) -> None:
    """Checks the names in an Unsettled, and their number. Raises Violation."""
    _check_count("entries", len(unsettled.entries))
    _check_count("settled", len(unsettled.settled) + len(unsettled.settled_hashes))
    _check_names("settled", unsettled.settled)
    for entry in unsettled.entries:
        if not entry.HasField("hash"):
            _check_names("entries", (entry.name,))
        _check_count("members", len(entry.members))
        _check_names("members", entry.members)


def check_hold(hold: Hold) -> None:
    """Checks the numbers in a Hold, and how much it names. Raises Violation."""
    if not hold.number:
        raise Violation(CloseCode.PROTOCOL_ERROR, "hold: number: is 0, the first one is 1")
    if len(hold.shares) > OBJECTS_PER_FRAME_MAX:
        said = f"hold: shares: are {len(hold.shares)}, at most {OBJECTS_PER_FRAME_MAX} are taken"
        raise Violation(CloseCode.PROTOCOL_ERROR, said)
    count = sum(len(share.messages) for share in hold.shares)
    if count > HELD_MAX:
        raise Violation(CloseCode.PROTOCOL_ERROR, f"hold: messages: are {count}, at most {HELD_MAX} are taken")
    for share in hold.shares:
        _check_number("lease_s", share.lease_s, LEASE_S_MIN if share.lease_s else 0, LEASE_S_MAX)
        _check_number("prefetch", share.prefetch, 0, PREFETCH_MAX)
        for message in share.messages:
            _check_number("offset", message.offset, 0, OFFSET_MAX)
            _check_number("after_s", message.after_s, 0, RETRY_S_MAX)
            if message.state not in HeldState.values():
                raise Violation(CloseCode.PROTOCOL_ERROR, f"hold: state: {message.state} is not known here")


def _check_number(field: str, said: int, least: int, most: int) -> None:
    if not least <= said <= most:
        raise Violation(CloseCode.PROTOCOL_ERROR, f"hold: {field}: is {said} (from {least} to {most})")


def _check_count(field: str, count: int) -> None:
    if count > OBJECTS_PER_FRAME_MAX:
        raise Violation(
            CloseCode.PROTOCOL_ERROR,
            f"{field}: {count} objects, queries and channels in one frame, at most {OBJECTS_PER_FRAME_MAX} are taken",
        )


def _check_names(field: str, objects: Iterable[str]) -> None:
    try:
        for object_ in objects:
            check_object(object_)
    except InvalidName as error:
        raise Violation(CloseCode.BAD_NAME, f"{field}: {error}") from None


def _check_interests(field: str, interests: Iterable[Interest]) -> None:
    for interest in interests:
        match interest.kind:
            case wire_pb2.INTEREST_QUERY:
                _check_query(field, interest)
            case wire_pb2.INTEREST_CHANNEL | wire_pb2.INTEREST_PATTERN:
                _check_channel(field, interest)
            case wire_pb2.INTEREST_SHARE:
                _check_share(field, interest)
            case _:
                raise Violation(CloseCode.PROTOCOL_ERROR, f"{field}: kind: {interest.kind} is not known here")


def _check_query(field: str, query: Interest) -> None:
    try:
        check_query(query.text)
    except InvalidName as error:
        raise Violation(CloseCode.PROTOCOL_ERROR, f"{field}: {error}") from None


def _check_channel(field: str, channel: Interest) -> None:
    try:
        is_pattern = channel.kind == wire_pb2.INTEREST_PATTERN
        text = channel_text(pattern_name(channel.text) if is_pattern else channel.text, channel.attributes)
    except InvalidName as error:
        raise Violation(CloseCode.BAD_NAME, f"{field}: {error}") from None
    _check_beginning(field, channel, is_sorted=text.count("\x00") == len(channel.attributes) + is_pattern)


def _check_share(field: str, share: Interest) -> None:
    try:
        text = share_text(share.share, share.text, share.attributes)
    except InvalidName as error:
        raise Violation(CloseCode.BAD_NAME, f"{field}: {error}") from None
    _check_beginning(field, share, is_sorted=text.count("\x00") == len(share.attributes) + 1)


def _check_beginning(field: str, channel: Interest, *, is_sorted: bool) -> None:
    """`is_sorted`: each of its attributes is there once."""
    attributes = list(channel.attributes)
    if not is_sorted or attributes != sorted(attributes):
        raise Violation(CloseCode.PROTOCOL_ERROR, f"{field}: attributes: are not sorted, each once")
    if channel.since not in Since.values():
        raise Violation(CloseCode.PROTOCOL_ERROR, f"{field}: since: {channel.since} is not known here")
    if channel.at > OFFSET_MAX:
        raise Violation(CloseCode.PROTOCOL_ERROR, f"{field}: at: is {channel.at} (at most {OFFSET_MAX})")
