"""AtomicSet: versions of several objects of one group in one record, which becomes all of them or none.

Its key is `set:domain/group/ID`; ID recognises repeats. Its owner decides it as one, and writes a plain record of each
member behind it, then a null under the set's key. Each of these carries DECIDED_SET_HEADER: `epoch/offset won VERSION
INCARNATION ...`, a pair for each member in order; or `epoch/offset lost PLACE ...`, the places of members at fault.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from coldnotify_schemas.decisions import ConditionVerdict
from coldnotify_schemas.names import InvalidName, check_object, object_key
from coldnotify_schemas.protocol import MESSAGE_ID_BYTES_MAX
from coldnotify_schemas.records import (
    CONDITIONS,
    PAYLOAD_BYTES_MAX,
    VERSION_MAX,
    ConditionalRecord,
    InvalidRecord,
    PublicRecord,
    parse_headed_record,
)
from coldnotify_schemas.whole_numbers import offset_in_epoch, whole_number

SET_PREFIX = "set:"
"""Begins the key of a set's records. ":" cannot be in a domain's name, so no object has such a key."""
MEMBERS_MAX = 100
SET_BYTES_MAX = 60 * 1024
"""Limit on a set's whole value: all its versions fit into one page."""
DECIDED_SET_HEADER = "coldnotify-decided-set"
_AGAIN = b"again"


class SetMember(NamedTuple):
    """One version of a set."""

    object: str
    said: ConditionalRecord
    """Its condition may be none: then its version has to be above the newest one."""


class AtomicSet(NamedTuple):
    """A set as its record's value has it."""

    members: tuple[SetMember, ...]


class InvalidSet(InvalidRecord):
    """A set is invalid. The message begins with the field at fault, as `set[3].version`."""


class DecidedSet(NamedTuple):
    """One set, and what was decided of it as a whole."""

    offset: int
    """The set's place."""
    verdict: ConditionVerdict
    """WON, LOST or UNKNOWN."""
    versions: tuple[tuple[int, int], ...] = ()
    """Each member's (version, incarnation), if the set has won."""
    faults: tuple[int, ...] = ()
    """The places of the members whose conditions did not hold."""
    again: bool = False
    """True if it repeats the ID of one that was decided before, whose verdict this is: it brings no version itself."""

    @property
    def is_versions(self) -> bool:
        """True if the set itself brought versions."""
        return self.verdict is ConditionVerdict.WON and not self.again


class _Value(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    set: list[dict[str, msgspec.Raw]]


_decoder = msgspec.json.Decoder(_Value)
_encoder = msgspec.json.Encoder()


def set_key(domain: str, group: str, id_: str) -> str:
    """Returns the key of a set's records, checked. Raises InvalidName."""
    size = len(id_.encode(errors="replace"))
    if not 0 < size <= MESSAGE_ID_BYTES_MAX:
        raise InvalidName(f"id: has {size} bytes (from 1 to {MESSAGE_ID_BYTES_MAX} are allowed)")
    return SET_PREFIX + object_key(domain, group, check_object(id_, "id"))


def parse_set(value: bytes, *, payload_bytes_max: int = PAYLOAD_BYTES_MAX) -> AtomicSet:
    """Returns the set that a record's value is: {"set": [{"object": NAME, ...}, ...]}. A member has the fields of a
    public record, `payload_base64` and at most one condition. Raises InvalidSet."""
    if len(value) > SET_BYTES_MAX:
        raise InvalidSet(f"set: has {len(value)} bytes (at most {SET_BYTES_MAX} are allowed)")
    try:
        items = _decoder.decode(value).set
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSet(f'set: is not {{"set": [{{"object": ...}}, ...]}}: {error}') from None
    return make_set([_member(place, fields, payload_bytes_max) for place, fields in enumerate(items)])


def make_set(members: Sequence[SetMember]) -> AtomicSet:
    """Returns the set of these members, which are valid in themselves. Raises InvalidSet."""
    if not 0 < len(members) <= MEMBERS_MAX:
        raise InvalidSet(f"set: has {len(members)} objects (from 1 to {MEMBERS_MAX} are allowed)")
    places: dict[str, int] = {}
    for place, member in enumerate(members):
        if (first := places.setdefault(member.object, place)) != place:
            raise InvalidSet(f"set[{place}].object: {member.object[:80]!r} is in set[{first}], too")
    return AtomicSet(tuple(members))


def encode_set(said: AtomicSet) -> bytes:
    """Returns the value of a set's record. Raises InvalidSet if it is too long."""
    value = _encoder.encode({"set": [_fields(member) for member in said.members]})
    if len(value) > SET_BYTES_MAX:
        raise InvalidSet(f"set: has {len(value)} bytes as JSON (at most {SET_BYTES_MAX} are allowed)")
    return value


def _member(place: int, fields: dict[str, msgspec.Raw], payload_bytes_max: int) -> SetMember:
    where = f"set[{place}]"
    raw = fields.pop("object", None)
    if raw is None:
        raise InvalidSet(f"{where}.object: is missing")
    try:
        name = check_object(msgspec.json.decode(raw, type=str))
        return SetMember(name, _conditional(_encoder.encode(fields), payload_bytes_max))
    except InvalidName as error:
        raise InvalidSet(f"{where}.{error}") from None
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InvalidSet(f"{where}.object: is not text") from None
    except InvalidRecord as error:
        raise InvalidSet(f"{where}.{error}") from None


def _conditional(value: bytes, payload_bytes_max: int) -> ConditionalRecord:
    record = parse_headed_record(value, payload_bytes_max=payload_bytes_max, conditions=True)
    return of_set(record)


def of_set(record: PublicRecord) -> ConditionalRecord:
    """Returns a version as a set has it. Raises InvalidRecord for what no set can say of a member."""
    if record.incarnation is not None:
        raise InvalidRecord("incarnation: cannot be in a set")
    fields = {name: getattr(record, name) for name in record.__struct_fields__}
    if fields.get("priority") is not None:
        raise InvalidRecord("priority: cannot be in a set, as one member would overtake the others")
    if fields.get("id") is not None:
        raise InvalidRecord("id: is the set's, and not a member's")
    return ConditionalRecord(**fields)


def has_condition(said: ConditionalRecord) -> bool:
    """Returns true if a member names a condition."""
    return said.if_version is not None or said.if_absent or said.if_changed


def _fields(member: SetMember) -> dict[str, object]:
    said = member.said
    fields: dict[str, object] = {"object": member.object}
    for name in ("version", "source", "expires_at", "deleted", *CONDITIONS):
        value = getattr(said, name)
        if value is not None and value is not False:
            fields[name] = value
    if said.is_raw:
        fields["payload_base64"] = said.payload_base64
    elif said.payload is not msgspec.UNSET:
        fields["payload"] = said.payload
    return fields


def decided_set_header(epoch: int, decided: DecidedSet) -> tuple[str, bytes]:
    """Returns the header that says what was decided of a set."""
    won = decided.verdict is ConditionVerdict.WON
    numbers = [number for pair in decided.versions for number in pair] if won else decided.faults
    words = [b"%08x/%d" % (epoch, decided.offset), decided.verdict.value.encode(), *(b"%d" % one for one in numbers)]
    return DECIDED_SET_HEADER, b" ".join([*words, _AGAIN] if decided.again else words)


def decided_set_of(value: bytes, epoch: int, most: int) -> DecidedSet | None:
    """Returns what a header's value says of a set at an offset up to `most`; None: it is of another epoch, or not of
    this form."""
    place, *words = value.split(b" ")
    offset = offset_in_epoch(place, epoch, most)
    again = words[-1:] == [_AGAIN]
    said = words[:-1] if again else words
    if offset is None or not said or len(said) > 2 * MEMBERS_MAX + 1:
        return None
    numbers = [whole_number(one, VERSION_MAX) for one in said[1:]]
    found = [one for one in numbers if one is not None]
    if not found or len(found) != len(numbers):
        return None
    if said[0] == ConditionVerdict.WON.value.encode():
        if len(found) % 2:
            return None
        return DecidedSet(offset, ConditionVerdict.WON, tuple(zip(found[::2], found[1::2], strict=True)), (), again)
    for verdict in (ConditionVerdict.LOST, ConditionVerdict.UNKNOWN):
        if said[0] == verdict.value.encode():
            return DecidedSet(offset, verdict, (), tuple(found), again)
    return None
