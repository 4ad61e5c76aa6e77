"""Brings an outbox's records to the HTTP service: one request after another, for their order counts.

A request carries what follows each other in the outbox and is of one kind and one group. What the service refuses for
ever it refuses as a whole, so the records of such a request are sent again one by one: only those at fault are set
aside.
"""

import base64
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from coldnotify_schemas.protocol import CLOCK_SET_S, PUBLISHES_PER_REQUEST_MAX
from coldnotify_schemas.wrong_clocks import clock_fault

from coldnotify._core.publishing.outgoing import Outgoing, compact_json, payload_fields
from coldnotify._outbox.outbox_delivery import NotYet, Outcome, RejectedForEver, WrongClock
from coldnotify._publishing.published import PublishError, PublishRejected

REQUEST_BYTES_MAX = 4 * 1024 * 1024
"""Limit on a request with several records: half of the service's default."""

_Fields = dict[str, object]
Post = Callable[[Outgoing, _Fields, int | None], dict[str, Any]]
"""Sends a record's JSON, with the time that our clock gave as its version, and returns the answer. Raises ValueError,
PublishError."""
PostMany = Callable[[Outgoing, bytes, int | None], dict[str, Any]]
"""Sends the JSON of several records, of the kind and group of the one that is given, with the highest of such times,
and returns the answer, which has `results`, also where some of them were not published. Raises ValueError,
PublishError."""


Patch = Callable[[Outgoing], object]
"""Merges a record's patch into its object's description. Raises ValueError, PublishError."""


class ClockRefused(ValueError):
    """The service has not taken a request: a version in it comes from a clock that was wrong."""

    def __init__(self, message: str, service_ms: int) -> None:
        super().__init__(message)
        self.service_ms = service_ms
        """The service's clock."""


class VersionRefused(ValueError):
    """The service has not taken a request, because of this record of several."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name
        """The object's name."""


class HttpCarrier:
    """See outbox_delivery.Carrier."""

    def __init__(self, post: Post, post_many: PostMany, patch: Patch) -> None:
        self._post, self._patch = post, patch
        self._post_many = post_many
        self._stopped = threading.Event()

    def carry(self, batch: Sequence[Outgoing]) -> list[Outcome]:
        """Stops at the first request with a record that is not known to be published."""
        outcomes: list[Outcome] = []
        for request in requests_of(batch):
            if self._stopped.is_set():
                break
            outcomes += self._several(request) if len(request.records) > 1 else self._one_by_one(request.records)
            if any(isinstance(outcome, NotYet) for outcome in outcomes):
                break
        return outcomes

    def stop(self) -> None:
        """No further request; one that is under way is answered, or ends with its time."""
        self._stopped.set()

    def close(self) -> None:
        """Nothing is open."""

    def _several(self, request: "RecordsRequest") -> list[Outcome]:
        try:
            results = self._post_many(request.records[0], request.body, _clock_ms(request.records))["results"]
            return [_outcome(result) for _, result in zip(request.records, results, strict=True)]
        except ClockRefused as refused:
            return [_renumbered(one, refused) for one in request.records]
        except (ValueError, PublishRejected, LookupError):
            # Something of it is wrong; or the service is one that takes no such request.
            return self._one_by_one(request.records)
        except (PublishError, TypeError) as error:
            return [_not_yet(error)]

    def _one_by_one(self, records: Sequence[Outgoing]) -> list[Outcome]:
        """Ends at the first that is not known to be published."""
        outcomes: list[Outcome] = []
        for outgoing in records:
            if self._stopped.is_set():
                break
            try:
                if outgoing.describe:
                    self._patch(outgoing)
                outcomes.append(_outcome(self._post(outgoing, _fields(outgoing), _clock_ms([outgoing]))))
            except ClockRefused as refused:
                outcomes.append(_renumbered(outgoing, refused))
            except (ValueError, PublishRejected) as error:
                outcomes.append(RejectedForEver(str(error)))
            except (PublishError, LookupError, TypeError) as error:
                outcomes.append(_not_yet(error))
                break
        return outcomes


class RecordsRequest(NamedTuple):
    """A request with several records."""

    records: list[Outgoing]
    body: bytes
    """The body with all of them."""


def requests_of(batch: Sequence[Outgoing]) -> Iterator[RecordsRequest]:
    """Yields the same records in the same order."""
    records: list[Outgoing] = []
    parts: list[bytes] = []
    size_bytes = 0
    for outgoing in batch:
        part = compact_json({_what(outgoing): outgoing.name, **_fields(outgoing)})
        full = len(records) >= PUBLISHES_PER_REQUEST_MAX or size_bytes + len(part) > REQUEST_BYTES_MAX
        alone = _addressed(outgoing) is None
        if records and (full or alone or _addressed(records[0]) != _addressed(outgoing)):
            yield RecordsRequest(records, _joined(records[0], parts))
            records, parts, size_bytes = [], [], 0
        records.append(outgoing)
        parts.append(part)
        size_bytes += len(part) + 1
    if records:
        yield RecordsRequest(records, _joined(records[0], parts))


def _addressed(outgoing: Outgoing) -> tuple[str, str, bool, bool] | None:
    """Returns what must be equal in a request. One time stands for all, so those of an unset clock are separate. None:
    it has a request of its own, behind that of its patch."""
    if outgoing.describe:
        return None
    was_set = outgoing.clock_ms is None or outgoing.clock_ms >= CLOCK_SET_S * 1000
    return outgoing.domain, outgoing.group, outgoing.is_message, outgoing.clocked and not was_set


def _clock_ms(records: Sequence[Outgoing]) -> int | None:
    return max((one.clock_ms for one in records if one.clocked and one.clock_ms is not None), default=None)


def _renumbered(outgoing: Outgoing, refused: ClockRefused) -> Outcome:
    if outgoing.clocked and clock_fault(outgoing.clock_ms or 0, refused.service_ms) is not None:
        return WrongClock(str(refused), refused.service_ms)
    return NotYet("another record of the request has its version from a clock that was wrong")


def _what(outgoing: Outgoing) -> str:
    return "channel" if outgoing.is_message else "object"


def _joined(first: Outgoing, parts: Sequence[bytes]) -> bytes:
    several = b"[" + b",".join(parts) + b"]"
    return b'{"messages":' + several + b"}" if first.is_message else several


def _outcome(result: Mapping[str, Any]) -> Outcome:
    """Raises LookupError, TypeError, ValueError if it is not a valid answer."""
    if "error" in result:
        return NotYet(str(result["error"]))
    return int(result["partition"]), int(result["offset"])


def _not_yet(error: Exception) -> NotYet:
    return NotYet(str(error) or type(error).__name__)


def _fields(outgoing: Outgoing) -> _Fields:
    """Returns the fields in the service's form, without the name."""
    fields: _Fields = {}
    if outgoing.is_message:
        fields |= {"id": outgoing.id, "payload_base64": base64.b64encode(outgoing.payload or b"").decode()}
        if outgoing.to:
            fields["to"] = list(outgoing.to)
    else:
        if outgoing.version is not None:
            fields["version"] = outgoing.version
        if outgoing.payload is not None:
            fields |= payload_fields(outgoing.payload)
        if outgoing.deleted:
            fields["deleted"] = True
        if outgoing.incarnation is not None:
            fields["incarnation"] = outgoing.incarnation
    more = {
        "expires_at": outgoing.expires_at,
        "source": outgoing.source,
        "priority": outgoing.priority,
        "key": outgoing.order_key or None,
    }
    return fields | {name: value for name, value in more.items() if value is not None}
