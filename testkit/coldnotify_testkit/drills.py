"""For tests: faults made from outside, each with the alerts that fire by it and clear after it.

The quick ones are FAULTS; DRILLS take minutes together. Every alert is among what one of them makes fire.
"""

import fcntl
import os
import resource
import secrets
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.client import HTTPException
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError
from urllib.request import urlopen

from coldnotify import Message, Missed
from coldnotify.message import position_text
from coldnotify.publisher import Publisher
from coldnotify_kafka.broker import console_tool, free_port
from coldnotify_kafka.broker.freezing import frozen
from coldnotify_kafka.broker.process import end, spawn
from coldnotify_schemas.partitioner import partition_of
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import CHANNELS_1D, NOTIFICATIONS, OBJECTS, REQUESTS, SESSIONS, TENANTS, VERDICTS
from confluent_kafka import OFFSET_END, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from coldnotify_testkit.device_frames import hello, register
from coldnotify_testkit.prometheus import Prometheus
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.slow_link import SlowLink
from coldnotify_testkit.stack import Recorder, Up, get_json, notify
from coldnotify_testkit.waiting import wait_for

CONNECTIONS_MAX = 100
BUFFERED_BYTES_MAX = 1024 * 1024
CHANNELS_TAIL_BYTES_MAX = 1024 * 1024
SETTINGS = {
    "COLDNOTIFY_GATEWAY_CONNECTIONS_MAX": str(CONNECTIONS_MAX),
    "COLDNOTIFY_GATEWAY_BUFFERED_BYTES_MAX": str(BUFFERED_BYTES_MAX),
    "COLDNOTIFY_GATEWAY_REQUEST_TIMEOUT_S": "2",
    "COLDNOTIFY_HTTP_PUBLISH_TIMEOUT_S": "2",
    "COLDNOTIFY_MATCHER_CHANNELS_TAIL_BYTES_MAX": str(CHANNELS_TAIL_BYTES_MAX),
}
"""Bounds that a fault reaches soon, in the environment of all services."""
WAIT_S = 120
_LOOK_S = 0.5
_STOP_S = 30
DOMAIN, GROUP = "animal.observer", "region-1"
_TAKEOVER_SLOW_S = 30
_PIPE_BYTES = 4096
_QUOTA_BYTES_PER_S = 20_000
_FILM_BYTES = 60_000
_BEHIND = 60
"""Clients, each in a block of its own. ChannelsCatchUpSlow goes by more than 50."""
_BLOCK_OFFSETS = 1_000
"""Of a block of a log of channels, as the matcher's `kept_blocks` says it."""


class Scene(NamedTuple):
    """All of ColdNotify with a client and a little traffic, and Prometheus that watches it."""

    up: Up
    watcher: Prometheus
    directory: Path

    @property
    def revoked(self) -> Path:
        """The services' list of what is revoked."""
        return self.directory / "revoked"

    def value(self, query: str) -> float:
        """Of the only sample of an instant query; NaN if there is none."""
        return next((float(sample["value"][1]) for sample in self.watcher.query(query)), float("nan"))


Fault = Callable[[Scene, ExitStack], None]
"""Makes it; what ends it is for the stack."""


class Traffic(threading.Thread):
    """Publishes by HTTP until stopped; failures are part of some faults."""

    def __init__(self, up: Up) -> None:
        super().__init__(daemon=True)
        self._url = f"{up.http_url}/v1/domains/{DOMAIN}/groups/{GROUP}/objects/camera-config"
        self.stopping = threading.Event()

    def run(self) -> None:
        """The thread."""
        while not self.stopping.wait(0.1):
            with suppress(OSError), urlopen(self._url, data=b"{}", timeout=30):
                pass


@contextmanager
def repeated(action: Callable[[threading.Event], None]) -> Iterator[None]:
    """`action` over and over, by a thread, until the end. It gets an event that says so, to wait by."""
    stopping = threading.Event()

    def run() -> None:
        while not stopping.is_set():
            action(stopping)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join(WAIT_S)


@contextmanager
def standing_still(pid: int) -> Iterator[None]:
    """A process that gets no CPU."""
    with frozen(pid):
        yield


@contextmanager
def another_matcher(
    scene: Scene, matcher_id: str, *flags: str, log: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """One more, started beside those of `coldnotify up`; scraped, too, once it is there."""
    port = free_port()
    argv = [sys.executable, "-m", "coldnotify_cli.main", "matcher", f"--kafka={scene.up.kafka}"]
    argv += [f"--matcher-id={matcher_id}", f"--matcher-port={port}", *flags]
    process = spawn(argv, log or scene.directory / "another-matcher.log")

    def there() -> bool:
        with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5):
            return True
        return False

    try:
        wait_for(there, f"{matcher_id} is there", WAIT_S)
        with scene.watcher.watching("matcher", f"127.0.0.1:{port}"):
            wait_for(lambda: scene.watcher.query(f'up{{instance="127.0.0.1:{port}"}} == 1'), "it is scraped", WAIT_S)
            yield process
    finally:
        end(process, _STOP_S)


@contextmanager
def quota(scene: Scene, *client_ids: str) -> Iterator[None]:
    """Kafka gives these clients only so much a second."""

    def alter(*change: str) -> None:
        for client_id in client_ids:
            entity = ["--entity-type", "clients", "--entity-name", client_id]
            command = console_tool("configs", ["--bootstrap-server", scene.up.kafka, "--alter", *entity, *change])
            subprocess.run(command, check=True, capture_output=True, timeout=WAIT_S)

    alter("--add-config", f"consumer_byte_rate={_QUOTA_BYTES_PER_S}")
    try:
        yield
    finally:
        alter("--delete-config", "consumer_byte_rate")


def _publish_many(scene: Scene, partition: int, partitions: int, count: int, payload: str) -> None:
    group = next(g for g in map("group-{}".format, range(10_000)) if partition_of(DOMAIN, g, partitions) == partition)
    # Small batches: a quota counts whole ones.
    producer = Producer({"bootstrap.servers": scene.up.kafka, "batch.size": 16_384})
    for version in range(count):
        value = b'{"version": %d, "payload": "%s"}' % (time.time_ns(), payload.encode())
        producer.produce(OBJECTS, value, f"{DOMAIN}/{group}/many-{version % 100}".encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0


def matcher_stands_still(scene: Scene, stack: ExitStack) -> None:
    """the matcher stands still (SIGSTOP)"""
    stack.enter_context(standing_still(scene.up.report["pids"]["matcher"]))


def gateway_stands_still(scene: Scene, stack: ExitStack) -> None:
    """the gateway stands still (SIGSTOP)"""
    stack.enter_context(standing_still(scene.up.report["pids"]["gateway"]))


def few_files_may_be_open(scene: Scene, stack: ExitStack) -> None:
    """the HTTP service's limit of open files is lowered"""
    pid = scene.up.report["pids"]["http"]
    limits = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    stack.callback(resource.prlimit, pid, resource.RLIMIT_NOFILE, limits)
    in_use = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (in_use + 3, limits[1]))


def kafka_is_gone(scene: Scene, stack: ExitStack) -> None:
    """Kafka is killed, and each new Kafka process is stopped before it listens"""
    old = scene.up.kill("broker")["broker"]
    data = str(scene.directory / "data")

    def successor() -> int | None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                words = path.read_bytes().split(b"\0")
                if (
                    words[0].endswith(b"java")
                    and any(data.encode() in w for w in words)
                    and int(path.parent.name) != old
                ):
                    return int(path.parent.name)
        return None

    stack.enter_context(standing_still(wait_for(successor, "Kafka is started again")))


def kafka_pauses(scene: Scene, stack: ExitStack) -> None:
    """Kafka stands still for 1.6 s again and again, as if its heap were too small"""
    pid = scene.up.report["pids"]["broker"]

    def pause(stopping: threading.Event) -> None:
        with standing_still(pid):
            stopping.wait(1.6)
        stopping.wait(0.1)

    stack.enter_context(repeated(pause))


def the_list_of_the_revoked_is_cut_short(scene: Scene, stack: ExitStack) -> None:
    """the list of revoked identities is cut short in the middle of a line"""

    def replace(text: str) -> None:
        scene.revoked.with_suffix(".new").write_text(text, encoding="utf-8")
        scene.revoked.with_suffix(".new").replace(scene.revoked)

    stack.callback(replace, "jti 2dc7a29fc0fed7c4\n")
    replace("jti 2dc7a2")


def nonsense_is_published(scene: Scene, _stack: ExitStack) -> None:
    """a record with a misspelt field is published"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(OBJECTS, b'{"verson": 1}', f"{DOMAIN}/{GROUP}/camera-config".encode())
    assert producer.flush(60) == 0


def strangers_write_into_our_topics(scene: Scene, _stack: ExitStack) -> None:
    """a request and inbox records are written that no process of ColdNotify would write"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(REQUESTS, b"?", partition=0)
    for inbox in range(len(producer.list_topics(NOTIFICATIONS, timeout=60).topics[NOTIFICATIONS].partitions)):
        producer.produce(NOTIFICATIONS, b"?", partition=inbox)
    assert producer.flush(60) == 0


def a_later_release_has_written(scene: Scene, stack: ExitStack) -> None:
    """a session's record has the format of a later release"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    key = b"drilled.domain/a/client"
    partition = partition_of("drilled.domain", "a", int(scene.value("max(coldnotify_matcher_partitions)")))

    def write(value: bytes | None) -> None:
        producer.produce(SESSIONS, value, key, partition)
        assert producer.flush(60) == 0

    stack.callback(write, None)
    write(b'{"format": 2, "generation": 1}')


def versions_are_below_the_newest(scene: Scene, stack: ExitStack) -> None:
    """a back-end numbers its versions, and one of them was published without a number"""
    publisher = stack.enter_context(Publisher(kafka=scene.up.kafka))
    publisher.publish("numbered.versions", GROUP, "camera-config")
    numbers = iter(range(1, 1 << 30))

    def publish(stopping: threading.Event) -> None:
        publisher.publish("numbered.versions", GROUP, "camera-config", version=next(numbers))
        stopping.wait(0.2)

    stack.enter_context(repeated(publish))


def nulls_remove_nothing(scene: Scene, stack: ExitStack) -> None:
    """again and again a null names an older version than its object's newest"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    key = f"{DOMAIN}/{GROUP}/kept".encode()
    with Publisher(kafka=scene.up.kafka) as publisher:
        where = publisher.publish(DOMAIN, GROUP, "kept", version=2).partition

    def write(stopping: threading.Event) -> None:
        producer.produce(OBJECTS, None, key, partition=where, headers={REMOVES_HEADER: b"0/1"})
        producer.flush(60)
        stopping.wait(0.5)

    stack.enter_context(repeated(write))


def a_tenant_floods(scene: Scene, stack: ExitStack) -> None:
    """a tenant publishes 20 times a second and may do so once a second; a verdict says the same"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    stack.callback(_write_tenant, scene, "flooding", None)
    _write_tenant(scene, "flooding", b'{"domains": ["flooding.domain"], "in_per_s": 1}')
    url = f"{scene.up.http_url}/v1/domains/flooding.domain/groups/{GROUP}/objects/camera-config"

    def publish(stopping: threading.Event) -> None:
        with suppress(OSError), urlopen(url, data=b"{}", timeout=30):
            pass
        now_ms = time.time_ns() // 1_000_000
        value = b'{"at_ms": %d, "until_ms": %d, "per_min": {"publishes": 60}}' % (now_ms, now_ms + 20_000)
        producer.produce(VERDICTS, value, b"flooding")
        producer.flush(60)
        stopping.wait(0.05)

    stack.enter_context(repeated(publish))


def nobody_measures_tenants(scene: Scene, stack: ExitStack) -> None:
    """there is a tenant, and nothing makes verdicts"""
    usage = scene.up.report["pids"].get("usage")
    if usage is not None:
        stack.enter_context(standing_still(usage))
    stack.callback(_write_tenant, scene, "unmeasured", None)
    _write_tenant(scene, "unmeasured", b'{"domains": ["unmeasured.domain"]}')


def tenants_are_written_by_hand(scene: Scene, stack: ExitStack) -> None:
    """a tenant's record has a negative rate"""
    stack.callback(_write_tenant, scene, "by-hand", None)
    _write_tenant(scene, "by-hand", b'{"domains": ["by.hand"], "in_per_s": -1}')


def _write_tenant(scene: Scene, name: str, value: bytes | None) -> None:
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    producer.produce(TENANTS, value, name.encode())
    assert producer.flush(60) == 0


def old_news_is_published(scene: Scene, _stack: ExitStack) -> None:
    """200 publishes arrive a minute after their timestamp"""
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    ago_ms = time.time_ns() // 1_000_000 - 60_000
    told = Recorder()
    with notify(scene.up, "late", None) as ou:
        ou.register("old").subscribe(told)
        wait_for(lambda: len(told.seen) > 0, "registered", WAIT_S)
        for version in range(200):
            producer.produce(OBJECTS, b'{"version": %d}' % version, f"{DOMAIN}/{GROUP}/old".encode(), timestamp=ago_ms)
            producer.flush(60)
        wait_for(told.reaches("old", 199), "told", WAIT_S)


def a_device_reads_slowly(scene: Scene, stack: ExitStack) -> None:
    """one of two devices has a link of 40 kbit/s, and 60 of its objects are published twice"""
    link = stack.enter_context(SlowLink(*scene.up.gateway, bits_per_s=40_000))
    ou = stack.enter_context(notify(scene.up, "slow", None, port=link.port))
    names = [f"picture-{n}" for n in range(60)]
    told = Recorder()
    for name in names:
        ou.register(name).subscribe(told)
    wait_for(lambda: ou.status.pending == 0, "registered over the slow link", WAIT_S)
    publisher = stack.enter_context(Publisher(kafka=scene.up.kafka))
    for version in range(2):
        for name in names:
            publisher.publish(DOMAIN, GROUP, name, version=version, payload="x" * 4000)


def devices_never_read(scene: Scene, stack: ExitStack) -> None:
    """12 devices ask for 18 MB together and read none of it; the gateway may hold 1 MiB"""
    names = [f"big-{n}" for n in range(64)]
    with Publisher(kafka=scene.up.kafka) as publisher:
        for name in names:
            publisher.publish(DOMAIN, GROUP, name, version=1, payload="x" * 4000)
    for number in range(12):
        client = stack.enter_context(RawClient(scene.up.gateway[1], receive_buffer_bytes=4096))
        client.send(hello(client=f"greedy-{number}"))
        client.until("caught_up")
        with suppress(OSError):  # cut off already
            client.send(*(register(request, *names) for request in range(1, 7)))


def too_many_connect(scene: Scene, stack: ExitStack) -> None:
    """five more clients connect than the gateway accepts"""
    for _ in range(CONNECTIONS_MAX + 5):
        stack.enter_context(RawClient(scene.up.gateway[1]))


def a_client_comes_and_goes(scene: Scene, _stack: ExitStack) -> None:
    """one client connects 150 times"""
    for _ in range(150):
        with RawClient(scene.up.gateway[1]) as client:
            client.send(hello(client="restless"))
            client.until("welcome")


def the_inbox_is_emptied(scene: Scene, stack: ExitStack) -> None:
    """the records of the gateway's inbox are deleted before it reads them, again and again"""
    pid = scene.up.report["pids"]["gateway"]
    gateway = get_json(f"http://{scene.up.report['gateways_http'][0]}/v1/gateway")
    admin = AdminClient({"bootstrap.servers": scene.up.kafka})
    everything = [TopicPartition(NOTIFICATIONS, gateway["inbox"], OFFSET_END)]

    def lose(stopping: threading.Event) -> None:
        # What comes first is in the gateway's socket already; what follows within the second is lost.
        with standing_still(pid):
            stopping.wait(1)
            for deleted in admin.delete_records(everything).values():
                deleted.result(WAIT_S)
        stopping.wait(1)

    stack.enter_context(repeated(lose))


def what_is_read_is_throttled(scene: Scene, stack: ExitStack) -> None:
    """a quota limits matchers to reading 20 kB/s of publishes, and 12,000 objects are published"""
    stack.enter_context(another_matcher(scene, "standby", "--matcher-standby"))
    lag = "coldnotify_matcher_lag_standby"
    wait_for(lambda: scene.watcher.query(lag), "the standby follows", WAIT_S)
    followed = int(scene.watcher.query(lag)[0]["metric"]["partition"])
    partitions = int(scene.value("max(coldnotify_matcher_partitions)"))
    # It is to catch up, and not to be gone.
    stack.callback(_wait_quiet, scene, {"StandbyLags"}, "clear")
    stack.enter_context(quota(scene, "coldnotify-compacted-reader", "coldnotify-standby-reader"))
    _publish_many(scene, followed, partitions, 12_000, "x" * 100)


def _write_messages(scene: Scene, channel: str, values: Iterable[bytes], *, group: str = GROUP) -> int:
    """Uncompressed. In which partition they are."""
    # Small batches: a quota counts whole ones.
    producer = Producer({"bootstrap.servers": scene.up.kafka, "batch.size": 16_384})
    partition = partition_of(
        DOMAIN, group, len(producer.list_topics(CHANNELS_1D, WAIT_S).topics[CHANNELS_1D].partitions)
    )
    for value in values:
        producer.produce(CHANNELS_1D, value, f"{DOMAIN}/{group}/{channel}".encode(), partition=partition)
        producer.poll(0)
    assert producer.flush(60) == 0
    return partition


def messages_are_read_slowly(scene: Scene, stack: ExitStack) -> None:
    """a quota limits matchers to reading 20 kB/s, and 30,000 messages are sent"""
    stack.enter_context(quota(scene, "coldnotify-compacted-reader"))
    _write_messages(scene, "many", (b"%d" % number for number in range(30_000)))


def many_come_back_from_different_days(scene: Scene, stack: ExitStack) -> None:
    """60 clients come back, each to another part of 75,000 messages, and a quota limits reading these to 20 kB/s"""
    group, told = f"group-{secrets.token_hex(4)}", list[Message]()
    partition = _write_messages(scene, "days", (b"%d" % number for number in range(75_000)), group=group)
    with notify(scene.up, "newest", None, group=group) as client:
        # Who is told the last one comes behind all others.
        client.channel("days", since="newest").subscribe(told.append)
        wait_for(lambda: told, "the messages are followed", WAIT_S)
    assert partition == partition_of(DOMAIN, group, int(scene.value("max(coldnotify_matcher_partitions)")))
    first = told[0].offset - 74_999
    stack.enter_context(quota(scene, "coldnotify-block-reader"))
    for number in range(_BEHIND):
        client = stack.enter_context(notify(scene.up, f"behind-{number}", None, group=group))
        client.channel("days", since=position_text(told[0].epoch, first + number * _BLOCK_OFFSETS)).subscribe(print)


def a_log_is_damaged_on_disk(scene: Scene, stack: ExitStack) -> None:
    """a client is away while messages are sent, and a bit of them is turned on Kafka's disk"""
    group, missed = f"group-{secrets.token_hex(4)}", list[Missed]()
    words = secrets.token_hex(20).encode()
    for away in (True, False):
        with notify(scene.up, "torn", scene.directory / f"{group}.state", group=group) as client:
            client.channel("torn", since="now").subscribe(lambda _: None, on_missed=missed.append)
            assert client.wait_caught_up(timeout_s=WAIT_S), client.status
            if not away:
                wait_for(lambda: missed, "it is told that messages may be missing", WAIT_S)
                assert missed[0].reason == "UNREADABLE", missed
                return
        partition = _write_messages(scene, "torn", [b'"%s"' % words], group=group)
        # What comes behind it is all that matchers keep in memory.
        film = [bytes(_FILM_BYTES)] * (2 * CHANNELS_TAIL_BYTES_MAX // _FILM_BYTES)
        _write_messages(scene, "film", film, group=group)
        stack.callback(_turn_a_bit, scene, partition, words)
        _turn_a_bit(scene, partition, words)


def _turn_a_bit(scene: Scene, partition: int, words: bytes) -> None:
    """In Kafka's file, of the first of these bytes. Twice is as before."""
    for path in scene.up.data.rglob(f"{CHANNELS_1D}-{partition}/*.log"):
        text = path.read_bytes()
        place = text.find(words[1:]) - 1
        if place >= 0:
            with path.open("r+b") as file:
                file.seek(place)
                file.write(bytes([text[place] ^ 1]))
            return
    raise AssertionError(f"the message is in no file of partition {partition}")


def messages_are_removed_unread(scene: Scene, _stack: ExitStack) -> None:
    """a client is away while messages are sent and removed, the first of them no longer in matchers' memory"""
    state = scene.directory / f"{secrets.token_hex(4)}.state"
    missed: list[Missed] = []
    for away in (True, False):
        with notify(scene.up, "away", state) as client:
            client.channel("removed", since="now").subscribe(lambda _: None, on_missed=missed.append)
            assert client.wait_caught_up(timeout_s=WAIT_S), client.status
            if not away:
                wait_for(lambda: missed, "it is told that messages may be missing", WAIT_S)
                return
        partition = _write_messages(scene, "removed", [b"1"])
        _write_messages(scene, "film", [bytes(_FILM_BYTES)] * (2 * CHANNELS_TAIL_BYTES_MAX // _FILM_BYTES))
        everything = TopicPartition(CHANNELS_1D, partition, OFFSET_END)
        admin = AdminClient({"bootstrap.servers": scene.up.kafka})
        admin.delete_records([everything])[everything].result(WAIT_S)


def loading_is_throttled(scene: Scene, stack: ExitStack) -> None:
    """the matcher is killed and loads 3 MB under a quota of 20 kB/s, for 33 s"""
    partitions = int(scene.value("max(coldnotify_matcher_partitions)"))
    _publish_many(scene, 0, partitions, 3000, secrets.token_hex(500))
    with quota(scene, "coldnotify-compacted-reader"):
        before = scene.up.kill("matcher")
        loading = 'coldnotify_matcher_partitions_owned{job="matcher"} == 0'
        wait_for(lambda: scene.watcher.query(loading), "it loads", WAIT_S)
        time.sleep(_TAKEOVER_SLOW_S + 3)
        assert scene.watcher.query(loading)
    scene.up.wait_ready(other_than=before, timeout_s=WAIT_S)


def two_matchers_have_one_name(scene: Scene, stack: ExitStack) -> None:
    """a second matcher is started with the first one's COLDNOTIFY_MATCHER_ID"""
    stack.enter_context(another_matcher(scene, "matcher-1"))


def _stays_full(pipe: int) -> bool:
    """Whether nothing was written into the pipe within 3 s, in which something was to be written."""

    def held_bytes() -> bytes:
        return fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4)

    before = held_bytes()
    time.sleep(3)
    return before == held_bytes() != b"\0" * 4


def a_matcher_hangs_and_is_replaced(scene: Scene, stack: ExitStack) -> None:
    """nobody reads a matcher's log any more, so it hangs; another matcher with its id is started"""
    pipe = scene.directory / f"{secrets.token_hex(4)}.pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    stack.callback(os.close, end)
    one = stack.enter_context(another_matcher(scene, "hanging", log=pipe))
    served = 'coldnotify_matcher_partitions_owned{job="matcher"} > 0'
    wait_for(lambda: len(scene.watcher.query(served)) == 2, "it serves partitions", WAIT_S)
    stack.callback(one.kill)
    fcntl.fcntl(end, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    producer = Producer({"bootstrap.servers": scene.up.kafka})
    partitions = range(int(scene.value("max(coldnotify_matcher_partitions)")))

    def make_it_log(stopping: threading.Event) -> None:
        for partition in partitions:
            producer.produce(REQUESTS, b"?", partition=partition)  # a line in the log each second
        producer.flush(60)
        stopping.wait(0.3)

    with repeated(make_it_log):
        wait_for(lambda: _stays_full(end), "its log is full", WAIT_S)
    stack.enter_context(another_matcher(scene, "hanging"))


FAULTS: dict[Fault, set[str]] = {
    few_files_may_be_open: {"OpenFilesNearLimit"},
    gateway_stands_still: {"ProcessDown", "NoGateway"},
    matcher_stands_still: {"ProcessDown", "PartitionNotServed", "PartitionNotServedForHours", "MatcherSilent"},
}
DRILLS: dict[Fault, set[str]] = {
    the_list_of_the_revoked_is_cut_short: {"RevokedListUnusable"},
    nonsense_is_published: {"RecordsRejected"},
    strangers_write_into_our_topics: {"RecordsSetAside", "InboxRecordsSetAside"},
    a_later_release_has_written: {"PartitionWaits", "PartitionNotServed", "PartitionNotServedForHours"},
    versions_are_below_the_newest: {"PublishesStale"},
    nulls_remove_nothing: {"NullsRemoveNothing"},
    nobody_measures_tenants: {"VerdictsStale"},
    a_tenant_floods: {"TenantRefused", "TenantNearAgreement"},
    tenants_are_written_by_hand: {"TenantRecordDamaged"},
    old_news_is_published: {"DeliverySlow"},
    too_many_connect: {"ConnectionsRefused"},
    a_client_comes_and_goes: {"ReconnectStorm"},
    a_device_reads_slowly: {"SlowClients"},
    devices_never_read: {"ClientsCutOff"},
    the_inbox_is_emptied: {"InboxGaps", "SessionsDisagree"},
    kafka_pauses: {"KafkaSlow"},
    what_is_read_is_throttled: {"MatcherLags", "StandbyLags"},
    messages_are_read_slowly: {"ChannelsLag"},
    messages_are_removed_unread: {"MessagesMissed"},
    many_come_back_from_different_days: {"ChannelsCatchUpSlow"},
    a_log_is_damaged_on_disk: {"BlocksUnreadable"},
    loading_is_throttled: {"TakeoverSlow"},
    a_matcher_hangs_and_is_replaced: {"PartitionServedTwice"},
    two_matchers_have_one_name: {"MatcherReloads", "TakeoverStorm"},
    kafka_is_gone: {"NotReady", "KafkaUnreachable", "RequestsNotTaken", "PublishesNotAcknowledged"},
}
NOT_DRILLED = {
    "UsageLags": "takes more records than a worker reads, for minutes",
    "DiskNearlyFull": "takes a full disk; test_full_disk fills a small one",
}
"""Alerts that no fault here makes fire, and why. Their expressions are tested by themselves (`alerts_test.yml`)."""


class Times(NamedTuple):
    """Of one alert: seconds from beginning to make its fault, and from beginning to end it."""

    fired_s: float
    cleared_s: float


class _Looking:
    """Notes when which alert fires, by a thread."""

    def __init__(self, watcher: Prometheus) -> None:
        self._watcher = watcher
        self.first_s: dict[str, float] = {}
        """By alert, when it was first seen to fire (monotonic clock)."""
        self.last_s: dict[str, float] = {}
        """And when last."""

    def look(self, stopping: threading.Event) -> None:
        """Once; where Prometheus does not answer, the next look will do."""
        now_s = time.monotonic()
        for name in _firing(self._watcher) or ():
            self.first_s.setdefault(name, now_s)
            self.last_s[name] = now_s
        stopping.wait(_LOOK_S)


def _firing(watcher: Prometheus) -> set[str] | None:
    """What fires; None: Prometheus does not answer just now."""
    try:
        return watcher.firing()
    except HTTPError as error:
        error.close()  # it holds the connection
    except (OSError, HTTPException):
        pass
    return None


def drill(scene: Scene, fault: Fault) -> dict[str, Times]:
    """Make the fault, see its alerts fire, end it, see them clear. Raises AssertionError, which says what did not."""
    expected = (FAULTS | DRILLS)[fault]
    _wait_quiet(scene, expected, "are quiet before")
    looking = _Looking(scene.watcher)
    began_s = time.monotonic()
    with repeated(looking.look):
        with ExitStack() as stack:
            fault(scene, stack)
            try:
                wait_for(lambda: expected <= looking.first_s.keys(), f"{expected} fire", WAIT_S)
            except AssertionError as error:
                raise AssertionError(f"{error}; fired: {sorted(looking.first_s)}") from None
            ended_s = time.monotonic()
        _wait_quiet(scene, expected, "clear")
    return {
        name: Times(looking.first_s[name] - began_s, max(0.0, looking.last_s[name] - ended_s) + _LOOK_S)
        for name in sorted(expected)
    }


def _wait_quiet(scene: Scene, alerts: set[str], what: str) -> None:
    def quiet() -> bool:
        firing = _firing(scene.watcher)
        return firing is not None and not alerts & firing

    wait_for(quiet, f"{alerts} {what}", WAIT_S)


def table(times: Mapping[Fault, Mapping[str, Times]]) -> str:
    """What drills found, as a table of Markdown."""
    lines = ["| alert | fault made | fired after | cleared after |", "|---|---|---|---|"]
    for fault, alerts in times.items():
        for alert, (fired_s, cleared_s) in alerts.items():
            lines.append(f"| {alert} | {fault.__doc__} | {fired_s:.0f} s | {cleared_s:.0f} s |")
    return "\n".join(lines)
