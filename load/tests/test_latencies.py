"""Histograms: what goes in comes out, also through another process."""

from coldnotify_load.latencies import Latencies


def test_summary_in_milliseconds() -> None:
    latencies = Latencies()
    latencies.add_ns(n * 1_000_000 for n in range(1, 101))
    summary = latencies.summary()
    assert summary["count"] == 100
    for name, value in {"mean_ms": 50.5, "p50_ms": 50, "p95_ms": 95, "p99_ms": 99, "max_ms": 100}.items():
        assert abs(summary[name] - value) <= 0.01 * value, name
    assert abs(summary["std_ms"] - 28.87) < 0.5


def test_merging_adds_and_nothing_is_out_of_range() -> None:
    one, other = Latencies(), Latencies()
    one.add_ns([5, 3_600_000_000_000])
    other.add_ns([2_000_000])
    one.merge(other.encoded())
    assert one.count == 3
    assert Latencies().summary() == {"count": 0}
