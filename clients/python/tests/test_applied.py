"""Receipts: whether clients have it, and what it has changed, as the ledger says.

Stands for: effect
"""

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from coldnotify._http_requests import HttpRequests
from coldnotify._publishing.applied import LedgerClient
from coldnotify._publishing.published import Repeat
from coldnotify.publisher import (
    Applied,
    LedgerRefused,
    NeverApplied,
    Newest,
    NotApplied,
    Outcome,
    Published,
    Publisher,
    Receipt,
)

DOMAIN, GROUP = "animal.observer", "region-1"
SINCE_2020 = {"version": 1_700_000_000_000, "incarnation": 2, "published_ms": 1_600_000_000_000}
STALE: dict[str, Any] = {"outcome": "stale", "newest": SINCE_2020}


class PlayedLedger(ThreadingHTTPServer):
    """Answers what `answers` says, the last one again and again; `asked` are the paths."""

    def __init__(self, *answers: tuple[int, dict[str, Any]]) -> None:
        super().__init__(("127.0.0.1", 0), self.Handler)
        self.answers, self.asked, self.tokens = list(answers), list[str](), list[str | None]()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server = self.server
            assert isinstance(server, PlayedLedger)
            server.asked.append(self.path)
            server.tokens.append(self.headers["Authorization"])
            status, body = server.answers.pop(0) if len(server.answers) > 1 else server.answers[0]
            text = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            pass


@contextmanager
def played_ledger(*answers: tuple[int, dict[str, Any]]) -> Iterator[PlayedLedger]:
    with PlayedLedger(*answers) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join(60)


def says(applied: int, lacking: int, position: int = 9, **more: Any) -> tuple[int, dict[str, Any]]:
    names = [{"client": f"c{number}"} for number in range(min(lacking, 10))]
    known = {"applied": applied, "lacking": lacking, "position": position, "incarnation": 0, "published": True}
    return 200, {**known, "items": names, **more}


def receipt(url: str | None, incarnation: int | None = None, token: str | None = None) -> Receipt:
    ledger = None if url is None else LedgerClient(HttpRequests(url, token, None))
    return Receipt.of(Published(5, 0, 8), ledger, (DOMAIN, GROUP, "cams/north"), incarnation)


def test_it_is_waited_for_until_so_many_have_applied_it() -> None:
    away = (503, {"error": "being loaded"})
    answers = [says(9, 0, position=8), away, (404, {"error": "not known"}), says(1, 9), says(8, 2), says(9, 1)]
    with played_ledger(*answers) as ledger:
        assert receipt(ledger.url, token="t").applied_by(0.9, timeout_s=60) == Applied(9, 1)
        assert len(ledger.asked) == 6
        path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/cams%2Fnorth/lacking"
        assert ledger.asked[0] == f"{path}?version=5&limit=10&partition=0&offset=8"
        assert set(ledger.tokens) == {"Bearer t"}
        assert receipt(ledger.url).applied_by(9, timeout_s=60).registered == 10
        assert asyncio.run(receipt(ledger.url).applied_by_async(9, timeout_s=60)) == Applied(9, 1)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (says(1, 2), "1 of 3 registered clients have applied it after 0.3 s (100% were wanted); 2 lack it: c0, c1"),
        (says(0, 12), "12 lack it: c0, c1, c2, c3, c4, c5, c6, c7, c8, c9, 2 more"),
        (says(1, 0, published=False), "the matcher has not read it within 0.3 s"),
        (says(1, 0, incarnation=6), "the matcher has not read it within 0.3 s"),
        ((503, {"error": "no matcher"}), "how many have applied it is not known after 0.3 s: no matcher"),
    ],
)  # fmt: skip
def test_too_few_in_time_is_a_timeout_that_names_who_lacks_it(answer: tuple[int, dict[str, Any]], words: str) -> None:
    with played_ledger(answer) as ledger, pytest.raises(TimeoutError, match=re.escape(words)) as caught:
        receipt(
            ledger.url, incarnation=7 if "incarnation" in answer[1] and answer[1]["incarnation"] else None
        ).applied_by(1.0, timeout_s=0.3)
    assert isinstance(caught.value, NotApplied)


def test_a_version_that_never_was_the_newest_is_applied_by_nobody() -> None:
    answers = (says(3, 0, position=8), says(3, 0, **STALE))
    newest = "1700000000000 of incarnation 2, since 2020-09-13"
    words = f"{DOMAIN}/{GROUP}/cams/north version 5: is stale: the newest is version {newest}"
    with played_ledger(*answers) as ledger:
        with pytest.raises(NeverApplied, match=re.escape(words)) as caught:
            receipt(ledger.url).applied_by(1.0, timeout_s=60)
        assert caught.value.outcome.newest == Newest(1_700_000_000_000, 2, 1_600_000_000_000)
        assert isinstance(caught.value, NotApplied)
        with pytest.raises(NeverApplied):
            asyncio.run(receipt(ledger.url).applied_by_async(0, timeout_s=60))
    rejected = says(3, 0, outcome="rejected", reason="record: is null")
    with played_ledger(rejected) as ledger, pytest.raises(NeverApplied, match="is rejected: record: is null"):
        receipt(ledger.url).applied_by(1.0, timeout_s=60)


def test_it_says_what_was_counted() -> None:
    answer = says(3, 1, by_query=2, told_at_least=1, version=9, wanted_version=5)
    counted = (
        "2 of them registered by a query; 1 of them cannot report callbacks, and count as applied once told; "
        "a newer version counts, too: 9 is the newest"
    )
    with played_ledger(answer) as ledger:
        applied = receipt(ledger.url).applied_by(3, timeout_s=60)
        assert (applied, applied.counted) == ((3, 1), counted)
        with pytest.raises(NotApplied, match=re.escape(f"1 lack it: c0 ({counted})")):
            receipt(ledger.url).applied_by(1.0, timeout_s=0)
    with played_ledger(says(3, 1)) as ledger:
        assert receipt(ledger.url).applied_by(3, timeout_s=60).counted == ""


@pytest.mark.parametrize("outcome", ["published", "repeated", "altered"])
def test_a_version_that_was_the_newest_once_counts_as_applied_with_newer_ones(outcome: str) -> None:
    with played_ledger(says(3, 0, outcome=outcome, newest={"version": 5}, version=9)) as ledger:
        assert receipt(ledger.url).applied_by(1.0, timeout_s=60) == Applied(3, 0)


def outcome_of(*items: dict[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    return [(200, {"partition": 0, "position": 9, "items": [{"offset": 8, **item}]}) for item in items]


def test_the_outcome_is_asked_for_until_it_is_known() -> None:
    unknown = {"outcome": "unknown", "reason": "the matcher has read up to offset 7 so far"}
    away = (503, {"error": "no matcher"})
    with played_ledger(*outcome_of(unknown), away, *outcome_of(STALE)) as ledger:
        outcome = receipt(ledger.url, token="t").outcome(timeout_s=60)
        assert outcome == Outcome("stale", Newest(1_700_000_000_000, 2, 1_600_000_000_000))
        assert outcome.in_vain
        path = f"/v1/domains/{DOMAIN}/groups/{GROUP}/outcomes?partition=0&offsets=8&wait_s=2.000"
        assert ledger.asked == [path] * 3
        assert set(ledger.tokens) == {"Bearer t"}
        assert asyncio.run(receipt(ledger.url).outcome_async(timeout_s=60)) == outcome
    with played_ledger(*outcome_of(unknown)) as ledger:
        assert receipt(ledger.url).outcome(timeout_s=0.3) == Outcome.unknown(unknown["reason"])


@pytest.mark.parametrize(
    ("item", "outcome", "words"),
    [
        ({"outcome": "published", "newest": {"version": 5, "published_ms": 1}}, "published", "published"),
        ({"outcome": "altered", "newest": {"version": 5, "published_ms": 1000}}, "altered", "with other content"),
        ({"outcome": "stale", "newest": {"version": 6, "published_ms": None}}, "stale", "is version 6; no client is"),
        ({"outcome": "stale", "newest": {"version": 6, "published_ms": 1 << 62}}, "stale", "since 4611686018427387904"),
        ({"outcome": "rejected", "reason": "record: is null"}, "rejected", "rejected: record: is null"),
        ({"outcome": "published", "newest": {"version": 6}}, "unknown", "another record is where"),
        ({"outcome": "published", "object": "p", "newest": {"version": 5}}, "unknown", "another record is where"),
        ({"outcome": "of a later release"}, "unknown", "the service does not say"),
    ],
)  # fmt: skip
def test_an_outcome_says_to_a_person_what_it_means(item: dict[str, Any], outcome: str, words: str) -> None:
    with played_ledger(*outcome_of(item)) as ledger:
        found = receipt(ledger.url).outcome(timeout_s=0)
    assert found.outcome == outcome
    assert words in str(found)


def test_a_suppressed_repeat_is_judged_by_the_newest_version() -> None:
    def repeat(incarnation: int | None) -> Receipt:
        return Receipt.of(
            Repeat(5, 0, 8), LedgerClient(HttpRequests(ledger.url, None, None)), (DOMAIN, GROUP, "o"), incarnation
        )

    newest: dict[str, Any] = {"version": 5, "incarnation": 1, "published_ms": 1}
    with played_ledger((200, newest)) as ledger:
        assert [repeat(number).outcome().outcome for number in (1, None, 0)] == ["repeated", "repeated", "stale"]
        assert set(ledger.asked) == {f"/v1/domains/{DOMAIN}/groups/{GROUP}/objects/o"}
        assert not repeat(0).written
    with played_ledger((200, {**newest, "version": None})) as ledger:
        assert repeat(0).outcome(timeout_s=0).outcome == "unknown"


def test_an_outcome_that_cannot_be_asked_for_is_said_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"outcome: needs .* Publisher\(http="):
        receipt(None).outcome()
    with pytest.raises(ValueError, match="timeout_s: "):
        receipt("127.0.0.1:1").outcome(timeout_s=-1)
    with played_ledger((403, {"error": "not yours"})) as ledger, pytest.raises(LedgerRefused, match="not yours"):
        receipt(ledger.url).outcome(timeout_s=60)
    nowhere = Receipt.of(
        Published(5, 0, -1), LedgerClient(HttpRequests("127.0.0.1:1", None, None)), (DOMAIN, GROUP, "o"), None
    )
    assert "Kafka did not say" in nowhere.outcome(timeout_s=60).reason


def test_the_last_known_answer_is_reported_if_the_last_request_fails() -> None:
    away = (503, {"error": "being loaded"})
    with played_ledger(says(1, 2), away) as ledger, pytest.raises(NotApplied, match="2 lack it: c0, c1") as caught:
        receipt(ledger.url).applied_by(1.0, timeout_s=2)
    assert caught.value.applied == Applied(1, 2)


def test_waiting_for_the_impossible_raises_at_once() -> None:
    with pytest.raises(RuntimeError, match=r"Publisher\(http="):
        receipt(None).applied_by(1)
    for wrong in (1.5, -1, True, -0.1):
        with pytest.raises(ValueError, match="clients: "):
            receipt("127.0.0.1:1").applied_by(wrong)
    with pytest.raises(ValueError, match="http: "):
        Publisher("127.0.0.1:1", http=" ")
    with played_ledger((403, {"error": "not yours"})) as ledger, pytest.raises(LedgerRefused, match="not yours"):
        receipt(ledger.url).applied_by(1, timeout_s=60)


@pytest.mark.kafka
def test_a_publish_can_be_waited_for(bootstrap: str) -> None:
    with played_ledger(says(1, 0, position=1 << 40)) as ledger, Publisher(bootstrap, http=ledger.url) as publisher:
        assert publisher.publish(DOMAIN, GROUP, "o", version=1).applied_by(1) == Applied(1, 0)
        (many,) = publisher.publish_many(DOMAIN, GROUP, {"p": {"version": 2}})
        assert many.applied_by(1.0) == Applied(1, 0)
        assert "/objects/p/lacking?version=2" in ledger.asked[-1]
