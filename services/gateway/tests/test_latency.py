from coldnotify_gateway.latency import BUCKETS_S, Latency


def test_deliveries_are_counted_by_the_age_of_what_they_tell() -> None:
    latency = Latency()
    latency.observe(1_000, 1_005.0, 3)  # 5 ms: the bound belongs to its bucket
    latency.observe(1_000, 1_006.0, 2)
    latency.observe(1_000, 2_000_000.0, 1)
    counts = dict(latency.buckets())
    assert (counts["0.005"], counts["0.01"], counts["300.0"], counts["+Inf"]) == (3, 5, 5, 6)
    assert round(latency.sum_s, 3) == round(3 * 0.005 + 2 * 0.006 + 1999, 3)


def test_a_publisher_whose_clock_runs_ahead_counts_as_at_once() -> None:
    latency = Latency()
    latency.observe(5_000, 1_000.0, 1)
    assert latency.buckets()[0] == (str(BUCKETS_S[0]), 1)
    assert latency.sum_s == 0
