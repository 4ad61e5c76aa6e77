"""Steps of shares: leases end, messages are handed out, and all of that is in the share's record before it leaves."""

from collections.abc import Iterator
from itertools import islice

import msgspec
from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.channels import OFFSET_HEADER, WHY_HEADER, MessageHeaders, message_headers
from coldnotify_schemas.share_names import dead_letter_id, dead_letters_channel
from coldnotify_schemas.wire_pb2 import RETENTION

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.channel_logs.message_records import ChannelMessage
from coldnotify_matcher.engine.channel_logs.subscriptions import missed_between
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.shares.one_share import KnownShare, UnsentHandOut
from coldnotify_matcher.engine.shares.share_reads import NotThere, is_ready, message_at, read_on
from coldnotify_matcher.engine.shares.share_values import DeadLetter
from coldnotify_matcher.engine.writing.client_records import null_of
from coldnotify_matcher.engine.writing.outbox import EngineOutbox

HANDED_A_STEP_MAX = 1_000
"""Messages of one share that one step hands out: its record is written once for all of them."""
STEP_BYTES_MAX = 1024 * 1024
"""Size of messages of one share that one step sends, or writes as dead letters; at least one. The next step goes on."""
HANDED_BYTES_MAX = 128 * 1024
"""Size of messages that one item holds, unless it holds one alone."""
LOOKED_AT_A_TICK = 32
"""Shares that are looked at each second, whether anything happens in them or not: all 1,000 in half a minute."""
FORGOTTEN_AFTER_MS = 180 * 86_400_000
"""A share without members is forgotten after this time."""
_encode = msgspec.json.Encoder().encode


class ShareSteps:
    """Takes these steps."""

    def __init__(self, state: PartitionState, outbox: EngineOutbox) -> None:
        self._state = state
        self._outbox = outbox
        self._to_look_at: list[str] = []
        self._entries: dict[EngineSession, list[internal_pb2.Entry]] = {}

    def on_tick(self, now_ms: int) -> None:
        """Have the next step look at shares whose time has come, and at some others in turn."""
        shares = self._state.shares
        if not shares.served:
            return
        for share in shares:
            next_ms, log = share.rule.next_ms, self._log_of(share)
            is_behind = bool(share.present) and log is not None and share.rule.read + 1 < log.position
            if share.sends or is_behind or (next_ms is not None and next_ms <= shares.as_of_ms):
                shares.look_at(share)
        if not self._to_look_at:
            self._to_look_at = list(shares.by_key)
        some, self._to_look_at = self._to_look_at[:LOOKED_AT_A_TICK], self._to_look_at[LOOKED_AT_A_TICK:]
        for key in some:
            looked = shares.by_key.get(key)
            if looked is not None:
                self._look_at(looked, now_ms)

    def _look_at(self, share: KnownShare, now_ms: int) -> None:
        """Look at a share in its turn: what it has read is stored now and then, and it is forgotten without members."""
        shares, clocks = self._state.shares, self._state.rules.clocks
        shares.look_at(share)
        if share.rule.base > share.stored_base:
            share.change()
        if share.members:
            return
        if not share.empty_since_ms or share.empty_since_ms > now_ms:
            share.is_empty(now_ms)
        elif clocks.allows(FORGOTTEN_AFTER_MS) and now_ms - share.empty_since_ms >= FORGOTTEN_AFTER_MS:
            self.drop(share)
            self._state.count("shares_forgotten")

    def drop(self, share: KnownShare) -> None:
        """Forget a share: who holds something of it hears that it is lost."""
        log = self._log_of(share)
        if log is not None and share.waits_for is not None:
            log.wait_no_more(share, share.waits_for)
        self._state.shares.drop(share)

    def rewrite(self, key: str, *, was_null: bool) -> None:
        """Write our record of this key again: a null or a record of a lower generation was seen."""
        share = self._state.shares.by_key.get(key)
        if share is not None:
            share.change()
            self._state.shares.look_at(share)
            self._state.count("state_repaired")
        elif not was_null:
            self._outbox.write(null_of(self._state, self._state.rules.topics.shares, key))
            self._state.count("state_repaired")

    def write(self, now_ms: int) -> None:
        """Take a step of each share that is due: its record is state, and all else follows that."""
        shares = self._state.shares
        if not shares.served:
            return
        for key in shares.to_forget:
            if key not in shares.by_key:
                self._outbox.write(null_of(self._state, self._state.rules.topics.shares, key))
        shares.to_forget.clear()
        for session, leases in shares.answers:
            handed = internal_pb2.Handed(session=session.number, leases=leases)
            session.gateway.tell(internal_pb2.Item(handed=handed))
        shares.answers.clear()
        due, shares.due = shares.due, {}
        for share in due:
            self._state.handles(share.key)
            self._take_step(share, now_ms)
        self._state.at = None
        for session, entries in self._entries.items():
            for some in _in_parts(entries):
                session.gateway.tell(
                    internal_pb2.Item(handed=internal_pb2.Handed(session=session.number, entries=some))
                )
        self._entries.clear()

    def _log_of(self, share: KnownShare) -> ChannelLog | None:
        return self._state.channel_logs.get(self._state.rules.retentions.of(share.domain))

    def _take_step(self, share: KnownShare, now_ms: int) -> None:
        state, shares = self._state, self._state.shares
        log, steady_ms = self._log_of(share), state.steady_ms
        if log is not None and share.epoch != log.epoch:
            share.begin_anew(log.epoch)
            state.count("shares_begun_anew")
        for offset in share.letters:  # the step that wrote them was taken
            share.rule.bury(offset)
        share.letters.clear()
        share.rule.expire(shares.as_of_ms)
        if log is not None and is_ready(log):
            wanted = self._hand_out(share, log, now_ms)
            wanted += self._write_letters(share, log)
            wanted = self._send(share, log, now_ms) + wanted
            if wanted and share.waits_for is None:
                share.waits_for = wanted[0]
                log.wait(share, wanted[0])
        if share.rule.take_changed() or share.dirty:
            self._write(share, steady_ms)
        if share.letters:
            shares.look_at(share)

    def _hand_out(self, share: KnownShare, log: ChannelLog, now_ms: int) -> list[int]:
        """Hand out what may be. Returns the offset whose block has to be read before the others."""
        rule, steady_ms = share.rule, self._state.steady_ms
        handed, wanted = 0, None
        while True:
            wanted = read_on(share, log, self._state.spent)
            if wanted is None and rule.base + 1 < log.log_start:
                rule.on_log_start(log.log_start)  # what is in hands is not in the log any more
            some = rule.hand_out(steady_ms, self._state.expires_ms(now_ms))
            for one in some:
                share.sends[one.offset] = UnsentHandOut(one, share.present[one.member])
            handed += len(some)
            if handed >= HANDED_A_STEP_MAX:
                self._state.shares.look_at(share)  # the next step goes on
            if not some or handed >= HANDED_A_STEP_MAX:
                return [] if wanted is None else [wanted]

    def _send(self, share: KnownShare, log: ChannelLog, now_ms: int) -> list[int]:
        """Send what was handed out. Returns the offsets whose blocks have to be read first."""
        wanted, told, bytes_ = [], 0, 0
        for offset, (handed, to) in list(share.sends.items()):
            if bytes_ > STEP_BYTES_MAX:
                self._state.shares.look_at(share)
                break
            is_held = share.rule.is_held(handed.member, offset, handed.number)
            present = share.present.get(handed.member)
            if not is_held or present is None or present.session is not to.session:
                del share.sends[offset]  # its lease is over, or its member's next session says what it has
                continue
            entry = internal_pb2.Entry()
            if handed.reason:
                reason: wire_pb2.Reason = handed.reason  # type: ignore[assignment]
                missed_between(entry.missed, to.hash, offset - 1, handed.through + 1, reason)
                entry.missed.hand_out, entry.missed.attempts = handed.number, handed.attempts
                entry.missed.hold = to.hold
                self._state.count(f"missed:{wire_pb2.Reason.Name(reason).lower()}")
            elif offset >= log.position:
                continue  # a predecessor has read further in the log than this owner yet: the message comes
            else:
                try:
                    message = message_at(share, log, offset)
                except NotThere:
                    share.rule.lose_one(offset, RETENTION if offset < log.log_start else wire_pb2.UNREADABLE)
                    del share.sends[offset]
                    continue
                if message is None:
                    wanted.append(offset)
                    continue
                _fill_in(entry.message, message, to.hash)
                entry.message.hand_out, entry.message.attempts = handed.number, handed.attempts
                entry.message.hold = to.hold
                entry.MergeFrom(_beside(message, self._state.expires_ms(now_ms)))
                bytes_ += len(message.payload)
            told += 1
            del share.sends[offset]
            self._entries.setdefault(to.session, []).append(entry)
        if told:
            self._state.deliver(share.domain, told, bytes_)
            self._state.count("handed_out", told)
        return sorted(wanted)

    def _write_letters(self, share: KnownShare, log: ChannelLog) -> list[int]:
        """Write the dead letters of messages that nobody is handed any more. Returns the offsets whose blocks have to
        be read first."""
        wanted, bytes_ = [], 0
        for letter in islice(share.rule.dying(), HANDED_A_STEP_MAX):
            if bytes_ > STEP_BYTES_MAX:
                break  # those that are written have it looked at again
            message: ChannelMessage | None = None
            if not letter.reason:
                try:
                    message = message_at(share, log, letter.offset)
                except NotThere:
                    share.rule.lose_one(letter.offset, RETENTION)
                    continue
                if message is None:
                    wanted.append(letter.offset)
                    continue
            self._write_letter(share, log, letter, message)
            bytes_ += 0 if message is None else len(message.payload)
            share.letters.append(letter.offset)
            self._state.count("dead_letters")
        return wanted

    def _write_letter(
        self, share: KnownShare, log: ChannelLog, letter: DeadLetter, message: ChannelMessage | None
    ) -> None:
        channel = f"{share.group_key}/{dead_letters_channel(share.channel_name, share.name)}"
        why = "missed" if letter.reason else "rejected" if letter.rejected else "attempts"
        headers = MessageHeaders(
            id=dead_letter_id(share.name, letter.offset),
            source=message.source if message is not None and message.source else None,
            key="" if message is None else message.order_key,
            properties=b"" if message is None else message.properties,
        )
        said = [
            (WHY_HEADER, why.encode()),
            ("attempts", b"%d" % letter.attempts),
            (OFFSET_HEADER, b"%d" % letter.offset),
        ]
        if letter.holder:
            said.append(("holder", letter.holder.encode()))
        topic = log.retention.topic(self._state.rules.topics)
        payload = b"" if message is None else message.payload
        record = ProducedRecord(
            topic, self._state.partition, channel.encode(), payload, (*message_headers(headers), *said)
        )
        self._outbox.write(record)

    def _write(self, share: KnownShare, steady_ms: int) -> None:
        value = _encode(share.record(self._state.generation, steady_ms))
        topic = self._state.rules.topics.shares
        self._outbox.write(ProducedRecord(topic, self._state.partition, share.key.encode(), value))
        share.stored()


def _beside(message: ChannelMessage, now_ms: int) -> internal_pb2.Entry:
    """Returns what MQTT clients are told beside a message."""
    left_ms = None if message.expires_at is None else max(0, message.expires_at - now_ms)
    return internal_pb2.Entry(properties=message.properties, expires_in_ms=left_ms)


def _fill_in(said: wire_pb2.Message, message: ChannelMessage, hash_: int) -> None:
    message.fill_in(said, hash_, message.offset)
    if message.order_key:
        said.key = message.order_key


def _in_parts(entries: list[internal_pb2.Entry]) -> Iterator[list[internal_pb2.Entry]]:
    part: list[internal_pb2.Entry] = []
    size = 0
    for entry in entries:
        entry_bytes = entry.ByteSize()
        if part and size + entry_bytes > HANDED_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(entry)
        size += entry_bytes
    yield part
