"""The first frame of a session: of one that begins with it, or of a trial from which a session may take over."""

from typing import NamedTuple

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.protocol import PROTOCOL_VERSION

from coldnotify._core.delivery.delivery import Delivery
from coldnotify._core.document.document import ClientIdentity
from coldnotify._core.interests.interests import names_of
from coldnotify._core.interests.registrations import Registrations
from coldnotify._core.session.names_in_use import NamesInUse
from coldnotify._core.settings import ClientSettings
from coldnotify._core.streams.stream import streams_of


class SaidHello(NamedTuple):
    """A Hello without operations that a trial has sent, and what its session has to know of it."""

    frame: wire.Hello
    at: float
    crcs: NamesInUse
    asks_for_kinds: bool
    asks_descriptions: bool

    @property
    def cursor(self) -> int | None:
        """The cursor that it says."""
        return self.frame.cursor if self.frame.HasField("cursor") else None


def hello_of(
    identity: ClientIdentity,
    registrations: Registrations,
    delivery: Delivery,
    settings: ClientSettings,
    token: str,
    capabilities: int,
) -> wire.Hello:
    """Returns a Hello without operations and streams."""
    return wire.Hello(
        protocol=PROTOCOL_VERSION,
        capabilities=capabilities,
        domain=identity.domain,
        group=identity.group,
        client=identity.client,
        digest=registrations.digest,
        epoch=delivery.epoch,
        cursor=delivery.cursor,
        keepalive_s=settings.keepalive_s,
        token=token,
    )


def hello_beside(
    identity: ClientIdentity,
    registrations: Registrations,
    delivery: Delivery,
    settings: ClientSettings,
    token: str,
    place: int,
    now: float,
) -> SaidHello:
    """Returns a trial's Hello. It changes nothing of the present session. `place`: the bits that say where the client
    is.
    """
    crcs = NamesInUse()
    asks_for_kinds = registrations.asks_for_kinds
    asks_descriptions = delivery.queries.descriptions.asked
    if asks_for_kinds or not crcs.use({*registrations.wanted, *names_of(registrations.pending)}):
        crcs.say_all()
    capabilities = capabilities_of(crcs, place, queries=asks_for_kinds, descriptions=asks_descriptions)
    hello = hello_of(identity, registrations, delivery, settings, token, capabilities)
    epoch, cursor = delivery.log_for_hello
    hello.streams.extend(streams_of(wire.Stream(epoch=epoch, complete=cursor)))
    return SaidHello(hello, now, crcs, asks_for_kinds, asks_descriptions)


def capabilities_of(crcs: NamesInUse, place: int, *, queries: bool, descriptions: bool) -> int:
    """Returns the bits of a Hello; whether it says all that is unsettled is for the session to add."""
    names = wire.CAPABILITY_NAMES if crcs.are_said else wire.CAPABILITY_NONE
    kinds = wire.CAPABILITY_QUERIES if queries else wire.CAPABILITY_NONE
    described = wire.CAPABILITY_DESCRIPTIONS if descriptions else wire.CAPABILITY_NONE
    return names | kinds | described | place | wire.CAPABILITY_RAW
