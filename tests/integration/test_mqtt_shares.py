"""MQTT workers of a share through real gateways, matchers and Kafka: paho, mosquitto_sub, and packets by hand.

No task is lost, whoever is killed, and none is told to two workers while one has it.
"""

import json
import shutil
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.request import Request

import pytest
from coldnotify import Connection, LeasedMessage, Notify, State
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_schemas.channels import MessageHeaders, message_headers
from coldnotify_schemas.mqtt.encoding import encode
from coldnotify_schemas.mqtt.packet_kinds import ProtocolVersion, Side
from coldnotify_schemas.mqtt.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicSubscription,
    UnsubAck,
    Unsubscribe,
)
from coldnotify_schemas.mqtt.parsing import PacketBuffer
from coldnotify_schemas.mqtt.properties import Properties
from coldnotify_schemas.mqtt.reasons import ReasonCode
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.fetching import FetchedAnswer, fetch
from coldnotify_testkit.gateway_process import GatewayProcess
from coldnotify_testkit.matcher_process import DOMAIN, GROUP, PARTITION, MatcherProcess, group_of, records_of
from coldnotify_testkit.paho_device import MQTT_3_1_1, MQTT_5, PahoDevice
from coldnotify_testkit.waiting import WAIT_S, wait_for
from confluent_kafka import Producer
from paho.mqtt.enums import MQTTProtocolVersion

pytestmark = pytest.mark.kafka

TOPICS = TopicNames()
FILTER = "$share/workers/tasks"
HOUR_S = 3600
P = TypeVar("P", bound=Packet)


class Worker:
    """A device in our hands: each packet is read and sent when the test says so."""

    def __init__(
        self,
        port: int,
        name: str,
        *,
        expiry_s: int = 0,
        clean: bool = True,
        receive_max: int = 1,
        protocol: ProtocolVersion = ProtocolVersion.MQTT_5,
    ) -> None:
        self.protocol = protocol
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S)
        self._packets = PacketBuffer(1 << 20, protocol, Side.SERVER)
        self._read: list[Packet] = []
        said = Properties(session_expiry_s=expiry_s, receive_max=receive_max)
        said = said if protocol is ProtocolVersion.MQTT_5 else Properties()
        self.send(Connect(protocol, f"{DOMAIN}/{GROUP}/{name}", clean, 60, properties=said))
        self.connack = self.read(ConnAck)
        assert not self.connack.reason

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def send(self, packet: Packet) -> None:
        """Sends a packet."""
        self._socket.sendall(encode(packet, self.protocol))

    def _receive(self, limit_s: float) -> bool:
        self._socket.settimeout(limit_s)
        try:
            data = self._socket.recv(65536)
        except TimeoutError:
            return False
        assert data, "the connection is closed"
        self._read += self._packets.feed(data)
        return True

    def read(self, kind: type[P]) -> P:
        """Returns the next packet of this kind."""
        while True:
            for one in self._read:
                if isinstance(one, kind):
                    self._read.remove(one)
                    return one
            assert self._receive(WAIT_S), f"no {kind.__name__}"

    def subscribe(self, *filters: str, qos: int = 1) -> SubAck:
        """Subscribes."""
        self.send(Subscribe(1, tuple(TopicSubscription(one, qos) for one in filters)))
        return self.read(SubAck)

    def task(self) -> Publish:
        """Returns the next task that it is told."""
        return self.read(Publish)

    def has_none(self) -> bool:
        """Returns true if it is told nothing for a second."""
        return not self._receive(1) and not self._read

    def settle(self, task: Publish, reason: ReasonCode = ReasonCode.SUCCESS) -> None:
        """Acknowledges a task."""
        assert task.packet_id is not None
        self.send(PubAck(task.packet_id, reason))


class Tasks:
    """Sends tasks as a back-end does."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
        self.sent: list[str] = []

    def send(self, *tasks: str, key: str = "") -> None:
        """Tasks are durable when this returns."""
        for task in tasks:
            headers: Any = list(message_headers(MessageHeaders(id=task, key=key)))
            self._producer.produce(
                TOPICS.channels_1d, task.encode(), f"{DOMAIN}/{GROUP}/tasks", PARTITION, headers=headers
            )
        assert self._producer.flush(WAIT_S) == 0
        self.sent += tasks


class Site:
    """A matcher and gateways."""

    def __init__(self, bootstrap: str, directory: Path, gateways: int, stack: ExitStack) -> None:
        self.bootstrap, self._directory, self._stack = bootstrap, directory, stack
        self._log = directory / "matcher.log"
        self.tasks = Tasks(bootstrap)
        self.matcher = stack.enter_context(MatcherProcess(bootstrap, self._log))
        self.gateways = [stack.enter_context(GatewayProcess(bootstrap)) for _ in range(gateways)]
        self.matcher.wait_serving()

    def kill_matcher(self) -> None:
        """Another matcher takes over from a killed one."""
        self.matcher.kill()
        log = self._directory / "next.log"
        self.matcher = self._stack.enter_context(MatcherProcess(self.bootstrap, log, matcher_group=group_of(self._log)))
        self.matcher.wait_serving()

    def port(self, place: int = 0) -> int:
        """The port of one gateway for MQTT."""
        return int(self.gateways[place].event("gateway started")["mqtt_port"])

    def share(self) -> dict[str, Any]:
        """Returns what a matcher says of the share."""
        status, body = self.matcher.get(f"/v1/domains/{DOMAIN}/groups/{GROUP}/channels/tasks")
        assert status == 200, body
        (found,) = json.loads(body)["shares"]
        return dict(found)

    def wait_begun(self) -> None:
        """Waits until the matcher has read that the task in hand is begun: who is handed it again is told so."""
        wait_for(lambda: [one["state"] for one in self.share()["hand_outs"]] == ["begun"], "it is begun")

    def wait_settled(self) -> None:
        """Waits until the share has nothing left to do."""
        wait_for(lambda: not any(map(self.share().get, ("waiting", "held", "waiting_more"))), "all is settled")

    def ask(self, method: str, path: str) -> FetchedAnswer:
        """Asks the matcher."""
        url = f"http://127.0.0.1:{self.matcher.http_port}/v1/domains/{DOMAIN}/groups/{GROUP}/channels/{path}"
        return fetch(Request(url, method=method))


SiteMaker = Callable[[int], Site]


@pytest.fixture
def make_site(fresh_kafka: EmbeddedBroker, tmp_path: Path) -> Iterator[SiteMaker]:
    with ExitStack() as stack:
        yield lambda gateways: Site(fresh_kafka.bootstrap, tmp_path, gateways, stack)


@contextmanager
def python_worker(site: Site, done: list[str]) -> Iterator[None]:
    connection = Connection([f"127.0.0.1:{one.port}" for one in site.gateways])
    notify = Notify(DOMAIN, GROUP, "python", State(None), connection)

    def do(task: LeasedMessage) -> None:
        done.append(bytes(task.payload).decode() if isinstance(task.payload, bytes) else str(task.payload))

    notify.channel("tasks", share="workers", prefetch=1).subscribe(do)
    with notify:
        assert notify.wait_caught_up(WAIT_S)
        yield


@pytest.mark.parametrize("protocol", [MQTT_3_1_1, MQTT_5])
def test_paho_and_python_workers_have_each_task_once(make_site: SiteMaker, protocol: MQTTProtocolVersion) -> None:
    site, done = make_site(1), list[str]()
    with (
        PahoDevice(site.port(), f"{DOMAIN}/{GROUP}/a", protocol) as one,
        PahoDevice(site.port(), f"{DOMAIN}/{GROUP}/b", protocol) as other,
    ):
        for device in (one, other):
            assert device.subscribe(FILTER) in (["Granted QoS 1"], ["1"])
        with python_worker(site, done):
            wait_for(lambda: site.share()["members"] == 3, "three members")
            for number in range(60):
                site.tasks.send(f'"task-{number}"', key=str(number % 5))

            def told() -> list[str]:
                return [message.payload.decode() for device in (one, other) for message in device.told]

            wait_for(lambda: len(told()) + len(done) >= 60, "all tasks are told")
            site.wait_settled()
            assert Counter([*told(), *(f'"{task}"' for task in done)]) == Counter(site.tasks.sent)
            assert one.told, "both devices have some"
            assert other.told
            assert {message.topic for message in one.told} == {"tasks"}


@pytest.mark.skipif(shutil.which("mosquitto_sub") is None, reason="there is no mosquitto_sub here (make tools)")
def test_mosquitto_sub_is_a_worker(make_site: SiteMaker) -> None:
    site = make_site(1)
    command = ["mosquitto_sub", "-p", str(site.port()), "-i", f"{DOMAIN}/{GROUP}/m", "-t", FILTER, "-q", "1", "-C", "3"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as subscriber:
        try:
            wait_for(lambda: subscriber.poll() is None and _has_members(site), "it is a member")
            site.tasks.send("a", "b", "c")
            assert subscriber.stdout is not None
            assert sorted(subscriber.stdout.read().split()) == ["a", "b", "c"]
            assert subscriber.wait(WAIT_S) == 0
        finally:
            subscriber.kill()
    site.wait_settled()


def _has_members(site: Site) -> bool:
    status, body = site.matcher.get(f"/v1/domains/{DOMAIN}/groups/{GROUP}/channels/tasks")
    return status == 200 and bool(json.loads(body)["shares"])


_KILLED = """
import sys, threading
import paho.mqtt.client as paho
client = paho.Client(paho.CallbackAPIVersion.VERSION2, {client!r}, clean_session={clean}, manual_ack=True)
client.on_message = lambda _client, _data, message: print(message.payload.decode(), int(message.dup), flush=True)
client.on_subscribe = lambda *_: print("ready", flush=True)
client.on_connect = lambda client, *_: client.subscribe("$share/workers/tasks", 1)
client.connect("127.0.0.1", {port}, 60)
client.loop_forever()
"""


@contextmanager
def killable(site: Site, name: str, *, clean: bool) -> Iterator["subprocess.Popen[str]"]:
    """A worker of paho's in a process, which acknowledges nothing."""
    program = _KILLED.format(client=f"{DOMAIN}/{GROUP}/{name}", clean=clean, port=site.port())
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            yield process
        finally:
            process.kill()


def test_a_killed_workers_task_goes_to_another_one_once_its_session_is_over(make_site: SiteMaker) -> None:
    site = make_site(1)
    with killable(site, "killed", clean=True) as killed:
        assert killed.stdout is not None
        site.tasks.send("first")
        assert killed.stdout.readline() == "first 0\n"
        with Worker(site.port(), "stays") as stays:
            stays.subscribe(FILTER)
            assert stays.has_none()
            killed.kill()
            task = stays.task()
            assert (task.payload, task.dup) == (b"first", True)
            stays.settle(task)
            site.wait_settled()


def test_a_kept_session_goes_on_with_its_task_at_another_gateway(make_site: SiteMaker) -> None:
    site = make_site(2)
    with Worker(site.port(), "worker", expiry_s=HOUR_S) as first, Worker(site.port(1), "other") as other:
        first.subscribe(FILTER)
        site.tasks.send("long")
        assert first.task().payload == b"long"
        other.subscribe(FILTER)
        wait_for(lambda: site.share()["members"] == 2, "two members")
        site.wait_begun()
        site.gateways[0].kill()
        site.tasks.send("next")
        following = other.task()
        assert following.payload == b"next", "what is in hand goes to nobody else"
        other.settle(following)
        with Worker(site.port(1), "worker", expiry_s=HOUR_S, clean=False) as back:
            assert back.connack.session_present
            task = back.task()
            assert (task.payload, task.dup) == (b"long", True)
            assert other.has_none()
            back.settle(task)
            site.wait_settled()


def test_a_takeover_by_the_same_client_id_has_the_task_again(make_site: SiteMaker) -> None:
    site = make_site(2)
    with Worker(site.port(), "worker", expiry_s=HOUR_S) as first:
        first.subscribe(FILTER)
        site.tasks.send("task")
        first.task()
        site.wait_begun()
        with Worker(site.port(1), "worker", expiry_s=HOUR_S, clean=False) as second:
            task = second.task()
            assert (task.payload, task.dup) == (b"task", True)
            assert site.share()["hand_outs"][0]["client"] == "worker"
            second.settle(task)
            site.wait_settled()


def test_disconnect_and_unsubscribe_give_back(make_site: SiteMaker) -> None:
    site = make_site(1)
    with (
        Worker(site.port(), "goes", expiry_s=HOUR_S) as goes,
        Worker(site.port(), "leaves") as leaves,
        Worker(site.port(), "stays") as stays,
    ):
        goes.subscribe(FILTER)
        site.tasks.send("a")
        goes.task()
        leaves.subscribe(FILTER)
        site.tasks.send("b")
        leaves.task()
        stays.subscribe(FILTER)
        wait_for(lambda: site.share()["members"] == 3, "three members")
        assert stays.has_none()
        goes.send(Disconnect())
        task = stays.task()
        assert task.payload == b"a"
        stays.settle(task)
        leaves.send(Unsubscribe(7, (FILTER,)))
        assert leaves.read(UnsubAck).reasons == (ReasonCode.SUCCESS,)
        task = stays.task()
        assert task.payload == b"b"
        stays.settle(task)
        site.wait_settled()


def test_a_rejected_task_is_a_dead_letter_at_once(make_site: SiteMaker) -> None:
    site = make_site(1)
    with Worker(site.port(), "worker") as worker, Worker(site.port(), "reader") as reader:
        assert reader.subscribe("tasks.workers.dead").reasons == (ReasonCode.GRANTED_QOS_1,)
        worker.subscribe(FILTER)
        site.tasks.send("bad", "good", key="k")
        bad = worker.task()
        assert bad.payload == b"bad"
        worker.settle(bad, ReasonCode.UNSPECIFIED_ERROR)
        letter = reader.task()
        assert (letter.topic, letter.payload) == ("tasks.workers.dead", b"bad")
        reader.settle(letter)
        good = worker.task()
        assert good.payload == b"good", "the next one with its key follows"
        worker.settle(good)
        site.wait_settled()


def test_keys_are_in_order_across_killed_gateways_and_matchers(make_site: SiteMaker) -> None:
    site, told = make_site(2), list[str]()
    sent = [f"{key}-{number}" for number in range(15) for key in "xyz"]
    with Worker(site.port(1), "b", expiry_s=HOUR_S, receive_max=2) as stays:
        stays.subscribe(FILTER)
        with Worker(site.port(), "a", receive_max=2) as goes:
            goes.subscribe(FILTER)
            wait_for(lambda: site.share()["members"] == 2, "two members")
            for one in sent:
                site.tasks.send(one, key=one[0])
            for worker in (goes, stays, goes, stays):
                task = worker.task()
                told.append(task.payload.decode())
                worker.settle(task)
            goes.task()
        site.gateways[0].kill()
        site.kill_matcher()
        while len(set(told)) < len(sent):
            task = stays.task()
            told.append(task.payload.decode())
            stays.settle(task)
        site.wait_settled()
    first_told = list(dict.fromkeys(told))
    for key in "xyz":
        assert [one for one in first_told if one[0] == key] == [one for one in sent if one[0] == key]


def test_a_filter_that_is_no_share_of_a_channel_is_refused_with_its_reason(make_site: SiteMaker) -> None:
    site = make_site(1)
    with Worker(site.port(), "worker") as worker, Worker(site.port(), "publisher") as publisher:
        publisher.send(Publish("lamp", b"on", 1, True, packet_id=1))
        assert not publisher.read(PubAck).reason
        said = worker.connack.properties
        assert said.shared_available is True
        for filter_, qos, code in (
            ("$share/workers/lamp", 1, ReasonCode.SHARED_SUBSCRIPTIONS_NOT_SUPPORTED),
            ("$share/workers/tasks/#", 1, ReasonCode.WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED),
            (FILTER, 0, ReasonCode.IMPLEMENTATION_SPECIFIC_ERROR),
            ("$share/wor+kers/tasks", 1, ReasonCode.TOPIC_FILTER_INVALID),
            ("$share/workers", 1, ReasonCode.TOPIC_FILTER_INVALID),
        ):
            suback = worker.subscribe(filter_, qos=qos)
            assert suback.reasons == (code,), filter_
            assert suback.properties.reason_string, filter_
        assert worker.subscribe(FILTER).reasons == (ReasonCode.GRANTED_QOS_1,)
    with Worker(site.port(), "old", protocol=ProtocolVersion.MQTT_3_1_1) as old:
        assert old.subscribe("$share/workers/lamp").reasons == (ReasonCode.UNSPECIFIED_ERROR,)
        assert old.subscribe(FILTER).reasons == (ReasonCode.GRANTED_QOS_1,)


def test_a_share_is_forgotten_without_members_also_where_the_matcher_dies_and_its_dead_letters_stay(
    make_site: SiteMaker,
) -> None:
    site, path = make_site(1), "tasks/shares/workers"
    assert site.ask("DELETE", path).status == 404
    with Worker(site.port(), "worker") as worker:
        worker.subscribe(FILTER)
        site.tasks.send("bad")
        worker.settle(worker.task(), ReasonCode.UNSPECIFIED_ERROR)
        site.wait_settled()
        site.tasks.send("held")
        task = worker.task()
        shown = site.ask("GET", path).json()
        (hand_out,) = shown["hand_outs"]
        assert (hand_out["client"], hand_out["offset"]) == ("worker", shown["last"])
        assert [one["client"] for one in shown["members_page"]["items"]] == ["worker"]
        refused = site.ask("DELETE", path)
        assert (refused.status, refused.json()["members"]) == (409, ["worker"])
        worker.settle(task)
        worker.send(Unsubscribe(7, (FILTER,)))
        worker.read(UnsubAck)
    answer = site.ask("DELETE", path)
    assert (answer.status, answer.json()["outcome"]) == (200, "forgotten")
    site.kill_matcher()
    for method in ("DELETE", "GET"):
        assert site.ask(method, path).status == 404
    key = f"{DOMAIN}/{GROUP}/workers/tasks".encode()
    stored = [value for one, value, _ in records_of(site.bootstrap, TOPICS.shares, PARTITION) if one == key]
    assert [None, *stored][-1] is None, "a null, or nothing"
    assert site.ask("GET", "tasks.workers.dead").json()["last"] is not None
    with Worker(site.port(), "later") as later:
        later.subscribe(FILTER)
        site.tasks.send("new")
        assert later.task().payload == b"new", "another share begins, with what is sent from here on"
