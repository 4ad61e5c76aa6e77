"""The records about clients: registrations in buckets, and a session record for each client."""

import msgspec
from coldnotify_schemas.matcher_state import FORMAT, FORMAT_WITH_FILTERS, SessionRecord, ended_by_header
from coldnotify_schemas.whole_numbers import whole_number

from coldnotify_matcher.engine.channels import filter_messages
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.clients.unsettled_registrations import records_of
from coldnotify_matcher.engine.interests.stored import bucket_record
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

_encode = msgspec.json.Encoder().encode


def null_of(state: PartitionState, topic: str, key: str) -> ProducedRecord:
    """Returns a tombstone for this key, which outdoes records that an earlier generation still writes."""
    return ProducedRecord(topic, state.partition, key.encode(), None, (ended_by_header(state.generation),))


class ClientRecords:
    """Writes these records."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox

    def write_changed(self, now_ms: int) -> None:
        """Write the records of the clients that have changed in this step."""
        for client in self._state.changed:
            self._state.at = client.key
            self._write(client, now_ms)
        self._state.at = None
        self._state.changed = {}

    def rewrite(self, topic: str, key: str, *, was_null: bool) -> None:
        """Write our record of this key again: a null or a record with a lower generation was seen in a state topic."""
        state = self._state
        client_key, bucket = (key, None) if topic == state.rules.topics.sessions else key.rpartition("/")[::2]
        client = state.clients.get(client_key)
        index = None if bucket is None else whole_number(bucket)
        if client is None or (index is not None and index >= len(client.buckets)):
            if was_null:
                return
            self._outbox.write(null_of(state, topic, key))
        elif index is not None:
            client.changed.add(index)
            state.changed[client] = None
        elif state.is_worth_keeping(client):
            state.changed[client] = None
        state.count("state_repaired")

    def _write(self, client: RegisteredClient, now_ms: int) -> None:
        """Write the buckets that have changed, and then the session's record.

        Of several buckets only the last one carries the step's offset, and it is written once the others are durable;
        those still carry the former one. So a step that was done in part is done again as a whole.
        """
        state = self._state
        self._forget_told_missed(client)
        changed = sorted(client.changed)
        seals = len(changed) > 1 or client.key in state.wills.written
        write_last = self._outbox.write_seal if seals else self._outbox.write
        for index in changed:
            applied = client.registrations_applied if index == changed[-1] else client.registrations_stored
            interests = client.buckets[index]
            bucket = bucket_record(interests, state.generation, applied, records_of(client, interests))
            key = f"{client.key}/{index}".encode()
            write = write_last if index == changed[-1] else self._outbox.write
            write(ProducedRecord(state.rules.topics.registrations, state.partition, key, _encode(bucket)))
        if changed:
            client.registrations_stored = client.registrations_applied
        client.changed.clear()
        session = client.session
        record = SessionRecord(
            format=FORMAT_WITH_FILTERS if client.kept else FORMAT,
            generation=state.generation,
            applied=client.session_applied,
            online=session is not None,
            gateway=f"{session.gateway.id if session else 0:016x}",
            inbox=session.gateway.inbox if session else 0,
            session=session.number if session else 0,
            epoch=state.epoch,
            cursor=client.cursor,
            last_seen=client.last_seen_ms,
            digest=client.filters.stored_digest(client.digest) if client.kept else client.digest,
            channels_epoch=client.filters.channels_epoch if client.kept else client.channels.epoch,
            channels_cursor=client.filters.channels_cursor if client.kept else client.channels.cursor,
            kept=client.filters.protocol,
            expiry_s=client.filters.expiry_s,
            unreleased=list(client.filters.unreleased.values()),
        )
        write_last(ProducedRecord(state.rules.topics.sessions, state.partition, client.key.encode(), _encode(record)))
        if client.channels:
            client.channels.stored_cursor = client.channels.cursor
        client.session_stored = True
        client.stored_ms = now_ms
        client.stored_offline_at = client.cursor if session is None else None
        state.brief.written(client)
        state.kept_cursors.written(client)
        state.dirty_cursors.pop(client, None)

    def _forget_told_missed(self, client: RegisteredClient) -> None:
        """Forget of its filters what is missing, where the cursor that is written now shows that it was said."""
        log = self._state.log_of(client) if client.kept else None
        if log is None:
            return
        for one in filter_messages.told_missed(log, client):
            one.told_missed()
            client.changed.add(one.bucket)
