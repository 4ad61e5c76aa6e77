"""The frames a gateway writes, as bytes."""

from functools import lru_cache

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import Answered, ChannelEntry, ChannelPage, Newest, Opened, Page
from coldnotify_schemas.wire_pb2 import (
    CaughtUp,
    ChannelsEnd,
    Close,
    GatewayFrame,
    PageEnd,
    Pong,
    Registered,
    Unregistered,
    Wait,
    Welcome,
)

NONE = -1
"""A `complete` that is none: nothing is below it."""


def _optional(complete: int) -> int | None:
    return None if complete == NONE else complete


def notification(newest: Newest, *, names: bool) -> bytes:
    """The frame of a version: the object by its CRC-32, or by its name in sessions that asked for names.

    What enters or leaves the set of a query, or is described, is always said by its name.
    """
    # Filled in place: half of what it costs to make a message of keywords and copy it into another.
    frame = GatewayFrame()
    message = frame.notification
    described = newest.HasField("description")
    if names or newest.entered or newest.left or described:
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
    message.payload = newest.payload
    if newest.deleted:
        message.deleted = True
    if newest.answer:
        message.answer = True
    if described:
        message.description = newest.description
    return encode(frame)


def notifications(newest: list[Newest], *, names: bool) -> bytes:
    """The frames of several versions, one after the other."""
    return b"".join(notification(one, names=names) for one in newest)


def complete_of(newest: Newest) -> int:
    """Up to where a client is complete that has got everything up to this frame; NONE if the frame does not say."""
    return NONE if newest.answer else newest.offset - newest.behind


def welcome(opened: Opened, *, kinds_wanted: bool) -> bytes:
    """The matcher's Opened, as its client is told. `kinds_wanted`: it wants to know what the service knows."""
    epoch = opened.epoch if opened.HasField("epoch") else None
    kinds = opened.kinds if kinds_wanted else 0
    if opened.refused or opened.positions or opened.HasField("channels_epoch"):
        said = Welcome(
            in_sync=opened.in_sync, epoch=epoch, refused=opened.refused, kinds=kinds, positions=opened.positions
        )
        if opened.HasField("channels_epoch"):
            said.channels_epoch = opened.channels_epoch
        return encode(GatewayFrame(welcome=said))
    return _welcome(opened.in_sync, epoch, kinds)


@lru_cache(maxsize=64)  # who comes back together is told the same
def _welcome(in_sync: bool, epoch: int | None, kinds: int) -> bytes:
    return encode(GatewayFrame(welcome=Welcome(in_sync=in_sync, epoch=epoch, kinds=kinds)))


def answer(answered: Answered, *, names: bool) -> bytes:
    """Registered or Unregistered, and the versions that come with it. Further parts of an answer have request 0."""
    if not answered.request:
        frame = b""
    elif answered.unregistered:
        frame = encode(GatewayFrame(unregistered=Unregistered(request=answered.request)))
    else:
        said = Registered(
            request=answered.request, refused=answered.refused, kinds=answered.kinds, positions=answered.positions
        )
        if answered.HasField("channels_epoch"):
            said.channels_epoch = answered.channels_epoch
        frame = encode(GatewayFrame(registered=said))
    return frame + notifications(list(answered.newest), names=names)


def page(page: Page, *, names: bool, channels_complete: int = NONE) -> bytes:
    """What a page says, and how it ends: the next one comes when it is acknowledged, or the client is complete.

    `channels_complete`: nothing lacks in channels up to there, and they are live; NONE: it does not say.
    """
    newest = list(page.newest)
    answers = next((place for place, one in enumerate(newest) if not one.answer), len(newest))
    frames = notifications(newest[:answers], names=names)
    if page.begun:
        frames = encode(GatewayFrame(registered=Registered(begun=page.begun))) + frames
    if page.answered or page.refused or page.unchanged:
        # In front of what moves the cursor: a client that saves it with the set it had would lack who entered before.
        registered = Registered(answered=page.answered, refused=page.refused, unchanged=page.unchanged)
        frames += encode(GatewayFrame(registered=registered))
    frames += notifications(newest[answers:], names=names)
    if not page.last:
        said = PageEnd(page=page.page, sets_unknown=page.sets_unknown)
        if page.HasField("query"):
            said.query, said.reached, said.reached_at = page.query, page.reached, page.reached_at
        frames += encode(GatewayFrame(page_end=said))
        if channels_complete != NONE:
            frames += encode(GatewayFrame(channels_end=ChannelsEnd(last=True, complete=channels_complete)))
        return frames
    complete = page.complete if page.HasField("complete") else None
    if page.HasField("sets_digest"):
        digest = page.sets_digest
        said_last = CaughtUp(complete=complete, sets_digest=digest, channels_complete=_optional(channels_complete))
        return frames + encode(GatewayFrame(caught_up=said_last))
    return frames + _caught_up(complete, _optional(channels_complete))


@lru_cache(maxsize=64)
def _caught_up(complete: int | None, channels_complete: int | None) -> bytes:
    return encode(GatewayFrame(caught_up=CaughtUp(complete=complete, channels_complete=channels_complete)))


def channel_entry(entry: ChannelEntry) -> bytes:
    """The frame of a message, or of what is missed."""
    if entry.HasField("missed"):
        return encode(GatewayFrame(missed=entry.missed))
    return encode(GatewayFrame(message=entry.message))


def channel_entries(page: ChannelPage) -> bytes:
    """The entries of a page of channels, which move no cursor by themselves."""
    frames = []
    for entry in page.entries:
        message = entry.missed if entry.HasField("missed") else entry.message
        message.paged = True
        frames.append(channel_entry(entry))
    return b"".join(frames)


def channel_page(page: ChannelPage) -> bytes:
    """A page of channels, and its end."""
    said = ChannelsEnd(page=page.page, last=page.last)
    if page.HasField("complete"):
        said.complete = page.complete
    return channel_entries(page) + encode(GatewayFrame(channels_end=said))


def pong(complete: int, channels_complete: int = NONE) -> bytes:
    """The answer to a Ping; NONE: says nothing about completeness."""
    return encode(GatewayFrame(pong=Pong(complete=_optional(complete), channels_complete=_optional(channels_complete))))


def wait(seconds: int) -> bytes:
    """The answer takes longer."""
    return encode(GatewayFrame(wait=Wait(seconds=seconds)))


def close(code: int, reason: str) -> bytes:
    """The session ends."""
    return encode(GatewayFrame(close=Close(code=code, reason=reason)))
