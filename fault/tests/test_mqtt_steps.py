"""MQTT devices in the schedule: of all kinds, apart from clients with queries, and no two payloads are the same."""

from coldnotify_fault.mqtt_steps import MQTT_DEVICES, MQTT_GROUP, MQTT_KILLED
from coldnotify_fault.schedule import DOMAINS, GROUPS, QUERIES, FaultKind, schedule

DOES = ("connect", "disconnect", "crash", "subscribe", "unsubscribe", "publish")


def test_devices_of_all_kinds_do_everything() -> None:
    plan = schedule(1, 60)
    assert schedule(1, 60) == plan
    kinds = {(one.protocol, one.kept) for one in plan.mqtt_devices}
    assert len(plan.mqtt_devices) == MQTT_DEVICES
    assert kinds == {(4, True), (4, False), (5, True), (5, False)}
    assert plan.mqtt_devices[0].filters[0]["filter"] == "#"
    assert {step.what for step in plan.steps if step.what.startswith("mqtt_")} == {f"mqtt_{what}" for what in DOES}
    by_backends = [step for step in plan.steps if step.what == "publish" and MQTT_GROUP in step.arguments["object"]]
    assert by_backends
    assert all("payload" in step.arguments for step in by_backends)


def test_more_or_fewer_devices_change_nothing_else() -> None:
    def others(number: int) -> list[str]:
        steps = schedule(1, 30, mqtt_devices=number).steps
        return [said for step in steps if "mqtt" not in (said := repr(step)) and MQTT_GROUP not in said]

    assert others(0) == others(7)
    assert not schedule(1, 30, mqtt_devices=0).mqtt_devices
    assert schedule(1, 30, mqtt_devices=0).faults()[MQTT_KILLED] == 0


def test_no_client_with_queries_is_in_their_group() -> None:
    domain, group = MQTT_GROUP.split("/")
    assert domain in DOMAINS
    assert group not in GROUPS
    assert QUERIES


def test_no_two_payloads_are_the_same() -> None:
    numbers = []
    for step in schedule(1, 60).steps:
        if step.what == "mqtt_publish":
            numbers.append(step.arguments["number"])
        elif step.what == "send" and step.arguments["channel"].startswith(f"{MQTT_GROUP}/"):
            numbers.append(step.arguments["payload"]["sent"])
    assert len(set(numbers)) == len(numbers) > 100


def test_each_loss_of_power_ends_before_the_next_one_of_the_same_device() -> None:
    for seed in range(20):
        without: set[str] = set()
        for step in schedule(seed, 60).steps:
            if step.arguments.get("kind") == FaultKind.MQTT_DEVICE_KILLED:
                if step.what == "fault":
                    assert step.target not in without, seed
                    without.add(step.target)
                else:
                    without.remove(step.target)
        assert not without, seed
