"""`--gateway-mqtt-retained=both`: mosquitto's own clients are told each retained message, awake or asleep, in order."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from coldnotify_kafka.broker.readiness import quiet_admin
from coldnotify_testkit.paho_device import MQTT_5, PahoDevice
from coldnotify_testkit.stack import Recorder, Stacks, Up, notify
from coldnotify_testkit.waiting import wait_for
from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there is no mosquitto_sub here (make tools)"),
]

DOMAIN, GROUP = "animal.observer", "region-1"
LIMIT_S = "60"
KILLS = int(os.environ.get("COLDNOTIFY_TEST_BOTH_KILLS", "3"))
FIVE = [f"v{number}" for number in range(1, 6)]


@pytest.fixture(scope="module")
def both(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    with stacks.running(tmp_path_factory.mktemp("both"), gateway_mqtt_retained="both") as up:
        yield up


def port_of(up: Up) -> int:
    return int(str(up.report["mqtt"]).rpartition(":")[2])


def mosquitto(up: Up, client: str, *flags: str) -> list[str]:
    return ["-p", str(port_of(up)), "-V", "mqttv5", "-q", "1", "-i", f"{DOMAIN}/{GROUP}/{client}", *flags]


def publish(up: Up, topic: str, lines: list[str], *flags: str) -> None:
    command = ["mosquitto_pub", *mosquitto(up, "publisher", "-t", topic, *flags)]
    text = "".join(f"{line}\n" for line in lines)
    subprocess.run(command, input=text, text=True, check=True, timeout=60)


@contextmanager
def subscriber(up: Up, client: str, filter_: str, output: Path, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
    """Runs mosquitto_sub, which writes what it is told to a file, a line each: retain flag and payload."""
    command = ["mosquitto_sub", *mosquitto(up, client, "-t", filter_, "-F", "%r %p", *flags)]
    with output.open("a") as file, subprocess.Popen(command, stdout=file) as process:
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)


def lines_of(output: Path) -> list[str]:
    return output.read_text().splitlines() if output.exists() else []


def keep(up: Up, client: str, filter_: str) -> None:
    """Has a session kept that is subscribed."""
    kept = mosquitto(up, client, "-t", filter_, "-c", "-x", "3600", "-E")
    subprocess.run(["mosquitto_sub", *kept], check=True, timeout=60)


def test_five_quick_versions_are_all_told_in_order_awake_and_asleep(both: Up, tmp_path: Path) -> None:
    live, late, asleep = tmp_path / "live", tmp_path / "late", tmp_path / "asleep"
    told = Recorder()
    keep(both, "sleeper", "five/#")
    with subscriber(both, "awake", "five/#", live), notify(both, "native", tmp_path / "state") as native:
        native.register("five/a").subscribe(told)
        wait_for(lambda: _hears(both, "five/ready", live), "it is subscribed")
        publish(both, "five/a", FIVE, "-r", "-l")
        wait_for(lambda: lines_of(live)[-5:] == [f"0 {one}" for one in FIVE], "all five")
        wait_for(lambda: told.seen and told.seen[-1].payload == b"v5", "the native client has the newest version")
        with subscriber(both, "new", "five/a", late):
            wait_for(lambda: lines_of(late) == ["1 v5"], "the newest version answers a subscription")
            publish(both, "five/a", [], "-r", "-n")
            wait_for(lambda: lines_of(late) == ["1 v5", "0 "], "the deletion")
    with subscriber(both, "sleeper", "five/#", asleep, "-c", "-x", "3600"):
        wait_for(lambda: lines_of(asleep)[-1:] == ["0 "], "all that came meanwhile")
    assert lines_of(asleep)[-6:] == [*(f"0 {one}" for one in FIVE), "0 "], "SUBSCRIBE again was answered by nothing"
    assert lines_of(live)[-6:] == [*(f"0 {one}" for one in FIVE), "0 "], "nothing was told twice"


def test_qos_2_and_wills_are_told_each_as_well(both: Up, tmp_path: Path) -> None:
    live, late, heard = tmp_path / "live", tmp_path / "late", tmp_path / "heard"
    with subscriber(both, "watcher", "mixed/#", live):
        wait_for(lambda: _hears(both, "mixed/ready", live), "it is subscribed")
        publish(both, "mixed/a", FIVE, "-r", "-l", "-q", "2")
        wait_for(lambda: lines_of(live)[-5:] == [f"0 {one}" for one in FIVE], "all five")
        will = ["--will-topic", "mixed/a", "--will-payload", "gone", "--will-retain", "--will-qos", "1"]
        with subscriber(both, "mortal", "mixed/there", heard, *will) as mortal:
            wait_for(lambda: _hears(both, "mixed/there", heard), "it is connected")
            mortal.kill()
        wait_for(lambda: lines_of(live)[-1:] == ["0 gone"], "the will")
        with subscriber(both, "after", "mixed/a", late):
            wait_for(lambda: lines_of(late) == ["1 gone"], "the will is the newest version")
        publish(both, "mixed/last", ["1"], "-l")
        wait_for(lambda: lines_of(live)[-1:] == ["0 1"], "the last message")
    told = [one for one in lines_of(live) if not one.endswith("ready")]
    assert told == [*(f"0 {one}" for one in FIVE), "0 gone", "0 1"], "nothing was told twice"


def test_gateways_and_matchers_that_die_lose_nothing(both: Up, tmp_path: Path) -> None:
    client_id = f"{DOMAIN}/{GROUP}/listener"
    with (
        PahoDevice(port_of(both), client_id, MQTT_5, clean=False, expiry_s=3600) as listener,
        PahoDevice(port_of(both), f"{DOMAIN}/{GROUP}/talker", MQTT_5, clean=False, expiry_s=3600) as talker,
    ):
        listener.subscribe("killed/#")
        sent = 0
        for kill in range(KILLS):
            for number in range(10):
                sent += 1
                talker.client.publish("killed/a", b"%d" % sent, 1, retain=True)
                if number == 5:
                    before = both.kill("gateway" if kill % 3 else "matcher")
            wait_for(lambda: listener.last("killed/a") == b"%d" % sent, "the last one")  # noqa: B023
            both.wait_ready(other_than=before)
        numbers = [int(one.payload) for one in listener.told]
        assert sorted(set(numbers)) == list(range(1, sent + 1))
    with PahoDevice(port_of(both), f"{DOMAIN}/{GROUP}/afterwards", MQTT_5) as late:
        late.subscribe("killed/a")
        late.wait_told("killed/a", b"%d" % sent)
        assert len(late.told) == 1


@contextmanager
def objects_refused(up: Up) -> Iterator[None]:
    """Has Kafka refuse what is written to the topic of objects: messages before versions are written all the same."""
    _require_replicas(up, AlterConfigOpType.SET)
    try:
        yield
    finally:
        _require_replicas(up, AlterConfigOpType.DELETE)


def _require_replicas(up: Up, operation: AlterConfigOpType) -> None:
    entry = ConfigEntry("min.insync.replicas", "2", incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, up.topics.objects, incremental_configs=[entry])
    admin = quiet_admin(up.kafka)  # without a name it would be gone before the answer is there
    for future in admin.incremental_alter_configs([resource]).values():
        future.result(60)


def device(up: Up, client: str) -> PahoDevice:
    return PahoDevice(port_of(up), f"{DOMAIN}/{GROUP}/{client}", MQTT_5, clean=False, expiry_s=3600)


def test_a_will_whose_matcher_dies_between_message_and_version_is_both_once(both: Up, tmp_path: Path) -> None:
    heard = tmp_path / "heard"
    will = ["--will-topic", "torn/a", "--will-payload", "gone", "--will-retain", "--will-qos", "1"]
    with device(both, "torn-watcher") as watcher, subscriber(both, "torn", "torn/there", heard, *will) as mortal:
        watcher.subscribe("torn/#")
        wait_for(lambda: _hears(both, "torn/there", heard), "it is connected")
        with objects_refused(both):
            mortal.kill()
            watcher.wait_told("torn/a", b"gone")
            before = both.kill("matcher")
        both.wait_ready(other_than=before)
        with device(both, "torn-late") as late:
            wait_for(lambda: _answered(late, "torn/a") == [b"gone"], "the version, by the successor")
        publish(both, "torn/a", ["behind"], "-l")
        watcher.wait_told("torn/a", b"behind")
        # The successor may not know yet that the subscription was answered: then it answers with the version, too.
        messages = [one.payload for one in watcher.told if one.topic == "torn/a" and not one.retain]
        assert messages == [b"gone", b"behind"]


@pytest.mark.parametrize("qos", [1, 2])
def test_a_publish_whose_gateway_dies_between_message_and_version_is_both(both: Up, qos: int) -> None:
    topic = f"torn/qos{qos}"
    with device(both, f"torn-listener-{qos}") as listener, device(both, f"torn-talker-{qos}") as talker:
        listener.subscribe(topic)
        with objects_refused(both):
            talker.client.publish(topic, b"one", qos, retain=True)
            listener.wait_told(topic, b"one")
            before = both.kill("gateway")
        both.wait_ready(other_than=before)
        with device(both, f"torn-late-{qos}") as late:
            wait_for(lambda: _answered(late, topic) == [b"one"], "the version, once the device has sent it again")
        publish(both, topic, ["behind"], "-l")
        listener.wait_told(topic, b"behind")
    names = [dict(one["UserProperty"]) for one in listener.properties]
    assert not any("coldnotify-version" in one for one in names), "by the channel alone"
    offsets = {
        one["coldnotify-offset"] for one, told in zip(names, listener.told, strict=True) if told.payload == b"one"
    }
    assert len(offsets) == 1 or qos == 1, "with QoS 1 the device has sent another message"


def _answered(late: PahoDevice, topic: str) -> list[bytes]:
    """Returns what a subscription to a topic is answered with."""
    late.told.clear()
    late.subscribe(topic)
    late.publish(f"{topic}/asked", b"")
    return [one.payload for one in late.told if one.retain]


def test_a_version_that_names_no_message_is_told(both: Up) -> None:
    producer = Producer({"bootstrap.servers": both.kafka})
    with device(both, "misled") as misled:
        misled.subscribe("hostile/#")
        for number, place in enumerate((f"1d/{10**9}", "1d/0"), 1):
            key = f"{DOMAIN}/{GROUP}/hostile/{number}"
            producer.produce(
                both.topics.objects, b'{"version":1,"payload":%d}' % number, key, headers={"coldnotify-message": place}
            )
            producer.flush(60)
            misled.wait_told(f"hostile/{number}", b"%d" % number)


def _hears(up: Up, topic: str, output: Path) -> bool:
    publish(up, topic, ["ready"], "-l")
    return bool(lines_of(output))
