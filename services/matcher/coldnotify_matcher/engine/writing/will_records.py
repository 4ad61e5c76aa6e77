"""The records of wills: what is stored of a client's, and what they are published as."""

import msgspec
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.matcher_state import FORMAT_WITH_FILTERS, WILL_BUCKET, StoredWill, WillRecord
from coldnotify_schemas.message_places import message_header
from coldnotify_schemas.mqtt.kept_properties import RETAINED_HEADER, kept_headers
from coldnotify_schemas.records import InvalidRecord, PublicRecord, carrying, encode_public_record, record_headers

from coldnotify_matcher.engine.clients.wills import UNDECIDED, ClientWills, Will, expires_at_ms, message_id, version_of
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.writing.client_records import null_of
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

PROMISED_MAX = 10_000
"""Above this number, versions that have come back from the log are forgotten."""
_encode = msgspec.json.Encoder().encode


def wills_of(record: WillRecord) -> ClientWills:
    """Returns the wills in a record."""
    now = None if record.now is None else _will_of(record.now)
    owed = [_will_of(one) for one in record.owed]
    begun_ms = max((one.begun_ms for one in (*owed, *([now] if now else []))), default=record.over)
    return ClientWills(record.applied, now, owed, record.over, begun_ms)


class WillRecords:
    """Writes these records."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._promised: dict[str, int] = {}
        """By the object's key, the highest version that is decided and has not come back from the log."""

    def write(self, now_ms: int) -> None:
        """Write what has changed in this step, and publish what is ready.

        The records of sessions follow these: a session that is over is never stored before what becomes of its will.
        """
        wills = self._state.wills
        wills.fire(now_ms)
        ready = wills.take_ready()
        for key, will in ready:
            self._promise(key, will)
        for key in wills.take_changed():
            self._state.handles(key)
            self._decide(key)
            self._outbox.write(self._record(key))
        published: dict[str, None] = {}
        for key, will in ready:
            self._state.handles(key)
            if self._publish(key, will):
                wills.drop(key, will)
                published[key] = None
        for key in published:
            # It must not be forgotten before it is published.
            self._outbox.write_last(self._record(key))
            wills.changed.pop(key, None)
        if len(self._promised) > PROMISED_MAX:
            self._forget_kept_promises()
        if wills.take_fence():
            self._outbox.write_fence()
        self._state.handles(None)

    def rewrite(self, key: str, *, was_null: bool) -> None:
        """Write our record about this client again: a null or a record with a lower generation was seen."""
        if self._state.wills.of(key) is None and was_null:
            return
        self._state.wills.changed[key] = None
        self._state.count("state_repaired")

    def _decide(self, key: str) -> None:
        """Decide what those that are newly owed are published as."""
        state, ours = self._state, self._state.wills.of(key)
        for will in [] if ours is None else list(ours.owed):
            if will.version != UNDECIDED:
                continue
            if will.retain:
                object_key = _object_key(key, will)
                obj = state.objects.get(object_key)
                newest, incarnation = (-1, 0) if obj is None else (obj.version, obj.incarnation)
                if newest >= self._promised.get(object_key, -1):
                    self._promised.pop(object_key, None)
                newest = max(newest, self._promised.get(object_key, -1))
                will.decide(version_of(will, newest), incarnation)
                self._promise(key, will)
            else:
                will.decide(0, 0)
            state.wills.decided(key, will)

    def _promise(self, key: str, will: Will) -> None:
        """Note that another will of the same object must have a higher version."""
        if will.retain:
            object_key = _object_key(key, will)
            self._promised[object_key] = max(will.version, self._promised.get(object_key, -1))

    def _forget_kept_promises(self) -> None:
        for object_key, version in list(self._promised.items()):
            obj = self._state.objects.get(object_key)
            if obj is not None and obj.version >= version:
                del self._promised[object_key]

    def _publish(self, key: str, will: Will) -> bool:
        """Publish one, as it was decided. Returns false if that was its message, and its version follows."""
        state = self._state
        client = key.rpartition("/")[2]
        domain = key.partition("/")[0]
        topics, object_key = state.rules.topics, _object_key(key, will).encode()
        retention = state.rules.retentions.of(domain)
        doubles = will.doubled and will.place is None and retention in state.channel_logs
        if doubles or not will.retain:
            if retention not in state.channel_logs:
                state.count("wills_not_published")  # Kafka has no such topic
                return True
            headers = message_headers(
                MessageHeaders(
                    id=message_id(will), source=client, expires_at=expires_at_ms(will), properties=will.properties
                )
            )
            if doubles:
                headers.append(RETAINED_HEADER)
                state.wills.await_message(key, will)
            else:
                state.count("wills_published")
            topic = retention.topic(topics)
            self._outbox.write(ProducedRecord(topic, state.partition, object_key, will.payload, tuple(headers)))
            return not doubles
        said = PublicRecord(
            version=will.version,
            source=client,
            deleted=not will.payload,
            incarnation=will.incarnation or None,
            expires_at=expires_at_ms(will),
        )
        try:
            said = carrying(said, will.payload, payload_bytes_max=state.rules.payload_bytes_max)
        except InvalidRecord:
            state.count("wills_not_published")  # the limit was lowered since
            return True
        value = encode_public_record(said)
        headers = [*record_headers(said), *kept_headers(will.properties), *message_header(will.place)]
        self._outbox.write(ProducedRecord(topics.objects, state.partition, object_key, value, tuple(headers)))
        state.count("wills_published")
        return True

    def _record(self, key: str) -> ProducedRecord:
        state = self._state
        topic, bucket_key = state.rules.topics.registrations, f"{key}/{WILL_BUCKET}"
        ours = state.wills.of(key)
        if ours is None:
            return null_of(state, topic, bucket_key)
        record = WillRecord(
            format=FORMAT_WITH_FILTERS,
            generation=state.generation,
            applied=ours.applied,
            now=None if ours.now is None else _stored(ours.now),
            owed=[_stored(one) for one in ours.owed],
            over=ours.over_ms,
        )
        return ProducedRecord(topic, state.partition, bucket_key.encode(), _encode(record))


def _object_key(client_key: str, will: Will) -> str:
    return f"{client_key.rpartition('/')[0]}/{will.topic}"


def _stored(will: Will) -> StoredWill:
    return StoredWill(
        gateway=f"{will.gateway:016x}",
        session=will.session,
        begun=will.begun_ms,
        topic=will.topic,
        payload=will.payload,
        retain=will.retain,
        qos=will.qos,
        delay_s=will.delay_s,
        expiry_s=will.expiry_s,
        properties=will.properties,
        due=will.due_ms,
        waits=will.waits,
        version=will.version,
        incarnation=will.incarnation,
        doubled=will.doubled,
    )


def _will_of(stored: StoredWill) -> Will:
    return Will(
        int(stored.gateway, 16),
        stored.session,
        stored.begun,
        stored.topic,
        stored.payload,
        retain=stored.retain,
        qos=stored.qos,
        delay_s=stored.delay_s,
        expiry_s=stored.expiry_s,
        properties=stored.properties,
        due_ms=stored.due,
        waits=stored.waits,
        version=stored.version,
        incarnation=stored.incarnation,
        doubled=stored.doubled,
    )
