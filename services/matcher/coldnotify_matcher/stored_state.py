"""Stored state of a partition: records of the state topics, merged while it is loaded, watched while it is owned."""

from collections.abc import Callable, Mapping

import msgspec
from coldnotify_schemas.matcher_state import (
    FORMAT,
    FORMAT_WITH_FILTERS,
    FORMAT_WITH_SHARES,
    ChannelsRecord,
    RegistrationsRecord,
    SessionRecord,
    WillRecord,
    is_wills_key,
)
from coldnotify_schemas.share_state import ShareRecord
from coldnotify_streams.core.events import JobRecord, Takeover
from coldnotify_streams.core.job import NOT_UNDERSTOOD, RAISED, Ends
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.errors import NewerFormat

from coldnotify_matcher.channel_logs import ChannelLogs
from coldnotify_matcher.engine import Engine, ProducedRecord
from coldnotify_matcher.engine.shares.one_share import KnownShare
from coldnotify_matcher.generations import Generations
from coldnotify_matcher.merged_records import Merged
from coldnotify_matcher.record_headers import EndedByHeaders
from coldnotify_matcher.records_aside import RecordsAside
from coldnotify_matcher.run_topics import Cluster
from coldnotify_matcher.state_records import (
    UnreadableState,
    check_bucket_key,
    check_channels_key,
    check_client_key,
    check_generation,
    check_share_key,
    generation_of,
    is_generation_key,
    parse_channels,
    parse_registrations,
    parse_session,
    parse_share,
    parse_wills,
)


class StoredState:
    """The state topics' records of one partition, for its engine."""

    def __init__(
        self, number: int, cluster: Cluster, engine: Engine, logs: ChannelLogs, generations: Generations
    ) -> None:
        self._number = number
        self._cluster = cluster
        self._engine = engine
        self._logs = logs
        self._generations = generations
        self._names = names = engine.state.rules.topics
        self._check_key: Mapping[str, Callable[[bytes], str]] = {
            names.registrations: check_bucket_key,
            names.sessions: check_client_key,
            names.channels_state: check_channels_key,
            names.shares: check_share_key,
        }
        """The key checks of the state topics."""
        self._newest_formats = {names.registrations: FORMAT_WITH_SHARES, names.sessions: FORMAT_WITH_FILTERS}
        self.aside = self._aside = RecordsAside(number, names, self._check_key, engine.state.count)
        """Records that could not be handled."""
        self.marker_is_read = False
        """True if this matcher has read its own marker in the topic of shares."""
        self._buckets: Merged[RegistrationsRecord] = Merged()
        self._sessions: Merged[SessionRecord] = Merged()
        self._wills: Merged[WillRecord] = Merged()
        self._shares: Merged[ShareRecord] = Merged()
        """Until they are served: a predecessor may write some behind this matcher's claim, which still count."""
        self._to_rewrite: dict[tuple[str, str], None] = {}
        """Keys whose newest record is unreadable or superseded, as (topic, key). Compaction would keep only that
        record, so it is overwritten once the partition is owned."""
        self._strange_keys: dict[tuple[str, bytes], None] = {}
        self._newer: dict[tuple[str, bytes], NewerFormat] = {}
        """By (topic, key): records of a later release that are the newest of their key. The key is theirs then."""

    @property
    def clients(self) -> int:
        """Number of clients that have a session record, until they are loaded."""
        return len(self._sessions.winners)

    def refuse_newer(self) -> None:
        """Raises NewerFormat if the newest record of a key is one of a later release."""
        for error in self._newer.values():
            raise error

    def on_record(self, record: JobRecord, key: bytes, now_ms: int, phase: OwningPhase) -> None:
        """Handle one record of a state topic. Raises TakenOver, and NewerFormat unless the partition is loading."""
        topic = record.topic
        # Later records are not outdone by a load any more, and the claim has checked the earlier ones.
        loading = phase in (OwningPhase.FOLLOWING, OwningPhase.LOADING)
        if loading:
            self._aside.take_back(topic, key)
            self._newer.pop((topic, key), None)
        try:
            self._on_key(record, now_ms, phase)
        except NewerFormat as error:
            if not loading:
                raise
            self._newer[topic, key] = error

    def skip(self, record: JobRecord, phase: OwningPhase) -> None:
        """Overwrite the key of a record that is set aside, if it belongs to a state topic."""
        if record.topic in self._check_key and record.key is not None and not is_generation_key(record.key):
            self.overwrite(record.topic, record.key, phase)

    def overwrite(self, topic: str, key: bytes, phase: OwningPhase) -> None:
        """Overwrite a state topic's key whose newest record is invalid: our record, or a null, is written after it."""
        try:
            text = self._check_key[topic](key)
        except UnreadableState:
            self._strange_keys[topic, key] = None
            return
        if phase is OwningPhase.OWNED and (topic != self._names.shares or self._engine.state.shares.served):
            self._engine.rewrite(topic, text, was_null=False)
        else:
            self._to_rewrite[topic, text] = None

    def load(self, ends: Ends, takeover: Takeover | None, now_ms: int, *, topic_changed: bool) -> None:
        """Load the engine with everything that is believed. `topic_changed`: the topic of requests is a new one."""
        since = self._generations.requests_since(topic_changed)
        for key, stored in self._logs.stored():
            self._engine.state.at = key
            if (words := self._logs.beyond(key, stored, ends.logs)) is None:
                self._engine.channels.load(key, stored)
            else:
                self._disbelieve(self._names.channels_state, key, stored, words, NOT_UNDERSTOOD)
        if ends.logs:
            self._logs.start(ends.logs)
        for key, bucket in self._buckets.winners.items():
            self._engine.state.at = key.rpartition("/")[0]
            counts = bucket.generation >= since
            if self._is_believed(self._names.registrations, key, bucket, ends, takeover, applied_counts=counts):
                self._engine.loading.load_registrations(key, bucket, applied_counts=counts)
        for key, wills in self._wills.winners.items():
            self._engine.state.handles(key.rpartition("/")[0])
            counts = wills.generation >= since
            if self._is_believed(self._names.registrations, key, wills, ends, takeover, applied_counts=counts):
                self._engine.loading.load_will(key, wills, applied_counts=counts)
        for key, session in self._sessions.winners.items():
            self._engine.state.at = key
            counts = session.generation >= since
            if self._is_believed(self._names.sessions, key, session, ends, takeover, applied_counts=counts):
                self._engine.loading.load_session(key, session, now_ms, applied_counts=counts)
        self._buckets, self._sessions, self._wills = Merged(), Merged(), Merged()
        self._logs.forget_stored()

    def serve_shares(self, takeover: Takeover | None, end: int, *, topic_changed: bool) -> None:
        """Have the engine serve shares: all that predecessors have written about them is read. `end`: of the requests,
        or a later one of them."""
        state = self._engine.state
        since = self._generations.requests_since(topic_changed)
        shares = []
        for key, record in self._shares.winners.items():
            counts = record.generation >= since
            if takeover is not None and key in takeover.aside:
                self._disbelieve(self._names.shares, key, record, "what is stored of it cannot be handled", RAISED)
            elif counts and record.applied >= end:
                words = f"applied: is {record.applied}, and the requests end at {end}"
                self._disbelieve(self._names.shares, key, record, words, NOT_UNDERSTOOD)
            elif (beyond := self._logs.share_beyond(key, record)) is not None:
                self._disbelieve(self._names.shares, key, record, beyond, NOT_UNDERSTOOD)
            else:
                shares.append(KnownShare.load(key, record, state.steady_ms, applied_counts=counts))
        state.shares.serve(shares, state.clients.values())
        self._shares = Merged()
        self.rewrite()

    def rewrite(self) -> None:
        """Overwrite keys whose newest record is unreadable or superseded: the partition is owned now."""
        waiting: dict[tuple[str, str], None] = {}
        for topic, key in self._to_rewrite:
            if topic == self._names.shares and not self._engine.state.shares.served:
                waiting[topic, key] = None
            else:
                self._engine.rewrite(topic, key, was_null=False)
        self._to_rewrite = waiting

    def take_repairs(self) -> list[ProducedRecord]:
        """Returns the records that were set aside, and tombstones of invalid keys."""
        repairs = self._aside.take()
        repairs += [ProducedRecord(topic, self._number, key, None) for topic, key in self._strange_keys]
        self._strange_keys.clear()
        return repairs

    def _is_believed(
        self,
        topic: str,
        key: str,
        record: RegistrationsRecord | SessionRecord | WillRecord,
        ends: Ends,
        takeover: Takeover | None,
        *,
        applied_counts: bool,
    ) -> bool:
        """Returns true if its offsets refer to existing requests and objects; else it is set aside, and overwritten.

        The ends are known only now: a predecessor may have gone on writing until this matcher's claim.
        """
        client = key if topic == self._names.sessions else key.rpartition("/")[0]
        if takeover is not None and client in takeover.aside:
            words, why = "what is stored of this client cannot be handled", RAISED
        elif applied_counts and record.applied >= ends.requests:
            words, why = f"applied: is {record.applied}, and the requests end at {ends.requests}", NOT_UNDERSTOOD
        elif isinstance(record, SessionRecord) and self._is_beyond(record, ends):
            words, why = f"cursor: is {record.cursor}, and the objects end at {ends.table}", NOT_UNDERSTOOD
        elif isinstance(record, SessionRecord) and self._logs.is_beyond(key, record, ends.logs):
            words, why = f"channels_cursor: is {record.channels_cursor}, behind the end of the log", NOT_UNDERSTOOD
        else:
            return True
        self._disbelieve(topic, key, record, words, why)
        return False

    def _disbelieve(self, topic: str, key: str, record: msgspec.Struct, words: str, why: str) -> None:
        self._aside.add_stored(topic, key, msgspec.json.encode(record), words, why)
        self._to_rewrite[topic, key] = None

    def _is_beyond(self, record: SessionRecord, ends: Ends) -> bool:
        return record.epoch == self._cluster.epoch and record.cursor >= ends.table

    def _on_key(self, record: JobRecord, now_ms: int, phase: OwningPhase) -> None:
        topic, key, value = record.topic, record.key or b"", record.value
        if topic == self._names.shares and is_generation_key(key):
            self._on_marker(value, now_ms, phase)
            return
        if topic == self._names.sessions and is_generation_key(key):
            try:
                self._generations.on_record(value, now_ms, phase)
                if phase is OwningPhase.OWNED and self._generations.is_claim_again(value, now_ms):
                    self._engine.pass_fence()
            except UnreadableState as error:
                self._set_aside(record, str(error), phase)
            return
        try:
            text = self._check_key[topic](key)
        except UnreadableState as error:
            self._strange_keys.pop((topic, key), None)
            if value is not None:
                self._set_aside(record, str(error), phase)
                self._strange_keys[topic, key] = None
            return
        try:
            self._on_state(topic, text, value, record.said, now_ms, phase)
        except UnreadableState as error:
            self._set_aside(record, str(error), phase)
            self.overwrite(topic, key, phase)

    def _on_marker(self, value: bytes | None, now_ms: int, phase: OwningPhase) -> None:
        """Handle a record that a matcher wrote behind its takeover: behind our own one no share's record counts that
        is of another matcher."""
        try:
            if phase is OwningPhase.OWNED and self._generations.is_claim_again(value, now_ms):
                self.marker_is_read = True
        except UnreadableState:
            return  # whoever wrote it: each owner writes its own one

    def _on_state(
        self, topic: str, key: str, value: bytes | None, said: object, now_ms: int, phase: OwningPhase
    ) -> None:
        if phase is OwningPhase.OWNED and (topic != self._names.shares or self._engine.state.shares.served):
            newest_format = self._newest_formats.get(topic, FORMAT)
            if value is None or generation_of(value, now_ms, newest_format=newest_format) < self._generations.claimed:
                self._engine.rewrite(topic, key, was_null=value is None)
            return
        record: RegistrationsRecord | SessionRecord | ChannelsRecord | WillRecord | ShareRecord | None
        ended_by = said.by if value is None and isinstance(said, EndedByHeaders) else 0
        check_generation(ended_by, now_ms)
        if topic == self._names.registrations and is_wills_key(key):
            record = None if value is None else parse_wills(value, now_ms)
            newest = self._wills.merge(key, record, ended_by)
        elif topic == self._names.registrations:
            record = None if value is None else parse_registrations(value, now_ms)
            newest = self._buckets.merge(key, record, ended_by)
        elif topic == self._names.channels_state:
            record = None if value is None else parse_channels(value, now_ms)
            newest = self._logs.merge(key, record)
        elif topic == self._names.shares:
            record = None if value is None else parse_share(value, now_ms)
            newest = self._shares.merge(key, record, ended_by)
        else:
            record = None if value is None else parse_session(value, now_ms, inboxes=self._cluster.inboxes)
            newest = self._sessions.merge(key, record, ended_by)
        if newest:
            self._to_rewrite.pop((topic, key), None)
        else:
            self._to_rewrite[topic, key] = None
        if phase in (OwningPhase.FOLLOWING, OwningPhase.LOADING):
            self._generations.saw(ended_by if record is None else record.generation)

    def _set_aside(self, record: JobRecord, reason: str, phase: OwningPhase) -> None:
        self._aside.add(record, reason, NOT_UNDERSTOOD, owned=phase is OwningPhase.OWNED)
