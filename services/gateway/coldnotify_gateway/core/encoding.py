"""The frames a gateway writes, as bytes."""

from functools import lru_cache

from coldnotify_schemas.digest import object_crc
from coldnotify_schemas.frames import encode
from coldnotify_schemas.internal_pb2 import Answered, Newest, Opened, Page
from coldnotify_schemas.wire_pb2 import (
    CaughtUp,
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

    What enters or leaves the set of a query is always said by its name.
    """
    # Filled in place: half of what it costs to make a message of keywords and copy it into another.
    frame = GatewayFrame()
    message = frame.notification
    if names or newest.entered or newest.left:
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
    return encode(frame)


def notifications(newest: list[Newest], *, names: bool) -> bytes:
    """The frames of several versions, one after the other."""
    return b"".join(notification(one, names=names) for one in newest)


def complete_of(newest: Newest) -> int:
    """Up to where a client is complete that has got everything up to this frame; NONE if the frame does not say."""
    return NONE if newest.answer else newest.offset - newest.behind


def welcome(opened: Opened, *, queries: bool) -> bytes:
    """The matcher's Opened, as its client is told. `queries`: it wants to know whether the service knows them."""
    epoch = opened.epoch if opened.HasField("epoch") else None
    kinds = opened.kinds if queries else 0
    if opened.refused:
        said = Welcome(in_sync=opened.in_sync, epoch=epoch, refused=opened.refused, kinds=kinds)
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
        registered = Registered(request=answered.request, refused=answered.refused, kinds=answered.kinds)
        frame = encode(GatewayFrame(registered=registered))
    return frame + notifications(list(answered.newest), names=names)


def page(page: Page, *, names: bool) -> bytes:
    """What a page says, and how it ends: the next one comes when it is acknowledged, or the client is complete."""
    frames = notifications(list(page.newest), names=names)
    if page.begun:
        frames = encode(GatewayFrame(registered=Registered(begun=page.begun))) + frames
    if page.answered or page.refused or page.unchanged:
        registered = Registered(answered=page.answered, refused=page.refused, unchanged=page.unchanged)
        frames += encode(GatewayFrame(registered=registered))
    if not page.last:
        said = PageEnd(page=page.page, sets_unknown=page.sets_unknown)
        if page.HasField("query"):
            said.query, said.reached, said.reached_at = page.query, page.reached, page.reached_at
        return frames + encode(GatewayFrame(page_end=said))
    complete = page.complete if page.HasField("complete") else None
    if page.HasField("sets_digest"):
        return frames + encode(GatewayFrame(caught_up=CaughtUp(complete=complete, sets_digest=page.sets_digest)))
    return frames + _caught_up(complete)


@lru_cache(maxsize=64)
def _caught_up(complete: int | None) -> bytes:
    return encode(GatewayFrame(caught_up=CaughtUp(complete=complete)))


def pong(complete: int) -> bytes:
    """The answer to a Ping; NONE: says nothing about completeness."""
    return encode(GatewayFrame(pong=Pong(complete=_optional(complete))))


def wait(seconds: int) -> bytes:
    """The answer takes longer."""
    return encode(GatewayFrame(wait=Wait(seconds=seconds)))


def close(code: int, reason: str) -> bytes:
    """The session ends."""
    return encode(GatewayFrame(close=Close(code=code, reason=reason)))
