"""The loading of a partition by its owner: its state from the compacted topics, then the takeover."""

from itertools import groupby
from operator import attrgetter

from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import RegistrationsRecord, SessionRecord, WillRecord
from msgspec.structs import replace

from coldnotify_matcher.engine.clients import unsettled_registrations
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.streams.stream import NO_CURSOR, Stream
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.writing.outbox import EngineOutbox
from coldnotify_matcher.engine.writing.repairs import Repairs
from coldnotify_matcher.engine.writing.strays import Strays
from coldnotify_matcher.engine.writing.will_records import wills_of


class Loading:
    """Loads, and takes over. The objects come through the intake meanwhile."""

    def __init__(
        self,
        state: PartitionState,
        outbox: EngineOutbox,
        index: Index,
        conflation: Conflation,
        repairs: Repairs,
        strays: Strays,
    ) -> None:
        self._state = state
        self._outbox = outbox
        self._index = index
        self._conflation = conflation
        self._repairs = repairs
        self._strays = strays

    def start(self, objects_committed: int | None) -> None:
        """Begin to load. `objects_committed`: the offset up to which a predecessor handled the objects topic; None:
        there was none.

        Load the winners of the compacted topics then, registrations before sessions, and feed the records of objects.
        Those may have been fed before, while another owned the partition: feed them from `objects_committed` on again.
        """
        self._state.live = False
        self._state.members.clear()
        self._state.filtered.clear()
        self._state.replay_from = 0 if objects_committed is None else objects_committed
        self._strays.start_load()

    def load_registrations(self, key: str, record: RegistrationsRecord, *, applied_counts: bool) -> None:
        """Load one bucket, the winner among its key's records. `applied_counts`: its offset refers to today's requests
        topic."""
        state = self._state
        client_key, _, bucket = key.rpartition("/")
        client = state.client_of(client_key)
        group = client.group_key
        objects = [state.object_of(f"{group}/{name}") for name in record.objects]
        client.load_bucket(int(bucket), objects, record)
        client.filters.begin_epoch(state.epoch)
        if record.unsettled is not None:
            client.tells_unsettled = True
            unsettled_registrations.load(client, client.buckets[int(bucket)], record.unsettled)
        if client.changed:
            state.changed[client] = None
        if applied_counts:
            client.registrations_applied = max(client.registrations_applied, record.applied)
            client.registrations_stored = client.registrations_applied

    def load_will(self, key: str, record: WillRecord, *, applied_counts: bool) -> None:
        """Load a client's wills, the winner among its key's records. `applied_counts`: as above."""
        ours = wills_of(record if applied_counts else replace(record, applied=-1))
        self._state.wills.load(key.rpartition("/")[0], ours)

    def load_session(self, key: str, record: SessionRecord, now_ms: int, *, applied_counts: bool) -> None:
        """Load a client's session record, the winner among its key's records."""
        state = self._state
        client = state.client_of(key)
        client.session_stored = True
        client.last_seen_ms = record.last_seen
        client.stored_ms = now_ms
        if applied_counts:
            client.session_applied = record.applied
        same_epoch = record.epoch == state.epoch
        client.cursor = record.cursor if same_epoch else NO_CURSOR
        if client.channels:
            client.channels.epoch, client.channels.cursor = record.channels_epoch, record.channels_cursor
            client.channels.stored_cursor = record.channels_cursor
        if record.kept:
            client.keep(record.kept, record.expiry_s)
            client.filters.place_channels(record.channels_epoch, record.channels_cursor)
            for one in record.unreleased:
                state.unreleased.put(client, one if applied_counts else replace(one, applied=-1))
            client.filters.expect(record.digest, client.digest)
        if not record.online:
            if record.kept and not record.expiry_s:
                state.expired[client] = None
            # A cursor that was stored in another epoch says nothing about this one.
            client.stored_offline_at = record.cursor if same_epoch and applied_counts else None
            return
        gateway = state.gateway_of(int(record.gateway, 16), record.inbox, now_ms)
        if same_epoch:
            client.connect(session := EngineSession(gateway, record.session, Stream(cursor=record.cursor)))
            gateway.add(record.session, client.key)
            if not (client.filters or client.filters.unreleased or client.shares):
                session.begins_anew()
            if record.digest not in (None, client.digest):
                self._doubt(client, session)
        else:
            # Its cursors mean nothing any more: make it send a Hello.
            state.tell_closed(gateway, record.session, CloseCode.UNKNOWN_SESSION, "the objects topic is another one")
            state.changed[client] = None

    def _doubt(self, client: RegisteredClient, session: EngineSession) -> None:
        """Have a session announced again, because its client's registrations differ from those in its session record.

        A matcher that was taken for dead has written a bucket, and no owner was left to overwrite it; or a step was
        cut. If it received publishes, the session would pass over those that are missing here.
        """
        self._state.announce_anew(client, session)
        self._state.count("doubted")

    def _is_current(self, key: str, gateway: int, number: int) -> bool:
        client = self._state.clients.get(key)
        session = None if client is None else client.session
        return session is not None and (session.gateway.id, session.number) == (gateway, number)

    def finish(
        self,
        generation: int,
        inboxes: int,
        now_ms: int,
        *,
        objects_committed: int | None,
        requests_start: int | None,
    ) -> None:
        """Take the partition over: tell all gateways, and fan out versions that the predecessor may not have sent."""
        state = self._state
        state.at = None
        state.generation = generation
        state.live = True
        state.rules.ceilings.take_over(state.partition, state.tallies)
        state.filtered.follow(state.filtered.registered)
        self._outbox.tell_all(inboxes)
        state.wills.take_over(now_ms, self._is_current)
        online = [client for client in state.clients.values() if client.session is not None]
        for client in online:
            session = client.session
            if session is None or not session.in_sync:
                continue
            if requests_start is not None and client.session_applied >= requests_start:
                # Its Open is handled again, and its page may never have come. If it received publishes before that, a
                # session that its gateway holds for live would pass over the contents of the page.
                continue
            if not client.by_name_alone:
                # The sets at the predecessor's last frame are not known: it is caught up, once its sets are. Nor are
                # the messages known that it received.
                self._state.announce_anew(client, session)
                state.count("announced_anew")
            else:
                self._index.join(client)
        if objects_committed is None:
            objects_committed = min((client.cursor + 1 for client in online), default=state.position)
        missed = [obj for obj in state.objects.made() if obj.subscribers and obj.offset >= objects_committed]
        for _, alike in groupby(sorted(missed, key=attrgetter("offset")), key=attrgetter("offset")):
            objects = list(alike)
            state.at = state.rules.topics.objects, objects[0].kept_offset
            self._conflation.fan_out(objects, now_ms)
        state.at = None
        for obj in state.objects.made():
            self._repairs.look_at(obj)
        for group, name, described in state.descriptions.finish_load():
            self._repairs.look_at_description(f"{KEY_PREFIX}{group}/{name}", described)
