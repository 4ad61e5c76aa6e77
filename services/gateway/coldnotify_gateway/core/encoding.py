"""Builds the frames that a gateway writes, and has a dialect encode them."""

from collections.abc import Iterable
from functools import lru_cache

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.internal_pb2 import Answered, BegunStream, Entry, Handed, Newest, Opened, Page
from coldnotify_schemas.wire_pb2 import (
    CaughtUp,
    Close,
    GatewayFrame,
    Leases,
    PageEnd,
    Pong,
    Registered,
    Stream,
    Unregistered,
    Wait,
    Welcome,
)

from coldnotify_gateway.core.come_back import AS_YOU_LIKE, ComeBack
from coldnotify_gateway.core.freshness import NO_AGE_SAID, AgesSaid
from coldnotify_gateway.core.stream import CHANNELS, NONE, or_none
from coldnotify_gateway.core.told import Dialect, Encode, Fence, Frame, Told, of_entry

_NOTHING = Told()
_REGISTERED = Told(Fence.REGISTERED)
_WELCOME = Told(Fence.WELCOME)


def notification(newest: Newest, dialect: Dialect, *, answer: bool = False) -> Frame:
    """Returns the frame of a version. `answer`: marks it as an answer, even if the matcher did not.

    Every dialect uses the name of an object that enters or leaves the set of a query, or that has a description.
    """
    # Filled in place, which costs half as much as making a message from keywords and copying it into another.
    frame = GatewayFrame()
    message = frame.notification
    described = newest.HasField("description")
    if dialect.by_name or newest.entered or newest.left or described:
        message.name = newest.name
        message.entered.extend(newest.entered)
        message.left.extend(newest.left)
    else:
        message.crc = object_crc(newest.name)
    if newest.HasField("version"):
        message.version = newest.version
    message.incarnation = newest.incarnation
    message.offset = newest.offset
    message.behind = newest.behind
    if dialect.raw or not newest.raw:
        message.payload, message.raw = newest.payload, newest.raw
    if newest.deleted:
        message.deleted = True
    if newest.answer or answer:
        message.answer = True
    if newest.more:
        message.more = True
    if described:
        message.description = newest.description
    return dialect.encode(frame, Told(entering=newest.name) if newest.entered else _NOTHING)


def plain(frame: GatewayFrame, encode: Encode) -> Frame:
    """Returns a frame that names no object, and that any other frame may overtake."""
    return encode(frame, _NOTHING)


def complete_of(newest: Newest) -> int:
    """Returns the offset up to which this frame makes a client complete that has all earlier ones; NONE: unknown."""
    return NONE if newest.answer else newest.offset - newest.behind


def welcome(opened: Opened, encode: Encode, *, kinds_wanted: bool) -> Frame:
    """Returns the Welcome for a matcher's Opened. `kinds_wanted`: the client asks for the kinds that the service
    supports."""
    epoch = opened.epoch if opened.HasField("epoch") else None
    kinds = opened.kinds if kinds_wanted else 0
    streams = _begun(opened.streams)
    if opened.refused or streams:
        said = Welcome(in_sync=opened.in_sync, epoch=epoch, refused=opened.refused, kinds=kinds, streams=streams)
        return encode(GatewayFrame(welcome=said), _WELCOME)
    return _welcome(encode, opened.in_sync, epoch, kinds)


@lru_cache(maxsize=64)  # clients that reconnect together get the same frame
def _welcome(encode: Encode, in_sync: bool, epoch: int | None, kinds: int) -> Frame:
    return encode(GatewayFrame(welcome=Welcome(in_sync=in_sync, epoch=epoch, kinds=kinds)), _WELCOME)


def answer(answered: Answered, dialect: Dialect) -> list[Frame]:
    """Returns Registered or Unregistered, and the answer's versions. Further parts of an answer have request 0."""
    frames: list[Frame] = []
    if answered.request and answered.unregistered:
        frames.append(plain(GatewayFrame(unregistered=Unregistered(request=answered.request)), dialect.encode))
    elif answered.request:
        said = Registered(
            request=answered.request, refused=answered.refused, kinds=answered.kinds, streams=_begun(answered.streams)
        )
        frames.append(_registered(said, dialect.encode))
    return frames + [notification(one, dialect) for one in answered.newest]


def page(page: Page, dialect: Dialect, *, channels_complete: int = NONE, ages: AgesSaid = NO_AGE_SAID) -> list[Frame]:
    """Returns the frames of a page. Its last frame asks for an acknowledgement, or makes the client complete.

    `channels_complete`: the channels are live, and complete up to this offset; NONE: unknown. `ages`: as of the end of
    the page.
    """
    encode, newest = dialect.encode, list(page.newest)
    answers = next((place for place, one in enumerate(newest) if not one.answer), len(newest))
    frames = [_registered(Registered(begun=page.begun), encode)] if page.begun else []
    frames += [notification(one, dialect) for one in newest[:answers]]
    if page.answered or page.refused or page.unchanged:
        # Before the frames that move the cursor: a client that saved the cursor with its old set would lack members.
        registered = Registered(answered=page.answered, refused=page.refused, unchanged=page.unchanged)
        frames.append(_registered(registered, encode))
    frames += [notification(one, dialect) for one in newest[answers:]]
    if not page.last:
        said = PageEnd(page=page.page, sets_unknown=page.sets_unknown)
        if page.HasField("query"):
            said.query, said.reached, said.reached_at = page.query, page.reached, page.reached_at
        frames.append(plain(GatewayFrame(page_end=said), encode))
        if channels_complete != NONE:
            live = PageEnd(stream=CHANNELS, last=True, complete=channels_complete, age_s=ages.channels)
            frames.append(plain(GatewayFrame(page_end=live), encode))
        return frames
    complete = page.complete if page.HasField("complete") else None
    if page.HasField("sets_digest"):
        digest = page.sets_digest
        streams = _complete(channels_complete, ages)
        said_last = CaughtUp(complete=complete, sets_digest=digest, streams=streams, age_s=ages.objects)
        return [*frames, plain(GatewayFrame(caught_up=said_last), encode)]
    return [*frames, _caught_up(encode, complete, channels_complete, ages)]


@lru_cache(maxsize=64)
def _caught_up(encode: Encode, complete: int | None, channels_complete: int, ages: AgesSaid) -> Frame:
    said = CaughtUp(complete=complete, streams=_complete(channels_complete, ages), age_s=ages.objects)
    return plain(GatewayFrame(caught_up=said), encode)


def _complete(channels_complete: int, ages: AgesSaid) -> list[Stream]:
    """Returns the stream of channels with this `complete`; nothing if it is not known."""
    return [] if channels_complete == NONE else [Stream(complete=channels_complete, age_s=ages.channels)]


def _begun(streams: Iterable[BegunStream]) -> list[Stream]:
    """Returns the epochs of streams, and the first offsets of their registrations; nothing for one that has neither."""
    return [
        Stream(epoch=one.epoch if one.HasField("epoch") else None, positions=one.positions)
        for one in streams
        if one.HasField("epoch") or one.positions
    ]


def _registered(registered: Registered, encode: Encode) -> Frame:
    return encode(GatewayFrame(registered=registered), _REGISTERED)


def stream_entry(entry: Entry, encode: Encode) -> Frame:
    """Returns the frame of a Message or a Missed."""
    missed = entry.HasField("missed")
    frame = GatewayFrame(missed=entry.missed) if missed else GatewayFrame(message=entry.message)
    return encode(frame, of_entry(frame))


def as_part_of_a_page(frame: Frame, encode: Encode) -> Frame:
    """Returns the frame of a channel's entry, marked so that it moves no cursor."""
    if frame.told.entry is None:
        return frame  # it is marked already
    said = GatewayFrame()
    said.CopyFrom(frame.told.entry)
    message = said.missed if said.HasField("missed") else said.message
    message.paged = True
    return encode(said, of_entry(said))


def _mark_paged(entries: Iterable[Entry]) -> None:
    for entry in entries:
        message = entry.missed if entry.HasField("missed") else entry.message
        message.paged = True


def stream_entries(page: Page, encode: Encode) -> list[Frame]:
    """Returns the entries of a page of channels, which do not move the cursor."""
    _mark_paged(page.entries)
    return [stream_entry(entry, encode) for entry in page.entries]


def handed(handed: Handed, encode: Encode) -> list[Frame]:
    """Returns the frames of what a member of shares is handed, behind the answer to its Hold. They move no cursor, and
    are in no stream that others overtake."""
    frames = [plain(GatewayFrame(leases=handed.leases), encode)] if handed.HasField("leases") else []
    _mark_paged(handed.entries)
    said = [
        GatewayFrame(missed=one.missed) if one.HasField("missed") else GatewayFrame(message=one.message)
        for one in handed.entries
    ]
    return frames + [plain(frame, encode) for frame in said]


def say_all(encode: Encode) -> Frame:
    """Returns Leases that answer no Hold: the client's next one says all that it holds, because what it was handed may
    be lost."""
    return plain(GatewayFrame(leases=Leases()), encode)


def stream_page(page: Page, encode: Encode, age_s: int | None = None) -> list[Frame]:
    """Returns the frames of a page of channels, with its PageEnd. `age_s`: as of its end, if it is the last one."""
    said = PageEnd(page=page.page, stream=CHANNELS, last=page.last, age_s=age_s)
    if page.HasField("complete"):
        said.complete = page.complete
    return [*stream_entries(page, encode), plain(GatewayFrame(page_end=said), encode)]


def pong(complete: int, encode: Encode, channels_complete: int = NONE, ages: AgesSaid = NO_AGE_SAID) -> Frame:
    """Returns the answer to a Ping. NONE: the answer carries no offset."""
    streams = [] if ages.channels is None else [Stream(complete=or_none(channels_complete), age_s=ages.channels)]
    said = Pong(complete=or_none(complete), streams=streams, age_s=ages.objects)
    return plain(GatewayFrame(pong=said), encode)


def wait(seconds: int, encode: Encode) -> Frame:
    """Returns a Wait, which announces that the answer takes longer."""
    return plain(GatewayFrame(wait=Wait(seconds=seconds)), encode)


def close(code: int, reason: str, encode: Encode, come_back: ComeBack = AS_YOU_LIKE) -> Frame:
    """Returns a Close, which ends the session."""
    retry_after_s, not_here_s = come_back
    said = Close(code=code, reason=reason, retry_after_s=retry_after_s, not_here_s=not_here_s)
    return plain(GatewayFrame(close=said), encode)
