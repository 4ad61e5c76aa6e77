"""Tenants of a campaign: the campaign's own, and one that floods beside them and ignores refusals.

The history contains the agreements, so that the checker can judge refusals (P10). The campaign's own domains have
agreements, too: one far above what is published, which must refuse nobody, and one so low that deliveries are thinned
all the time, which must break no other promise.
"""

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, NamedTuple

from coldnotify_common.settings import ServiceSettings
from coldnotify_common.tenancy.tenant_store import write_tenant
from coldnotify_schemas.tenants import tenant_of

from coldnotify_fault.history import HistoryFile
from coldnotify_fault.schedule import DOMAINS

FLOODING = "flooding"
FLOODS = "flood.domain"
"""Its only domain. No client registers for anything in it."""
_FLOOD_PER_S = 40.0
_OBJECTS = 5
TENANTS: Mapping[str, Mapping[str, Any]] = {
    "unhurt": {"domains": [DOMAINS[0]], "in_per_s": 10_000.0},
    # A campaign tells some twenty versions a second: most of the time something waits.
    "thinned": {"domains": [DOMAINS[1]], "in_per_s": 10_000.0, "out_per_s": 4.0},
    FLOODING: {"domains": [FLOODS], "in_per_s": 5.0},
}
_AGREE_S = 30.0
_HTTP_TIMEOUT_S = 15.0
"""Longer than the service's own limit, because the service's answer tells more than a timeout here."""
_TOO_MANY = 429


class FloodRefusal(NamedTuple):
    """The answer to a publisher that was refused."""

    limit: str
    retry_after_s: float | None


def post(url: str, value: bytes) -> str | FloodRefusal:
    """Publishes by HTTP: acknowledged, failed (surely not written), unknown; or why it was not let in."""
    request = urllib.request.Request(url, value, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=_HTTP_TIMEOUT_S):
            return "acknowledged"
    except urllib.error.HTTPError as error:
        with error:
            if error.code == _TOO_MANY:
                return _refusal(error.read())
            return "failed" if 400 <= error.code < 500 else "unknown"
    except (OSError, ValueError):
        return "unknown"


def answered(outcome: str | FloodRefusal) -> dict[str, Any]:
    """Returns the fields of the answer in a history."""
    if isinstance(outcome, FloodRefusal):
        return {"outcome": "failed", "refused": outcome.limit, "retry_after_s": outcome.retry_after_s}
    return {"outcome": outcome}


def agree(kafka: str, topics_prefix: str, history: HistoryFile) -> None:
    """Writes each tenant's agreement. Raises KafkaUnavailable."""
    for name, fields in TENANTS.items():
        write_tenant(ServiceSettings(kafka=kafka, topics_prefix=topics_prefix), tenant_of(name, fields), _AGREE_S)
        history.write("agreement", tenant=name, **fields)


class Flood:
    """A publisher that keeps its pace, whatever the answers, until it is stopped."""

    def __init__(self, http_url: str, history: HistoryFile) -> None:
        self._http_url = http_url
        self._history = history
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._flood, name="flood", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """The last call has been answered, or given up."""
        self._stop.set()
        self._thread.join(2 * _HTTP_TIMEOUT_S)

    def _flood(self) -> None:
        number = 0
        while not self._stop.wait(1 / _FLOOD_PER_S):
            number += 1
            object_ = f"{FLOODS}/g/o{number % _OBJECTS}"
            call = {"publisher": FLOODING, "id": number}
            self._history.write("publish", object=object_, version=number, path="http", **call)
            url = f"{self._http_url}/v1/domains/{FLOODS}/groups/g/objects/o{number % _OBJECTS}?outcome=no"
            outcome = post(url, json.dumps({"version": number}).encode())
            self._history.write("published", **call, **answered(outcome))


def _refusal(body: bytes) -> FloodRefusal:
    """Parses a refusal. An unreadable one names no limit, which the checker reports."""
    try:
        said = json.loads(body)
        return FloodRefusal(str(said.get("limit", "")), said.get("retry_after_s"))
    except (ValueError, AttributeError):
        return FloodRefusal("", None)
