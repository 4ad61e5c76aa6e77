"""The schedule: the same for the same seed, all kinds of fault drawn, no target hit while it is down.

Stands for: schedule, channel_steps, linked_steps, work_steps
"""

import hashlib

import pytest
from coldnotify_fault import hostile_faults, usage_faults
from coldnotify_fault.channel_steps import FILM_BYTES, FILM_MESSAGES, TAIL_BYTES_MAX
from coldnotify_fault.linked_steps import CLIENT, LINKED, PATTERNS, SHELF_QUERIES
from coldnotify_fault.mqtt_steps import MQTT_GROUP, MQTT_HOSTS
from coldnotify_fault.schedule import (
    BACKENDS,
    BROKER_FAULTS,
    BROKERS,
    CHANNEL_RETENTIONS,
    DOMAINS,
    GROUPS,
    LAMPS,
    NEED_KAFKA,
    FaultKind,
    ScheduledStep,
    broker_names,
    schedule,
    version_arguments,
)
from coldnotify_fault.work_steps import SHARED, WORKERS, conduct

OF_CHANNELS = ("subscribe", "unsubscribe", "send", "send_by_client", "film", "trim", "lose_log")


def test_channels_are_drawn() -> None:
    plan = schedule(1, 60)
    assert schedule(1, 60) == plan
    of_channels = [step for step in plan.steps if step.what in OF_CHANNELS]
    assert {step.what for step in of_channels} == set(OF_CHANNELS)
    followers = [client for client in plan.clients if client.channels]
    assert len(followers) == len(plan.clients) / 2
    assert {client.name.partition("/")[0] for client in followers} == set(DOMAINS), "two retentions are followed"
    assert CHANNEL_RETENTIONS.partition("=")[0] in DOMAINS
    assert {step.target.partition("-")[0] for step in of_channels if step.what == "send"} == {"library", "http", "raw"}


def test_a_message_has_one_content_and_an_expiring_one_is_sent_once() -> None:
    sent: dict[str, list[dict[str, object]]] = {}
    for step in schedule(1, 60).steps:
        if step.what in ("send", "send_by_client"):
            content = {name: value for name, value in step.arguments.items() if name != "stray"}
            sent.setdefault(step.arguments["message"], []).append(content)
    assert all(one == calls[0] for calls in sent.values() for one in calls)
    assert any(len(calls) > 1 for calls in sent.values())
    assert all(len(calls) == 1 for calls in sent.values() if "expires_in_ms" in calls[0])
    assert any("expires_in_ms" in calls[0] for calls in sent.values())


def test_a_film_exceeds_the_matchers_memory_for_messages() -> None:
    assert FILM_MESSAGES * FILM_BYTES > TAIL_BYTES_MAX


def test_the_same_seed_draws_the_same() -> None:
    assert schedule(7, 30) == schedule(7, 30)
    assert schedule(7, 30) != schedule(8, 30)


def is_of_queries(step: ScheduledStep) -> bool:
    of_lamp = step.what == "publish" and step.arguments["object"].endswith(LAMPS)
    return of_lamp or step.what in ("describe", "register_query", "unregister_query")


def is_of_the_usage_job(step: ScheduledStep) -> bool:
    return step.target in usage_faults.WORKERS


def is_hostile(step: ScheduledStep) -> bool:
    return step.target == hostile_faults.TARGET


def is_of_linked(step: ScheduledStep) -> bool:
    query = step.arguments.get("query")
    return query in SHELF_QUERIES or step.target in LINKED or step.target.endswith(f"/{CLIENT}")


def is_of_mqtt(step: ScheduledStep) -> bool:
    named = step.arguments.get("object", "").startswith(f"{MQTT_GROUP}/")
    return named or step.what.startswith("mqtt_") or step.target in MQTT_HOSTS


def is_of_work(step: ScheduledStep) -> bool:
    return step.target in WORKERS or step.arguments.get("channel") in SHARED


def test_queries_and_descriptions_are_drawn() -> None:
    plan = schedule(1, 60)
    assert {step.what for step in plan.steps if is_of_queries(step)} == {
        *("publish", "describe", "register_query", "unregister_query"),
    }
    assert any(client.queries for client in plan.clients)
    assert schedule(1, 60) == plan


def test_a_recorded_seed_still_draws_the_same() -> None:
    """Else a report's seeds say nothing any more."""

    def drawn(seed: int, seconds: float, fault_every_s: float = 3.0) -> str:
        plan = schedule(seed, seconds, fault_every_s=fault_every_s)
        # As it was before there were queries, channels, faults of the usage job, strangers, and MQTT devices: these are
        # drawn apart.
        clients = ", ".join(repr(client).partition(", queries=")[0] + ")" for client in plan.clients)
        drawn_apart = (is_of_queries, is_of_the_usage_job, is_hostile, is_of_mqtt, is_of_linked, is_of_work)
        steps = tuple(
            step
            for step in plan.steps
            if step.what not in OF_CHANNELS and not any(is_of(step) for is_of in drawn_apart)
        )
        return hashlib.sha256(f"(({clients}), {steps!r})".encode()).hexdigest()[:16]

    assert drawn(1, 60.0) == "2d8eae6a8544ef4f"
    assert drawn(26, 16.0, 0.7) == "6c30a8dbd43c0e82"
    assert drawn(104, 80.0) == "e7772b1f548f7cc3"


@pytest.mark.parametrize("brokers", BROKERS)
def test_every_kind_of_fault_is_drawn_over_twenty_seeds(brokers: int) -> None:
    counts = dict.fromkeys((kind.value for kind in FaultKind), 0)
    for seed in range(1, 21):
        for kind, count in schedule(seed, 30, brokers=brokers).faults().items():
            counts[kind] += count
    assert all(count >= 3 for count in counts.values()), counts


def test_only_the_chosen_kinds_are_drawn() -> None:
    counts = schedule(3, 60, kinds=[FaultKind.MATCHER_KILLED, FaultKind.CLIENTS_CUT]).faults()
    assert {kind for kind, count in counts.items() if count} == {"matcher_killed", "clients_cut"}


def test_steps_come_in_order_and_begin_within_the_time() -> None:
    for seed in range(10):
        steps = schedule(seed, 30).steps
        assert list(steps) == sorted(steps, key=lambda step: step.at_s)
        assert all(step.at_s <= 30 for step in steps if step.what != "heal")


@pytest.mark.parametrize("brokers", BROKERS)
def test_no_target_is_hit_again_before_it_was_healed(brokers: int) -> None:
    for seed in range(50):
        down: set[str] = set()
        for step in schedule(seed, 60, brokers=brokers).steps:
            apart = is_of_the_usage_job, is_hostile, is_of_mqtt, is_of_linked, is_of_work
            if any(is_of(step) for is_of in apart):
                continue  # no other fault waits for these
            if step.what == "fault":
                assert step.target not in down, (seed, step)
                assert "all" not in down, (seed, step)
                assert step.target != "all" or not down, (seed, step)
                down.add(step.target)
                if step.arguments["kind"] in ("clients_cut", "topic_recreated", "objects_recreated"):
                    down.remove(step.target)
            elif step.what == "heal":
                down.remove(step.target)
        assert not down, seed


def test_at_most_one_of_three_brokers_is_away_and_each_is_hit_by_each_kind() -> None:
    hit: set[tuple[str, str]] = set()
    for seed in range(30):
        away: set[str] = set()
        for step in schedule(seed, 60, brokers=3).steps:
            kind = step.arguments.get("kind")
            if step.what == "fault" and kind in NEED_KAFKA:
                assert not away, (seed, step)
            if kind not in BROKER_FAULTS:
                continue
            if step.what == "heal":
                away.remove(step.target)
                continue
            assert not away, (seed, step)
            away.add(step.target)
            hit.add((step.target, kind))
        assert not away, seed
    assert hit == {(name, kind.value) for name in broker_names(3) for kind in BROKER_FAULTS}


def test_publishers_race_repeat_and_are_late() -> None:
    published: dict[str, list[tuple[int, int]]] = {}
    backends: dict[str, set[str]] = {}
    for step in schedule(1, 60).steps:
        if step.what == "publish":
            name = step.arguments["object"]
            published.setdefault(name, []).append((step.arguments["incarnation"] or 0, step.arguments["version"]))
            backends.setdefault(name, set()).add(step.target)
    assert any(used == set(BACKENDS) for used in backends.values())
    assert any(len(set(versions)) < len(versions) for versions in published.values())
    assert any(sorted(versions) != versions for versions in published.values())


def test_a_version_has_one_content() -> None:
    contents: dict[tuple[str, int | None, int], object] = {}
    for seed in range(5):
        for step in schedule(seed, 30).steps:
            if step.what == "publish":
                a = step.arguments
                assert contents.setdefault((a["object"], a["incarnation"], a["version"]), a["payload"]) == a["payload"]
    assert version_arguments("a/b/c", 0, 7)["deleted"]


def test_units_with_one_connection_for_several_groups_do_everything() -> None:
    plan = schedule(1, 60)
    assert {one.device for one in plan.linked} == set(LINKED)
    assert all(sum(one.device == unit for one in plan.linked) == len(GROUPS) for unit in LINKED)
    steps = [step for step in plan.steps if is_of_linked(step)]
    whats = {"describe_by_client", "publish_by_client", "send_by_client", "connect", "disconnect", "fail_next"}
    assert {step.what for step in steps} == {*whats, "subscribe", "unsubscribe", "register_query", "fault", "heal"}
    assert {one.channel for client in plan.linked for one in client.channels} == set(PATTERNS)
    versions = [step.arguments["version"] for step in steps if step.what == "publish_by_client"]
    assert len(set(versions)) == len(versions)


def test_work_is_drawn_with_all_that_befalls_workers() -> None:
    plan = schedule(1, 60)
    tasks = [step.arguments for step in plan.steps if step.what == "send" and is_of_work(step)]
    assert {one["channel"] for one in tasks} == set(SHARED)
    assert len({one["message"] for one in tasks}) < len(tasks), "some are sent again"
    assert {one.get("key") for one in tasks} == {None, "a", "b", "c"}
    assert any("expires_in_ms" in one for one in tasks)
    faults = [step for step in plan.steps if step.target in WORKERS]
    assert {step.arguments["kind"] for step in faults} == {"worker_killed", "worker_paused", "worker_cut"}
    for worker in WORKERS:
        whats = [step.what for step in faults if step.target == worker]
        assert whats == ["fault", "heal"] * (len(whats) // 2), "one after the other"
    without = schedule(1, 60, workers=False)
    assert without.workers == ()
    assert [step for step in plan.steps if not is_of_work(step)] == list(without.steps)


def test_callbacks_go_in_each_way_and_the_same_in_each_process() -> None:
    drawn = [conduct(f"t{number}", 0) for number in range(200)]
    assert drawn == [conduct(f"t{number}", 0) for number in range(200)]
    assert {one.ends for one in drawn} == {"returns", "done", "raises", "retries", "rejects"}
    assert max(one.seconds for one in drawn) > min(SHARED.values()), "some work for longer than a lease"
    assert {conduct("t39", attempt).ends for attempt in range(10)} == {"raises"}, "one has no hope"


def test_the_last_devices_have_raw_clients() -> None:
    assert [schedule(1, 60).form_of(number) for number in (1, 2, 3, 4)] == ["sync", "sync", "aio", "raw"]
    assert [schedule(1, 60, raw_devices=4).form_of(number) for number in (1, 4)] == ["raw", "raw"]
    assert schedule(1, 60, raw_devices=0).steps == schedule(1, 60).steps
