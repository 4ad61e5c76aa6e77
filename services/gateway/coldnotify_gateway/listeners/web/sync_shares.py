"""The JSON of shares in POST /v1/sync: what a request says of its leases, and what the answer hands out. Pure."""

import base64
from collections.abc import Iterator
from typing import Any

import msgspec
from coldnotify_common.http.json_answers import with_texts
from coldnotify_common.http.web import BadRequest
from coldnotify_common.played.agent_shares import AgentShares, PlayedLease, SaidLease, WantedShare, parse_lease
from coldnotify_schemas.interests import share_hash, share_of, share_text
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX
from coldnotify_schemas.share_names import HELD_MAX, LEASE_S_MAX, LEASE_S_MIN, PREFETCH_MAX, RETRY_S_MAX
from coldnotify_schemas.wire_pb2 import (
    EXPIRED,
    HELD_BACK,
    HELD_BEGUN,
    HELD_DONE,
    HELD_REJECTED,
    HELD_WAITS,
    INTEREST_SHARE,
    LOST,
    RETENTION,
    UNREADABLE,
    HeldState,
    Interest,
    Message,
    Missed,
)

from coldnotify_gateway.listeners.web.sync_since import SHOWN_CHARS, since_wanted

SHARES_MAX = OBJECTS_PER_FRAME_MAX
_STATES: dict[str, tuple[HeldState, bool]] = {
    "waits": (HELD_WAITS, False),
    "begun": (HELD_BEGUN, False),
    "done": (HELD_DONE, False),
    "failed": (HELD_BACK, True),
    "back": (HELD_BACK, False),
    "rejected": (HELD_REJECTED, False),
}
REASONS = {RETENTION: "retention", EXPIRED: "expired", LOST: "lost", UNREADABLE: "unreadable"}


class SaidHeld(msgspec.Struct, forbid_unknown_fields=True):
    """A lease as a request has it."""

    lease: str
    state: str = "waits"
    after_s: int = 0


class SaidShare(msgspec.Struct, forbid_unknown_fields=True):
    """A share as a request has it."""

    channel: str
    share: str
    since: str | int = "now"
    attributes: list[str] = []
    lease_s: int = 30
    prefetch: int = 1
    held: list[SaidHeld] = []


def parse_shares(said: list[SaidShare]) -> Iterator[tuple[int, WantedShare]]:
    """Yields each share with the hash of its registration. Raises BadRequest and InvalidName."""
    named: set[tuple[str, str]] = set()
    in_hand = ahead = 0
    for one in said:
        in_hand, ahead = in_hand + len(one.held), ahead + one.prefetch
        if in_hand > HELD_MAX:
            raise BadRequest("held", f"more than {HELD_MAX} of them, at most {HELD_MAX} are taken")
        _check("lease_s", one.lease_s, LEASE_S_MIN, LEASE_S_MAX)
        _check("prefetch", one.prefetch, 0, PREFETCH_MAX)
        if ahead > HELD_MAX:
            raise BadRequest("prefetch", f"the shares have {ahead} together, at most {HELD_MAX} are taken")
        text = share_text(one.share, one.channel, one.attributes)
        if (one.channel, one.share) in named:
            words = f"the share {one.share} of the channel {one.channel[:SHOWN_CHARS]!r} is there twice"
            raise BadRequest("shares", words)
        named.add((one.channel, one.share))
        share, channel, attributes = share_of(text)
        interest = Interest(kind=INTEREST_SHARE, text=channel, share=share, attributes=attributes)
        since_wanted(interest, one.since)
        held = [_held(entry) for entry in one.held]
        if len({lease.name.offset for lease in held}) < len(held):
            raise BadRequest("held", f"a message of the share {one.share} is there twice")
        yield share_hash(text), WantedShare(interest, one.lease_s, one.prefetch, tuple(held))


def _held(said: SaidHeld) -> SaidLease:
    name = parse_lease(said.lease)
    if name is None:
        raise BadRequest("lease", f"{said.lease[:SHOWN_CHARS]!r} was not told as a lease")
    if said.state not in _STATES:
        raise BadRequest("state", f"{said.state[:SHOWN_CHARS]!r} must be one of {', '.join(_STATES)}")
    state, failed = _STATES[said.state]
    _check("after_s", said.after_s, 0, RETRY_S_MAX)
    if said.after_s and state != HELD_BACK:
        raise BadRequest("after_s", f"is for failed and back only, not for {said.state}")
    return SaidLease(name, state, said.after_s, failed)


def _check(field: str, said: int, least: int, most: int) -> None:
    if not least <= said <= most:
        raise BadRequest(field, f"{str(said)[:SHOWN_CHARS]} is not from {least} to {most}")


def show_shares(shares: AgentShares, now: float) -> bytes:
    """Returns the answer's field of shares, with a comma before it; b"" without any. `now`: as the leases' ends."""
    if not shares.wanted:
        return b""
    told = [_share(shares, hash_, wanted, now) for hash_, wanted in shares.wanted.items()]
    return b',"shares":' + msgspec.json.encode(told)


def _share(shares: AgentShares, hash_: int, wanted: WantedShare, now: float) -> dict[str, Any]:
    shown: dict[str, Any] = {"channel": wanted.interest.text, "share": wanted.interest.share}
    if hash_ in shares.refused:
        return shown | {"refused": shares.refused[hash_]}
    handed = [one for one in shares.handed if one.share == hash_]
    return shown | {
        "handed": [_handed(one, now) for one in handed],
        "held": {str(one.name): _ends_in_s(one, now) for one in shares.held if one.share == hash_},
        "settled": [str(one.name) for one in shares.settled if one.share == hash_],
        "lost": [str(one.name) for one in shares.lost if one.share == hash_],
    }


def _ends_in_s(lease: PlayedLease, now: float) -> float:
    return max(0.0, int((lease.ends_at - now) * 10) / 10)  # rounded down


def _handed(lease: PlayedLease, now: float) -> dict[str, Any]:
    entry = lease.entry
    shown: dict[str, Any] = {"lease": str(lease.name), "ends_in_s": _ends_in_s(lease, now)}
    if isinstance(entry, Missed):
        after = entry.after if entry.HasField("after") else None
        reason = REASONS.get(entry.reason, "unknown")
        shown["missed"] = {"after": after, "before": entry.before, "reason": reason}
    elif entry is not None:
        shown |= {"attempts": entry.attempts, **told_of(entry)}
        if entry.key:
            shown["key"] = entry.key
    told: dict[str, Any] = with_texts(shown)
    return told


def told_of(message: Message) -> dict[str, Any]:
    """Returns the fields of a message of a channel."""
    shown: dict[str, Any] = {"offset": message.offset}
    try:
        msgspec.json.decode(message.payload)
        shown["payload"] = msgspec.Raw(message.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        shown["payload_base64"] = base64.b64encode(message.payload).decode()
    if message.id:
        shown["id"] = message.id
    if message.source:
        shown["source"] = message.source
    if message.published_ms:
        shown["published_ms"] = message.published_ms
    return shown


def size_of_handed(entry: Message | Missed) -> int:
    """Returns about how many bytes a hand-out takes in the answer, and its lease in the next request."""
    return 200 + (len(entry.payload) + len(entry.key) if isinstance(entry, Message) else 0)
