"""The client of a session in the service for tests: its Hello, and its registrations."""

from collections.abc import Iterable

from coldnotify_schemas import wire_pb2 as wire
from coldnotify_schemas.interests import channel_hash, share_hash, share_text

from coldnotify.testing.channels import ServiceChannels, registered_text
from coldnotify.testing.members import digest_of, hashes, queries_among
from coldnotify.testing.service_partition import ServicePartition
from coldnotify.testing.service_shares import ClientShares
from coldnotify.testing.service_state import Name, ServiceState


class SessionClient:
    """The client of a session, as the service knows it."""

    def __init__(self, service: ServiceState) -> None:
        self.service = service
        self.hello: wire.Hello | None = None
        self.names = False
        """True if it is sent names, not their CRCs."""
        self.describes = False
        """True if it is sent descriptions."""

    @property
    def raw(self) -> bool:
        """True if it is sent payloads that are no JSON."""
        return self.hello is not None and bool(self.hello.capabilities & wire.CAPABILITY_RAW)

    @property
    def name(self) -> Name:
        """The connected client."""
        assert self.hello is not None
        return self.hello.domain, self.hello.group, self.hello.client

    @property
    def partition(self) -> ServicePartition:
        """The partition of its domain and group."""
        assert self.hello is not None
        return self.service.partition(self.hello.domain, self.hello.group)

    @property
    def registered(self) -> set[str]:
        """The objects that it is registered for by their names."""
        return self.service.registered.setdefault(self.name, set())

    @property
    def queries(self) -> set[str]:
        """The texts of its queries."""
        return self.service.queries.setdefault(self.name, set())

    @property
    def channels(self) -> ServiceChannels:
        """Its registrations of channels."""
        return self.service.channels.setdefault(self.name, ServiceChannels())

    @property
    def shares(self) -> ClientShares:
        """The shares that it is a member of."""
        return self.service.shares.setdefault(self.name, ClientShares())

    @property
    def digest(self) -> int:
        """The digest of all its registrations."""
        return digest_of(self.registered, self.queries, [*self.channels.hashes, *self.shares.hashes])

    @property
    def kinds(self) -> int:
        """Returns the kinds in a Welcome, which this service knows."""
        if not self.service.knows_queries:
            return wire.KINDS_UNSAID
        channels = wire.KINDS_CHANNELS if self.service.knows_channels else wire.KINDS_UNSAID
        descriptions = wire.KINDS_DESCRIPTIONS if self.describes else wire.KINDS_UNSAID
        shares = wire.KINDS_SHARES if self.service.knows_shares else wire.KINDS_UNSAID
        return wire.KINDS_NAMES | wire.KINDS_QUERIES | channels | shares | descriptions

    @property
    def all_queries(self) -> list[wire.Interest]:
        """Returns all queries, as if it had just registered them."""
        return [wire.Interest(kind=wire.INTEREST_QUERY, text=query) for query in sorted(self.queries)]

    @property
    def reported(self) -> list[str | int]:
        """Returns what it is registered for as its reports name it: objects by name, the others by hash."""
        return [*self.registered, *hashes(self.queries), *self.channels.hashes, *self.shares.hashes]

    def asked_for(self, names: Iterable[str], interests: Iterable[wire.Interest]) -> list[str | int]:
        """Returns those of a request that it is registered for now."""
        asked = {*names, *(_hash(one) for one in interests)}
        return [one for one in self.reported if one in asked]

    def register(self, names: Iterable[str], interests: Iterable[wire.Interest] = ()) -> list[wire.Refusal]:
        """Registers it for these names, and for the queries among `interests`; refuses what it may not want."""
        refused: list[wire.Refusal] = []
        if self.service.knows_shares:
            refused += self.shares.register(self.service.shares_of(*self.name[:2]), interests)
        for query in queries_among(interests) if self.service.knows_queries else ():
            reason = self.service.refused_queries.get(query.text)
            if reason is None:
                self.queries.add(query.text)
            else:
                refused.append(wire.Refusal(interest=hashes([query.text])[0], reason=reason))
        for name in names:
            if name not in self.registered and len(self.registered) >= self.service.registrations_max:
                refused.append(wire.Refusal(object=name, reason="too many objects"))
            else:
                self.registered.add(name)
        return refused

    def unregister(self, names: Iterable[str], unregistered: Iterable[int]) -> None:
        """Unregisters it from these names, and from queries by their hashes."""
        self.registered.difference_update(names)
        gone = set(unregistered)
        self.shares.unregister(gone)
        self.service.shares_of(*self.name[:2]).unregister(self.name[2], gone)
        self.queries.difference_update([query for query in self.queries if hashes([query])[0] in gone])


def _hash(interest: wire.Interest) -> int:
    if interest.kind == wire.INTEREST_QUERY:
        return hashes([interest.text])[0]
    if interest.kind == wire.INTEREST_SHARE:
        return share_hash(share_text(interest.share, interest.text, interest.attributes))
    return channel_hash(registered_text(interest))
