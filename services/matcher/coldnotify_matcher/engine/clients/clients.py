"""Clients: their interests, in buckets as the registrations topic keeps them, and the versions that they lack."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from coldnotify_schemas.digest import MODULUS
from coldnotify_schemas.filters import can_be_said
from coldnotify_schemas.interests import Kind, channel_of, filter_hash, query_hash, share_hash
from coldnotify_schemas.matcher_state import BUCKET_OBJECTS_MAX, RegistrationsRecord, StoredInterest
from coldnotify_schemas.names import is_looking_name

from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.clients.unsettled import NOTHING, UnsettledRegistration
from coldnotify_matcher.engine.interests.by_channel import ByChannel, ClientChannel, key_of
from coldnotify_matcher.engine.interests.by_filter import ByFilter, RegisteredFilter, spare_own
from coldnotify_matcher.engine.interests.by_name import ByName
from coldnotify_matcher.engine.interests.by_query.by_query import ByQuery, RegisteredQuery
from coldnotify_matcher.engine.interests.by_share import ByShare, ClientShare
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.engine.streams.stream import NO_CURSOR
from coldnotify_matcher.engine.tenants.ceilings import DomainTally

Registration = Obj | RegisteredQuery | ClientChannel | ClientShare | RegisteredFilter
"""One thing that a client is registered for."""

if TYPE_CHECKING:
    from coldnotify_schemas.interests import Interest

NEVER_APPLIED = -1
NO_QUERIES = ByQuery()
"""Shared by all clients without queries, which are most; nothing is ever put into it."""
NO_CHANNELS = ByChannel()
"""The same for channels."""
NO_SHARES = ByShare()
"""The same for shares."""
NO_FILTERS = ByFilter()
"""The same for filters: the client's set is not kept, as the client keeps it itself."""


class RegisteredClient:
    """One client: its registrations, its cursor, its session."""

    __slots__ = (
        "_by_name", "buckets", "changed", "channels", "cursor", "digest", "filters", "key", "last_seen_ms", "looks",
        "queries", "registrations_applied", "registrations_stored", "session", "session_applied", "session_stored",
        "shares", "stored_ms", "stored_offline_at", "tally", "tells_unsettled", "unsettled",
    )  # fmt: skip

    def __init__(self, key: str, tally: DomainTally | None = None) -> None:
        """`tally`: its domain's, which counts its session and registrations."""
        self.key = key
        self.tally = DomainTally() if tally is None else tally
        self.looks = is_looking_name(key.rpartition("/")[2])
        """True for a page that only looks: it never comes back, and its applied versions do not count."""
        self._by_name = ByName()
        self.queries = NO_QUERIES
        """By their hashes; to be changed by `register_query` and `unregister_query` only."""
        self.channels = NO_CHANNELS
        """By their hashes; to be changed by `register_channel` and `unregister_channel` only."""
        self.shares = NO_SHARES
        """By their hashes; to be changed by `register_share` and `unregister_share` only."""
        self.filters = NO_FILTERS
        """By their hashes; to be changed by `register_filter`, `unregister_filter` and `keep` only."""
        self.buckets: list[set[Registration]] = []
        self.changed: set[int] = set()
        """Buckets whose records are to be written in this step."""
        self.digest = 0
        self.tells_unsettled = False
        """True if its library reports which registrations the application has not taken."""
        self.unsettled = NOTHING
        """The unsettled registrations; to be changed by `unsettle`, `settle` and `put_unsettled` only."""
        self.registrations_applied = NEVER_APPLIED
        """The offset of the newest request that changed its registrations."""
        self.registrations_stored = NEVER_APPLIED
        """The same, as of the last step: all of its writes are durable."""
        self.session_applied = NEVER_APPLIED
        self.session: EngineSession | None = None
        """To be changed by `connect` and `disconnect` only."""
        self.cursor = NO_CURSOR
        """The acknowledged offset."""
        self.last_seen_ms = 0
        self.session_stored = False
        self.stored_ms = 0
        """Time at which its session record was last written."""
        self.stored_offline_at: int | None = None
        """The cursor in its session record, if that says that it is offline; None: it does not, or is absent."""

    @property
    def group_key(self) -> str:
        """domain/group."""
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The client's name, without domain and group."""
        return self.key.rpartition("/")[2]

    @property
    def worth_keeping(self) -> bool:
        """True if records of it are kept: nothing is kept of a client before its first registration."""
        if self._by_name or self.queries or self.channels or self.shares or self.buckets or self.session_stored:
            return True
        return self.filters.expiry_s > 0 or bool(self.filters.unreleased)

    @property
    def kept(self) -> bool:
        """True if its set is kept for it: it keeps nothing, and its interests are filters."""
        return self.filters is not NO_FILTERS

    def keep(self, protocol: str = "", expiry_s: int = 0) -> None:
        """Keep its set for it, for so long after its session."""
        if self.filters is NO_FILTERS:
            self.filters = ByFilter()
        self.filters.keep(protocol, expiry_s)

    def place(self, cursor: int) -> None:
        """Note the offset up to which it has applied the log, whatever was known before."""
        self.cursor = cursor

    def keep_no_more(self) -> None:
        """Keep no set for it, as it keeps its set itself. There are no filters in it."""
        self.filters = NO_FILTERS

    @property
    def registered(self) -> int:
        """Number of its interests."""
        return len(self._by_name) + len(self.queries) + len(self.channels) + len(self.shares) + len(self.filters)

    def connect(self, session: EngineSession) -> None:
        """Make this its session."""
        if self.session is None:
            self.tally.add_clients(1)
        self.session = session

    def disconnect(self) -> None:
        """Remove its session."""
        if self.session is not None:
            self.tally.add_clients(-1)
        self.session = None

    def interests(self) -> Iterator[Interest]:
        """Yields its interests, as they were registered."""
        yield from self._by_name.interests()
        yield from self.queries.interests()
        yield from self.channels.interests()
        yield from self.shares.interests()
        yield from self.filters.interests()

    def registrations(self) -> Iterator[Registration]:
        """Yields its registrations, as the engine keeps them, but for shares: what of these is not settled comes again
        without a report."""
        yield from self._by_name
        yield from self.queries.values()
        yield from self.channels.values()
        yield from self.filters.values()

    def registered_by(self, hash_: int) -> RegisteredQuery | ClientChannel | RegisteredFilter | None:
        """Returns its registration of this hash; names have no hash."""
        return self.queries.get(hash_) or self.channels.get(hash_) or self.filters.get(hash_)

    @property
    def by_name_alone(self) -> bool:
        """True if it is registered for names only: the fan-out index covers them all."""
        return not (self.queries or self.channels or self.shares or self.kept)

    def objects(self) -> Collection[Obj]:
        """Returns the objects that it is registered for by name."""
        return self._by_name.keys()

    def interested(self, obj: Obj) -> bool:
        """Returns true if it is registered for the object by name."""
        return obj in self._by_name

    def fits(self, obj: Obj) -> bool:
        """Returns true if one of its filters fits the object."""
        return bool(self.filters) and can_be_said(obj.name) and bool(self.filters.fitting(obj.name))

    def unsettle(self, registration: Registration, unsettled: UnsettledRegistration) -> None:
        """Note why its application has not taken this. To be stored in this step."""
        self.put_unsettled(registration, unsettled)
        self.changed.add(self._bucket_of(registration))

    def put_unsettled(self, registration: Registration, unsettled: UnsettledRegistration) -> None:
        """Note the same for a registration whose record says so."""
        if not self.unsettled:
            self.unsettled = {}
        self._gone(registration)
        self.unsettled[registration] = unsettled
        self.tally.parked += unsettled.parked

    def settle(self, registration: Registration) -> None:
        """Note that its application has taken this. To be stored in this step."""
        self._gone(registration)
        self.changed.add(self._bucket_of(registration))

    def _bucket_of(self, registration: Registration) -> int:
        return self._by_name[registration] if isinstance(registration, Obj) else registration.bucket

    def _gone(self, registration: Registration) -> None:
        if registration in self.unsettled:
            self.tally.parked -= self.unsettled.pop(registration).parked

    def settle_all(self) -> None:
        """Settle all registrations. The caller has their records changed."""
        for registration in list(self.unsettled):
            self._gone(registration)
        self.unsettled = NOTHING

    def published(self, obj: Obj) -> bool:
        """Returns true if it published the object's newest version itself (`source`)."""
        return obj.source is not None and obj.source == self.name

    def lacks(self, obj: Obj, *, offset: int | None = None) -> bool:
        """Returns true if it has not applied the newest version of an object that it is interested in, as far as is
        known.

        It has versions at or below its cursor that are not unsettled, and those that it published itself. `offset`:
        check an older version instead. For unsettled objects it is not known which versions it has applied.
        """
        if obj in self.unsettled:
            return True
        if self.filters:
            return self._lacks_by_filter(obj, obj.offset if offset is None else offset)
        return (obj.offset if offset is None else offset) > self.cursor and not self.published(obj)

    def _lacks_by_filter(self, obj: Obj, offset: int) -> bool:
        """Returns true if it has not acknowledged a version by any filter that fits, as far as is stored."""
        fitting = self.filters.fitting(obj.name) if can_be_said(obj.name) else []
        if obj.there and fitting and all(one.owed for one in fitting):
            return True
        if obj.message is not None and obj.message.offset <= self.filters.channels_cursor:
            return False
        if offset <= self.cursor or any(offset <= one.position and not one.owed for one in fitting):
            return False
        return bool(fitting) and not (self.published(obj) and spare_own(fitting))

    def unapplied(self) -> list[Obj]:
        """Returns the objects registered by name that it lacks, in the sense of `lacks`."""
        found = self.lacking(self.cursor)
        if self.unsettled:
            found += [one for one in self.unsettled if isinstance(one, Obj) and one.offset <= self.cursor]
        return found

    def lacking(self, cursor: int) -> list[Obj]:
        """Returns the objects registered by name that a page from this cursor on contains."""
        return [obj for obj in self._by_name if obj.offset > cursor and not self.published(obj)]

    def register(self, obj: Obj, bucket_objects_max: int = BUCKET_OBJECTS_MAX) -> bool:
        """Add one registration, in the first bucket with room. Returns false if it was there."""
        if obj in self._by_name:
            return False
        index = self._bucket_with_room(bucket_objects_max)
        self._put([obj], index)
        self.changed.add(index)
        return True

    def register_query(self, text: str, bucket_objects_max: int = BUCKET_OBJECTS_MAX) -> RegisteredQuery | None:
        """Add one registration by query, in the first bucket with room. Returns None if it was there."""
        if query_hash(text) in self.queries:
            return None
        index = self._bucket_with_room(bucket_objects_max)
        self.changed.add(index)
        return self._put_query(text, index)

    def unregister_query(self, query: RegisteredQuery) -> None:
        """Remove one registration by query, which its session does not know any more."""
        self._gone(query)
        del self.queries[query.hash]
        self.tally.add_registrations(-1)
        self.tally.places.remove(self.group_key, query.hash)
        self.digest = (self.digest - query.hash) % MODULUS
        self.buckets[query.bucket].discard(query)
        self.changed.add(query.bucket)

    def register_channel(
        self, text: str, position: int, epoch: int, bucket_objects_max: int = BUCKET_OBJECTS_MAX
    ) -> ClientChannel:
        """Add one registration of a new channel, in the first bucket with room."""
        index = self._bucket_with_room(bucket_objects_max)
        self.changed.add(index)
        return self._put_channel(text, position, epoch, index)

    def unregister_channel(self, channel: ClientChannel) -> None:
        """Remove one registration of a channel, which its session does not know any more."""
        self._gone(channel)
        self.channels.remove(channel)
        self.tally.add_registrations(-1)
        self.digest = (self.digest - channel.hash) % MODULUS
        self.buckets[channel.bucket].discard(channel)
        self.changed.add(channel.bucket)

    def register_share(
        self,
        text: str,
        position: int,
        epoch: int,
        bucket_objects_max: int = BUCKET_OBJECTS_MAX,
        options: int = 0,
        identifier: int = 0,
    ) -> ClientShare:
        """Add one registration of a new share, in the first bucket with room."""
        index = self._bucket_with_room(bucket_objects_max)
        self.changed.add(index)
        return self._put_share(ClientShare(self.group_key, text, position, epoch, index, options, identifier))

    def unregister_share(self, share: ClientShare) -> None:
        """Remove one registration of a share, which does not have this member any more."""
        self.shares.remove(share)
        self.tally.add_registrations(-1)
        self.digest = (self.digest - share.hash) % MODULUS
        self.buckets[share.bucket].discard(share)
        self.changed.add(share.bucket)

    def register_filter(
        self, text: str, options: int, identifier: int, bucket_objects_max: int = BUCKET_OBJECTS_MAX
    ) -> RegisteredFilter:
        """Add one registration by a new filter, in the first bucket with room. Its set is kept."""
        index = self._bucket_with_room(bucket_objects_max)
        self.changed.add(index)
        one = RegisteredFilter(text, index, options, identifier)
        self._put_filter(one)
        return one

    def unregister_filter(self, one: RegisteredFilter) -> None:
        """Remove one registration by filter, which its session does not know any more."""
        self.filters.remove(one)
        self._count_filters(-1)
        self.digest = (self.digest - one.hash) % MODULUS
        self.buckets[one.bucket].discard(one)
        self.changed.add(one.bucket)

    def unregister(self, obj: Obj) -> bool:
        """Remove one registration. Returns false if it was not there."""
        index = self._by_name.get(obj)
        if index is None:
            return False
        self._gone(obj)
        self.digest = (self.digest - self._by_name.remove(obj)) % MODULUS
        self.buckets[index].discard(obj)
        self.changed.add(index)
        self.tally.add_registrations(-1)
        return True

    def forget(self) -> Collection[Obj]:
        """Remove all registrations, but mark no bucket as changed. Returns the objects that it was registered for by
        name."""
        self.tally.add_registrations(-self.registered)
        objects = list(self._by_name)
        for obj in objects:
            self._by_name.remove(obj)
        for hash_ in self.queries:
            self.tally.places.remove(self.group_key, hash_)
        self.queries = NO_QUERIES
        self.channels = NO_CHANNELS
        self.shares = NO_SHARES
        self.tally.add_filters(self.group_key, -len(self.filters))
        self.filters = NO_FILTERS
        self.settle_all()
        return objects

    def load_bucket(self, index: int, objects: list[Obj], record: RegistrationsRecord) -> None:
        """Load a bucket as the registrations topic has it, with these objects; it is written again if another one has
        a part of it."""
        if index < len(self.buckets):
            for interest in list(self.buckets[index]):
                if isinstance(interest, Obj):
                    self.unregister(interest)
                elif isinstance(interest, RegisteredQuery):
                    self.unregister_query(interest)
                elif isinstance(interest, ClientChannel):
                    self.unregister_channel(interest)
                elif isinstance(interest, ClientShare):
                    self.unregister_share(interest)
                else:
                    self.unregister_filter(interest)
        elsewhere = any(map(self.interested, objects))
        self._put([obj for obj in objects if not self.interested(obj)] if elsewhere else objects, index)
        for query in record.of_kind(Kind.QUERY):
            if query_hash(query.text) in self.queries:
                elsewhere = True
            else:
                self._put_query(query.text, index)
        for channel in record.of_kind(Kind.CHANNEL):
            if key_of(self.group_key, channel_of(channel.text)[0]) in self.channels.by_key:
                elsewhere = True
            else:
                self._put_channel(channel.text, channel.position, channel.epoch, index)
        for one in record.of_kind(Kind.SHARE):
            if share_hash(one.text) in self.shares:
                elsewhere = True
            else:
                place, said = (one.position, one.epoch), (one.options, one.identifier)
                self._put_share(ClientShare(self.group_key, one.text, *place, index, *said))
        for stored in record.of_kind(Kind.FILTER):
            elsewhere |= not self._load_filter(stored, index)
        # A predecessor that died between two records of a step leaves an object in two buckets, if it had moved from
        # one to the other; so does one that was not the owner any more. One place is enough.
        (self.changed.add if elsewhere else self.changed.discard)(index)

    def _bucket_with_room(self, bucket_objects_max: int) -> int:
        return next((i for i, b in enumerate(self.buckets) if len(b) < bucket_objects_max), len(self.buckets))

    def _bucket(self, index: int) -> set[Registration]:
        while len(self.buckets) <= index:
            self.buckets.append(set())
        return self.buckets[index]

    def _put_query(self, text: str, index: int) -> RegisteredQuery:
        if not self.queries:
            self.queries = ByQuery()
        query = self.queries.add(text, index)
        self.tally.add_registrations(1)
        self.tally.places.add(self.group_key, query.hash, text)
        self._bucket(index).add(query)
        self.digest = (self.digest + query.hash) % MODULUS
        return query

    def _put_channel(self, text: str, position: int, epoch: int, index: int) -> ClientChannel:
        if self.channels is NO_CHANNELS:
            self.channels = ByChannel()
        channel = ClientChannel(self.group_key, text, position, epoch, index)
        self.channels.add(channel)
        self.tally.add_registrations(1)
        self._bucket(index).add(channel)
        self.digest = (self.digest + channel.hash) % MODULUS
        return channel

    def _put_share(self, share: ClientShare) -> ClientShare:
        if self.shares is NO_SHARES:
            self.shares = ByShare()
        self.shares.add(share)
        self.tally.add_registrations(1)
        self._bucket(share.bucket).add(share)
        self.digest = (self.digest + share.hash) % MODULUS
        return share

    def _load_filter(self, stored: StoredInterest, index: int) -> bool:
        """Load one filter. Returns false if another bucket has it."""
        if filter_hash(stored.text) in self.filters:
            return False
        one = RegisteredFilter(stored.text, index, stored.options, stored.identifier)
        one.load(stored)
        self._put_filter(one)
        return True

    def _put_filter(self, one: RegisteredFilter) -> None:
        if self.filters is NO_FILTERS:
            self.keep()
        self.filters.add(one)
        self._count_filters(1)
        self._bucket(one.bucket).add(one)
        self.digest = (self.digest + one.hash) % MODULUS

    def _count_filters(self, more: int) -> None:
        self.tally.add_registrations(more)
        self.tally.add_filters(self.group_key, more)

    def _put(self, objects: list[Obj], index: int) -> None:
        self._bucket(index).update(objects)
        self.tally.add_registrations(len(objects))
        self.digest = (self.digest + self._by_name.add(objects, index)) % MODULUS
