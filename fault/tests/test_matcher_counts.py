"""Counters of processes that are killed and started again."""

from coldnotify_fault.matcher_counts import COUNTED, MatcherCounts

BLOCKS_SERVED = 'coldnotify_matcher_events_total{event="blocks_served"}'


def test_counters_restart_with_each_process() -> None:
    counts = MatcherCounts({})
    for matcher, count in (("matcher-1", 3), ("matcher-2", 4), ("matcher-1", 5), ("matcher-1", 2)):
        text = f"# HELP x\n{BLOCKS_SERVED} {count}.0\ncoldnotify_matcher_x_total 9.0\n"
        counts.take(matcher, text)
    assert counts.close() == dict.fromkeys(COUNTED.values(), 0) | {"served_by_blocks": 5 + 4 + 2}


def test_matchers_counters_of_queries_are_read_from_their_metrics() -> None:
    counts = MatcherCounts({})
    events = "".join(
        f'coldnotify_matcher_events_total{{event="{event}"}} {count}.0\n'
        for event, count in (("evaluated", 12), ("sets_digests", 3))
    )
    metrics = f"# HELP x y\n{events}"
    counts.take("matcher-1", metrics)
    counted = counts.close()
    assert (counted["evaluated"], counted["sets_digests"], counted["asked_again"]) == (12, 3, 0)
