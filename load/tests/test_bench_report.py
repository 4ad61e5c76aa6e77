"""Reports as text, and failures."""

from typing import Any

from coldnotify_load.bench_report import pub_failures, pub_lines, sub_failures, sub_lines
from coldnotify_load.latencies import Latencies


def summary(*values_ms: int) -> dict[str, Any]:
    latencies = Latencies()
    latencies.add_ns(value * 1_000_000 for value in values_ms)
    return latencies.summary()


SUB: dict[str, Any] = {
    "connections": 2000,
    "complete": 1999,
    "processes_gone": 0,
    "connections_lost": 1,
    "closed": [],
    "seconds": 10.0,
    "sent": 51,
    "acknowledged": 50,
    "topics_published": 5,
    "expected": 100,
    "received": 97,
    "outdone": 3,
    "lost": 0,
    "latency": summary(1, 2, 3),
    "without_clock": 0,
    "gbit_per_s": 0.001,
    "cpu_s": {"gateway": 5.0},
    "connections_at": {"addresses": {"127.0.0.1:55000": 2000}, "gateways": {"12": 1000, "13": 1000}},
}


def test_subscribers_say_all_figures() -> None:
    text = "\n".join(sub_lines(SUB))
    for words in (
        "1,999 of 2,000",
        "127.0.0.1:55000  2,000",
        "gateway with pid 13  1,000",
        "51 sent, 50 acknowledged",
        "100 expected, 97 received, 3 outdone, 0 lost",
        "median 2",
        "p90 3",
        "9.7 deliveries/s, 0.001 Gbit/s",
        "gateway 0.50 cores",
    ):
        assert words in text
    assert "another machine" not in text
    without = "\n".join(sub_lines(SUB | {"latency": summary(), "without_clock": 97, "sent": None}))
    assert "none measured" in without
    assert "97 came from another machine" in without
    assert "acknowledged" not in without


def test_losses_are_failures() -> None:
    assert sub_failures(SUB) == []
    assert sub_failures(SUB | {"lost": 2}) == ["2 of 100 did not come"]
    assert sub_failures(SUB | {"processes_gone": 1}) == ["1 processes of clients have ended"]


def test_publishers_say_all_figures() -> None:
    report = {
        "seconds": 2.0,
        "sent": 400,
        "acknowledged": 400,
        "failed": 0,
        "why": "",
        "sent_per_s": 200.0,
        "late_p99_ms": 0.5,
        "acknowledged_after": summary(2),
    }
    text = "\n".join(pub_lines(report))
    assert "400 sent in 2 s (200.0/s), 400 acknowledged" in text
    assert "p99 0.5 ms" in text
    assert pub_failures(report) == []
    failed = report | {"acknowledged": 399, "why": "no token"}
    assert pub_failures(failed) == ["1 of 400 were not acknowledged: no token"]
