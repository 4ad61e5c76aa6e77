"""The fields for shares in the document, if there are any:

"shares": {text: {"since": "now", "lease_s": 30, "prefetch": 1}},
"pending_shares": {text: "register"}

What is in hand is not in it: after a crash, what had begun waits until its lease is over.
"""

from collections.abc import Mapping

from coldnotify_schemas.share_names import LEASE_S_MAX, LEASE_S_MIN, PREFETCH_MAX

from coldnotify._core.document.stored_fields import Fields, is_number, operations_of, table
from coldnotify._core.interests.interests import ShareInterest, share_from
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.interests.since import since_from
from coldnotify._core.shares.share_member import KeptShare
from coldnotify.errors import StateDamaged


def encode_shares(shares: Mapping[ShareInterest, KeptShare], pending: Mapping[ShareInterest, OperationKind]) -> Fields:
    """Returns the document's fields."""
    return {
        "shares": {
            one.text: {**kept.since.parts, "lease_s": kept.lease_s, "prefetch": kept.prefetch}
            for one, kept in sorted(shares.items(), key=lambda entry: entry[0])
        },
        "pending_shares": {one.text: kind.value for one, kind in pending.items()},
    }


def decode_shares(fields: Fields) -> Fields:
    """Parses the document's fields. Returns those of a Document. Raises StateDamaged."""
    entries = table(fields, "shares", _share_text)
    shares = {share_from(text): _decode_kept(entry) for text, entry in entries}
    if len({(one.channel, one.share) for one in shares}) < len(shares):
        raise StateDamaged("shares: has one name twice")
    texts = {text for text, _ in entries}
    operations = operations_of("pending_shares", table(fields, "pending_shares", _share_text), texts, "shares")
    return {"shares": shares, "pending_shares": {share_from(text): kind for text, kind in operations.items()}}


def _share_text(text: str) -> str:
    return share_from(text).text


def _decode_kept(entry: object) -> KeptShare:
    if not isinstance(entry, dict):
        raise StateDamaged("shares: has an entry that is not an object")
    lease_s, prefetch = entry.get("lease_s"), entry.get("prefetch")
    for name, value, least, most in (
        ("lease_s", lease_s, LEASE_S_MIN, LEASE_S_MAX),
        ("prefetch", prefetch, 1, PREFETCH_MAX),
    ):
        if not isinstance(value, int) or not is_number(value, most) or value < least:
            raise StateDamaged(f"shares: {name} is not a number from {least} to {most}")
    try:
        return KeptShare(since=since_from(entry), lease_s=entry["lease_s"], prefetch=entry["prefetch"])
    except ValueError as error:
        raise StateDamaged(f"shares: {error}") from None
