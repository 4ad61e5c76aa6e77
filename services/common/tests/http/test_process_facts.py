"""What a process says of itself."""

from importlib.metadata import version

from coldnotify_common.http.process_facts import ProcessFacts


class Clock:
    now_s = 100.0
    cpu_s = 5.0


def test_its_version_and_for_how_long_it_runs_and_what_it_uses_of_a_core() -> None:
    clock = Clock()
    reasons: list[str | None] = ["starting"]
    facts = ProcessFacts(lambda: reasons[-1], now_s=lambda: clock.now_s, cpu_s=lambda: clock.cpu_s)
    shown = facts.shown()
    assert (shown["version"], shown["uptime_s"], shown["cpu"]) == (version("coldnotify-server"), 0.0, None)
    assert (shown["ready"], shown["not_ready"]) == (False, "starting")
    reasons.append(None)
    for _ in range(100):
        clock.now_s += 0.5
        clock.cpu_s += 0.125
        facts.tick()
    shown = facts.shown()
    assert (shown["uptime_s"], shown["cpu"], shown["ready"], shown["not_ready"]) == (50.0, 0.25, True, None)
    for _ in range(20):
        clock.now_s += 0.5
        facts.tick()
    assert facts.shown()["cpu"] == 0, "what it used before is no load of now"
