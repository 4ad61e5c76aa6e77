"""Clients' publishes on their sessions: checked, written to Kafka in batches, answered in order.

A session's publishes wait in a queue. A batch of them is on its way to one partition; once Kafka has answered for each
of it, the next batch follows. The records of a batch are handed to the producer together and time out together, so
their order in Kafka is the client's order. If Kafka does not accept one, all that wait after it are refused, and so are
later ones, until the client sends the refused one again.

If a client's clock is wrong, a version made from it would stay the newest for everybody until that time. It is refused,
with the gateway's time: the client assigns a new number, and every resend carries that number. So a resend after a lost
answer is the same version. A publish without a request number is never resent, so the gateway numbers it.

While a domain's tenant has as many objects as were agreed, the matcher is asked for each publish if its object exists.
A new object is refused. If no answer arrives in time, the publish is admitted, because one object too many is better
than an existing object that cannot be published.

A publish may have a patch of its object's description. The matcher merges it, and answers once that is durable; only
then the rest is written. So whoever is told the version finds the description in force. A patch that the matcher
refuses refuses its publish, and no other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from coldnotify_common.security.publish_rights import NotGranted
from coldnotify_schemas.arrival_versions import arrival_header
from coldnotify_schemas.channels import (
    MessageHeaders,
    Retentions,
    check_id,
    check_message,
    check_message_key,
    message_headers,
)
from coldnotify_schemas.description_patches import parse_description_patch
from coldnotify_schemas.interests import channel_of, channel_text, check_attributes
from coldnotify_schemas.internal_pb2 import Described
from coldnotify_schemas.message_places import MessagePlace
from coldnotify_schemas.names import InvalidName, check_object, object_key
from coldnotify_schemas.priority import PRIORITY_HEADER, priority_header
from coldnotify_schemas.protocol import PUBLISHES_UNANSWERED_MAX
from coldnotify_schemas.records import (
    VERSION_MAX,
    InvalidRecord,
    PublicRecord,
    carrying,
    encode_public_record,
    parse_public_record,
    record_headers,
)
from coldnotify_schemas.share_names import check_no_dead_letters
from coldnotify_schemas.topics import TopicNames
from coldnotify_schemas.wire_pb2 import (
    PRIORITY_HIGH,
    PRIORITY_NORMAL,
    AskOutcome,
    GatewayFrame,
    NotPublished,
    Outcome,
    Publish,
    Published,
)
from coldnotify_schemas.wrong_clocks import clock_fault, expiry_here

from coldnotify_gateway.core.encoding import plain
from coldnotify_gateway.core.outputs import Output, PauseReading, PublishBatch, PublishRecord, Send
from coldnotify_gateway.core.timers import NEVER_S
from coldnotify_gateway.core.waiting_publishes import WaitingPublish

if TYPE_CHECKING:
    from coldnotify_gateway.core.counters import Counters
    from coldnotify_gateway.core.identified import Identified
    from coldnotify_gateway.core.limits import Limits
    from coldnotify_gateway.core.requests import RequestMaker
    from coldnotify_gateway.core.waiting_publishes import Result

PAUSE_S = 0.25
RETRY_MS = 1000
"""Delay before a client may repeat a publish that Kafka did not accept, or that had no room in the queue."""
_BATCH_BYTES_MAX = 256 * 1024
"""Most bytes of one session that are on their way to Kafka, so that few sessions do not fill the producer's queue."""


class AboveAgreement(NamedTuple):
    """A publish exceeds the agreement of its domain's tenant."""

    reason: str
    retry_ms: int


class AskedAgreements(Protocol):
    """The agreements of domains' tenants. Its methods return None if a publish is within the agreement, as far as is
    known."""

    def ask(self, domain: str, size_bytes: int) -> AboveAgreement | None:
        """Counts one more publish of so many bytes to this domain, or returns the reason that it is too much."""

    def full(self, domain: str, object_: str) -> AboveAgreement | None:
        """Returns a reason if the domain has as many objects as agreed, so that `object_` is too much if it is new."""

    def refuse_object(self, domain: str, object_: str) -> AboveAgreement | None:
        """Returns the same as `full` for an object that is new, and counts it as refused."""


class WithoutLimits:
    """Admits everything, because no agreement exists."""

    def ask(self, _domain: str, _size_bytes: int) -> AboveAgreement | None:
        """Returns None: no publish is too much."""
        return None

    def full(self, _domain: str, _object: str) -> AboveAgreement | None:
        """Returns None: no domain is full."""
        return None

    refuse_object = full


class Publishing:
    """Handles publishes and their outcomes. The shell carries out the returned outputs in order."""

    def __init__(
        self,
        topics: TopicNames,
        retentions: Retentions,
        limits: Limits,
        agreements: AskedAgreements,
        requests: RequestMaker,
        counters: Counters,
    ) -> None:
        self._topics = topics
        self._retentions = retentions
        self._agreements = agreements
        self._requests = requests
        self._limits = limits
        self._counters = counters
        self._wall_offset_ms: float | None = None
        """The wall clock minus the core's clock, in milliseconds; None: not known yet."""

    def on_wall_clock(self, unix_s: float, now_s: float) -> None:
        """Sets the wall clock's offset from the core's clock."""
        self._wall_offset_ms = (unix_s - now_s) * 1000

    def fault_of(self, session: Identified, publish: Publish) -> str | None:
        """Returns the error in a publish that its client must correct, or None."""
        return self._wrong(session, publish)

    def wall_ms(self, now_s: float) -> int:
        """Returns the wall clock, Unix ms, at a time of the core's clock."""
        return int(now_s * 1000 + (self._wall_offset_ms or 0))

    def on_publish(self, session: Identified, publish: Publish, now_s: float) -> list[Output]:
        """Handles a client's publish."""
        own = session.publishes
        if own.refused and publish.request != own.refused:
            words = "an earlier publish was refused: it is to come again first"
            return self._refuse_at_once(session, publish, words, RETRY_MS, now_s)
        own.refuse(0)
        wrong = self._wrong(session, publish)
        if wrong is not None:
            return self._refuse_at_once(session, publish, wrong, 0, now_s)
        if (refused := self._by_our_clock(session, publish, now_s)) is not None:
            return refused
        if len(own.waiting) >= PUBLISHES_UNANSWERED_MAX:
            own.refuse(publish.request)
            words = f"{PUBLISHES_UNANSWERED_MAX} publishes are under way"
            return self._refuse_at_once(session, publish, words, RETRY_MS, now_s)
        admitted = not self._is_full(session, publish)
        too_much = self._ask(session, publish) if admitted else None
        if too_much is not None:
            own.refuse(publish.request)
            return self._refuse_at_once(session, publish, *too_much, now_s)
        own.waiting.append(WaitingPublish(publish, admitted, described=not publish.describe))
        return self._begin_next(session, now_s) if len(own.waiting) == 1 else []

    def _by_our_clock(self, session: Identified, publish: Publish, now_s: float) -> list[Output] | None:
        """Converts the publish's times to the gateway's clock if the client's clock is wrong. Returns the outputs of a
        refusal, or None if the publish is not refused."""
        if not publish.clock_ms or self._wall_offset_ms is None:
            return None
        now_ms = int(now_s * 1000 + self._wall_offset_ms)
        fault = clock_fault(publish.clock_ms, now_ms)
        if fault is None:
            return None
        numbered = bool(publish.object) and publish.version == publish.clock_ms
        if numbered and publish.request:
            return self._refuse(session, publish, f"version: {fault}", 0, now_ms)
        if numbered:
            publish.MergeFrom(Publish(version=now_ms))
        if publish.expires_at:
            expires_at = expiry_here(publish.expires_at, publish.clock_ms, now_ms)
            publish.MergeFrom(Publish(expires_at=expires_at))
        return None

    def on_result(self, session: Identified, number: int, result: Result, now_s: float) -> list[Output]:
        """Handles Kafka's answer to a publish under way, which has this number in its session."""
        own = session.publishes
        if not own.note(number, result):
            return []
        if own.messages:
            return self._on_messages(session, own.take_messages(), now_s)
        outputs: list[Output] = []
        while (taken := own.take_published()) is not None:
            publish, offset = taken
            outputs += self._published(session, publish, offset)
        if (reason := own.failure()) is not None:
            return outputs + self._refuse_all(session, reason, RETRY_MS)
        return outputs + self._begin_next(session, now_s)

    def _published(self, session: Identified, publish: Publish, offset: int) -> list[Output]:
        self._counters.publishes["published"] += 1
        if session.device is not None:
            return [Send(session.peer, session.device.published(publish.request))]
        if not publish.request:
            return []
        published = Published(request=publish.request, offset=offset)
        return [Send(session.peer, [plain(GatewayFrame(published=published), session.dialect.encode)])]

    def _on_messages(self, session: Identified, results: list[Result], now_s: float) -> list[Output]:
        """Goes on with the versions whose messages are in Kafka."""
        device, log = session.device, self._retentions.of(session.domain)
        if not results or device is None:
            return []
        for waiting, result in zip(session.publishes.waiting, results, strict=False):
            if result.offset is None:
                break
            device.publishes.message_written(waiting.publish.request, MessagePlace(log, result.offset))
        if results[0].offset is None:
            return self._refuse_all(session, results[0].reason, RETRY_MS)
        return self._begin_next(session, now_s)

    def on_there(self, session: Identified, asked: int, now_s: float, *, there: bool) -> list[Output]:
        """Handles the matcher's answer about the object that this question asked for."""
        own = session.publishes
        if own.due_s == NEVER_S or own.asked != asked or own.describes:
            return []  # the answer is late, or a repetition
        own.answered()
        publish = own.waiting[0].publish
        if not there:
            too_much = self._agreements.refuse_object(session.domain, publish.object)
            if too_much is not None:
                return self._refuse_all(session, *too_much)
        return self._admit_first(session, now_s)

    def on_described(self, session: Identified, said: Described, now_s: float) -> list[Output]:
        """Handles the matcher's answer about the patch of the first publish."""
        own = session.publishes
        if own.due_s == NEVER_S or own.asked != said.ask or not own.describes:
            return []  # the answer is late, or a repetition
        own.answered()
        first = own.waiting[0]
        if said.reason:
            refused = own.take_next()
            assert refused is not None
            return self._refuse(session, refused, said.reason, 0) + self._begin_next(session, now_s)
        if not first.publish.only_describe:
            own.change_first(first._replace(described=True))
            return self._begin_next(session, now_s)
        own.take_next()
        return self._published(session, first.publish, 0) + self._begin_next(session, now_s)

    def on_ask(self, session: Identified, asked: AskOutcome, now_s: float) -> list[Output]:
        """Handles a client's question about the outcome of a version, published by itself or by another in its
        group."""
        own = session.publishes
        reason = ""
        if session.publish_right.nothing:
            reason = f"this client has no right to publish to {session.domain}"
        elif not session.opened or not own.asking.take_request(now_s, self._limits):
            reason = "too much is asked for at once"
        else:
            try:
                session.publish_right.publisher("object", check_object(asked.object), session.client)
            except (InvalidName, NotGranted) as error:
                reason = str(error)
        if reason:
            return self._became(session, Outcome(ask=asked.ask, reason=reason))
        return [self._requests.ask_outcome(session, asked.object, asked.offset, asked.ask)]

    def on_became(self, session: Identified, outcome: Outcome) -> list[Output]:
        """Forwards the matcher's answer about an outcome."""
        session.publishes.asking.answered()
        return self._became(session, outcome)

    @staticmethod
    def _became(session: Identified, outcome: Outcome) -> list[Output]:
        return [Send(session.peer, [plain(GatewayFrame(outcome=outcome), session.dialect.encode)])]

    def on_due(self, session: Identified, now_s: float) -> list[Output]:
        """Admits the first publish if the matcher has not answered about its object in time; if it has not answered
        about its patch, refuses it for now."""
        if session.publish_due_s > now_s:
            return []
        session.publishes.answered()
        if session.publishes.describes:
            words = "describe: the service has not answered (a matcher of release 0.1.0 knows no patches)"
            return self._refuse_all(session, words, RETRY_MS)
        return self._admit_first(session, now_s)

    def _begin_next(self, session: Identified, now_s: float) -> list[Output]:
        """Begins the next batch, if none is under way: the first publishes that have one topic and are admitted."""
        own = session.publishes
        if own.under_way or not own.waiting:
            return []
        publish, admitted, described = own.waiting[0]
        if not admitted:
            if self._is_full(session, publish):
                return [self._requests.is_there(session, publish.object, now_s)]
            return self._admit_first(session, now_s)
        if not described:
            return [self._requests.describe(session, publish.object, publish.describe, now_s)]
        records: list[PublishRecord] = []
        size_bytes = 0
        messages = _message_of(session, publish) is not None
        for number, (publish, admitted, described) in enumerate(own.waiting, own.first):
            message = _message_of(session, publish)
            if not admitted or not described or (message is not None) is not messages:
                break
            record = self._publication(session, number, publish if message is None else message)
            size_bytes += len(record.key) + len(record.value)
            if records and (record.topic != records[0].topic or size_bytes > _BATCH_BYTES_MAX):
                break
            records.append(record)
        own.begin(len(records), messages=messages)
        return [PublishBatch(tuple(records))]

    def _admit_first(self, session: Identified, now_s: float) -> list[Output]:
        own = session.publishes
        publish = own.waiting[0].publish
        too_much = self._ask(session, publish)
        if too_much is not None:
            return self._refuse_all(session, *too_much)
        own.change_first(own.waiting[0]._replace(admitted=True))
        return self._begin_next(session, now_s)

    def _is_full(self, session: Identified, publish: Publish) -> bool:
        """Returns true if the publish may add one object too many. A deletion never does."""
        if not publish.object or publish.deleted:
            return False
        return self._agreements.full(session.domain, publish.object) is not None

    def _ask(self, session: Identified, publish: Publish) -> AboveAgreement | None:
        size_bytes = len(session.domain) + len(session.group) + len(publish.object or publish.channel) + 2
        return self._agreements.ask(session.domain, size_bytes + len(publish.payload) + len(publish.describe))

    def _refuse_all(self, session: Identified, reason: str, retry_ms: int) -> list[Output]:
        """Refuses the first publish, and with it those that wait after it."""
        own = session.publishes
        outputs = self._refuse(session, own.give_up(), reason, retry_ms)
        while (publish := own.take_next()) is not None:
            outputs += self._refuse(session, publish, "the publish before it was not taken", RETRY_MS)
        return outputs

    def _refuse_at_once(
        self, session: Identified, publish: Publish, reason: str, retry_ms: int, now_s: float
    ) -> list[Output]:
        """Refuses a publish on arrival. Pauses reading if the client sends too many of these."""
        outputs = self._refuse(session, publish, reason, retry_ms)
        if session.publishes.refuses_too_often(now_s):
            outputs.append(PauseReading(session.peer, PAUSE_S))
        return outputs

    def _refuse(
        self, session: Identified, publish: Publish, reason: str, retry_ms: int, clock_ms: int = 0
    ) -> list[Output]:
        self._counters.publishes["refused" if retry_ms else "rejected"] += 1
        if not publish.request:
            return []
        if session.device is not None:
            session.device.refused(publish.request, reason, for_now=bool(retry_ms))
            return []
        said = NotPublished(request=publish.request, reason=reason, retry_after_ms=retry_ms, clock_ms=clock_ms)
        return [Send(session.peer, [plain(GatewayFrame(not_published=said), session.dialect.encode)])]

    def _wrong(self, session: Identified, publish: Publish) -> str | None:
        """Returns the error that the client must correct, or None."""
        if session.publish_right.nothing:
            return f"publish: this client has no right to publish to {session.domain}"
        try:
            if bool(publish.object) == bool(publish.channel):
                return "publish: says either an object or a channel"
            if publish.priority not in (PRIORITY_NORMAL, PRIORITY_HIGH):
                return f"{PRIORITY_HEADER}: is {publish.priority}, which this release does not know"
            if publish.describe or publish.only_describe:
                _check_patch(publish)
            if publish.only_describe:
                check_object(publish.object)
                session.publish_right.publisher("object", publish.object, session.client)
            elif publish.channel:
                self._message(session, publish)
                session.publish_right.publisher("channel", publish.channel, session.client)
            else:
                self._record(session, publish)
                session.publish_right.publisher("object", publish.object, session.client)
                if (message := _message_of(session, publish)) is not None:
                    self._message(session, message)
        except (InvalidName, InvalidRecord, NotGranted) as error:
            return str(error)
        return None

    def _publication(self, session: Identified, number: int, publish: Publish) -> PublishRecord:
        # It was checked on arrival.
        topic, key, value, headers = (self._message if publish.channel else self._record)(session, publish)
        if session.device is not None:
            headers = (*headers, *session.device.publishes.headers_of(publish.request))
        return PublishRecord(session.peer, session.number, number, session.view.partition, topic, key, value, headers)

    def _record(self, session: Identified, publish: Publish) -> _Written:
        if publish.id or publish.to:
            raise InvalidRecord(f"{'id' if publish.id else 'to'}: is for messages of channels")
        if publish.key:
            raise InvalidRecord("key: is for messages of channels")
        if publish.incarnation:
            raise InvalidRecord("incarnation: is not a client's to say; `coldnotify object reset` begins versions over")
        if publish.version > VERSION_MAX:
            raise InvalidRecord(f"version: is {publish.version} (at most {VERSION_MAX})")
        by_arrival = not publish.HasField("version")
        record = PublicRecord(
            version=None if by_arrival else publish.version,
            source=session.client,
            expires_at=publish.expires_at or None,
            deleted=publish.deleted,
        )
        bytes_max = self._limits.payload_bytes_max
        record = carrying(record, publish.payload, payload_bytes_max=bytes_max)
        value = encode_public_record(record)
        parse_public_record(value, raw=record.is_raw, payload_bytes_max=bytes_max)
        key = object_key(session.domain, session.group, publish.object)
        headers = (
            *([priority_header()] if _is_high(publish) else ()),
            *record_headers(record),
            *([arrival_header()] if by_arrival else ()),
        )
        return self._topics.objects, key.encode(), value, headers

    def _message(self, session: Identified, publish: Publish) -> _Written:
        if publish.HasField("version") or publish.incarnation or publish.deleted:
            raise InvalidRecord("version, incarnation and deleted: are for objects")
        if publish.expires_at > VERSION_MAX:
            raise InvalidRecord(f"expires_at: is {publish.expires_at} (at most {VERSION_MAX})")
        headers = MessageHeaders(
            id=check_id(publish.id),
            expires_at=publish.expires_at or None,
            to=tuple(check_attributes("to", publish.to)),
            source=session.client,
            high_priority=_is_high(publish),
            key=check_message_key(publish.key),
        )
        name, _ = channel_of(channel_text(check_no_dead_letters(publish.channel)))
        key = object_key(session.domain, session.group, name)
        topic = self._retentions.of(session.domain).topic(self._topics)
        return (
            topic,
            key.encode(),
            check_message(publish.payload),
            tuple(message_headers(headers)),
        )


def _check_patch(publish: Publish) -> None:
    """Raises InvalidRecord for a patch that no description can take."""
    if publish.channel:
        raise InvalidRecord("describe: is for objects")
    if not publish.describe:
        raise InvalidRecord("describe: is missing")
    if publish.only_describe and (publish.payload or publish.deleted or publish.HasField("version")):
        raise InvalidRecord("only_describe: the publish says a version, too")
    parse_description_patch(publish.describe)


def _message_of(session: Identified, publish: Publish) -> Publish | None:
    """Returns the message that is written before a publish; None: there is none, or it is in Kafka."""
    return None if session.device is None else session.device.publishes.message_of(publish)


def _is_high(publish: Publish) -> bool:
    return publish.priority == PRIORITY_HIGH


_Written = tuple[str, bytes, bytes, tuple[tuple[str, bytes], ...]]
"""Topic, key, value and headers of a record."""
