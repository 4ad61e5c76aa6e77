"""Units by wrong clocks, for many seeds; and slips in how they are numbered are found."""

import pytest
from coldnotify._core.publishing.outbox_queue import OutboxQueue
from coldnotify_gateway.core.session_publishes import Publishing
from coldnotify_schemas.wire_pb2 import Publish
from coldnotify_testkit.numbering import Numbering

SEEDS = range(150)
FOUND = {
    3_636: "two restarts behind a clock that stepped ahead",
    14_108: "the same behind one that stepped twice",
}


def test_versions_numbered_by_a_wrong_clock_still_rise() -> None:
    renumbered = 0
    for seed in SEEDS:
        play = Numbering(seed)
        play.play()
        renumbered += play.renumbered
    assert renumbered > len(SEEDS)


@pytest.mark.parametrize("seed", FOUND, ids=list(FOUND.values()))
def test_faults_found_by_earlier_seeds_stay_fixed(seed: int) -> None:
    Numbering(seed).play()


def found() -> bool:
    """Whether one of the seeds breaks what must hold."""
    for seed in SEEDS:
        try:
            Numbering(seed).play()
        except AssertionError:
            return True
    return False


def test_a_gateway_that_numbers_what_is_sent_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    by_our_clock = Publishing._by_our_clock

    def numbers(self: Publishing, session: object, publish: Publish, now_s: float) -> None:
        request, publish.request = publish.request, 0
        by_our_clock(self, session, publish, now_s)  # type: ignore[arg-type]
        publish.request = request

    monkeypatch.setattr(Publishing, "_by_our_clock", numbers)
    assert found()


def test_a_gateway_that_believes_every_clock_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Publishing, "_by_our_clock", lambda *_: None)
    assert found()


def test_a_number_that_is_used_before_it_is_durable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    renumber = OutboxQueue.renumber
    monkeypatch.setattr(OutboxQueue, "renumber", lambda *of: [(one, b"") for one, _ in renumber(*of)])
    assert found()
