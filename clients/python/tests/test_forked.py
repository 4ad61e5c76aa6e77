"""What a child of fork() does with its parent's clients, outboxes and publishers: it is told, and its parent goes on.

Each test runs a program that forks, and looks at it from outside. A child ends as programs do: contexts are left, what
is left is collected. One that hangs fails its test.
"""

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from coldnotify import State
from coldnotify._outbox.outbox_directory import OutboxDirectory
from coldnotify.testing import FakeService, Service
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.waiting import wait_for

LIMIT_S = 90
DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "observer-1"
PRELUDE = """
import asyncio, gc, json, multiprocessing, os, sys, threading, time
from coldnotify import Connection, Notify, State, UsedAfterFork, aio
from coldnotify.http_publisher import HttpPublisher
from coldnotify.testing import FakeService

DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "observer-1"

def say(**what):
    os.write(1, json.dumps(what).encode() + b"\\n")

def heard():
    return sys.stdin.readline().strip()

def said_by(call):
    "What it raises, or returns."
    try:
        return repr(call())
    except UsedAfterFork as error:
        return f"UsedAfterFork: {error}"

def in_child(work):
    "What it returns in a child, which ends as programs do. And the child's exit status."
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        os.write(writer, json.dumps(work()).encode())
        os.close(writer)
        gc.collect()
        sys.exit(0)
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    return json.loads(text or "null"), os.waitpid(pid, 0)[1]
"""


class Program:
    """One that forks. It says JSON lines, and hears lines."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def says(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it ended: {self.process.wait(LIMIT_S)}"
        return json.loads(line)

    def hears(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def asked(self, line: str) -> Any:
        self.hears(line)
        return self.says()


@contextmanager
def program(text: str, *arguments: object) -> Iterator[Program]:
    argv = [sys.executable, "-c", PRELUDE + text, *map(str, arguments)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Program(process)
        finally:
            process.kill()


def outcome(text: str, *arguments: object) -> Any:
    """What it says, once it has ended."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + text, *map(str, arguments)],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def all_told(said: Any) -> bool:
    """Each call raised, and the error says what to do."""
    return all("UsedAfterFork: " in one and "which forked this one" in one for one in said)


# ---- outboxes


@pytest.mark.parametrize("way", ["os.fork", "multiprocessing"])
def test_a_child_publishes_nothing_into_its_parents_outbox(tmp_path: Path, way: str) -> None:
    said = outcome(
        """
path, way = sys.argv[1:]
publisher = HttpPublisher("http://127.0.0.1:1", outbox=path)
first = publisher.publish("d", "g", "before", version=1)

def work():
    said = [said_by(lambda: publisher.publish("d", "g", "child", version=n)) for n in range(20)]
    said += [said_by(lambda: publisher.send("d", "g", "child", n)) for n in range(20)]
    said += [said_by(call) for call in (publisher.pending, publisher.flush, lambda: first.published, first.wait)]
    publisher.close()  # it is its parent's: nothing happens
    return said

if way == "os.fork":
    in_child_said, status = in_child(work)
else:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=lambda: queue.put(work()))
    child.start()
    in_child_said = queue.get()
    child.join()
    status = child.exitcode
for n in range(5):
    publisher.publish("d", "g", f"after-{n}", version=n)
pending = publisher.pending().records
publisher.close(0)
say(child=in_child_said, status=status, pending=pending)
""",
        tmp_path / "outbox",
        way,
    )
    assert len(said["child"]) == 44
    assert all_told(said["child"]), said["child"]
    assert "open another one, with a directory of its own" in said["child"][0]
    assert (said["status"], said["pending"]) == (0, 6)
    left = OutboxDirectory(tmp_path / "outbox")
    assert left.damage is None
    assert {kept.outgoing.name for kept in left.take(100, 2**20)} == {"before", *(f"after-{n}" for n in range(5))}
    left.close()


def test_a_restarted_process_gets_its_files_although_an_earlier_child_lives_on(
    tmp_path: Path, service: FakeService
) -> None:
    with program(
        """
path, port = sys.argv[1:]
publisher = HttpPublisher("http://127.0.0.1:1", outbox=f"{path}/outbox")
notify = Notify(DOMAIN, GROUP, CLIENT, State(f"{path}/state.json"), Connection(f"127.0.0.1:{port}"))
notify.register("a")
assert notify.connect(60)
pid = os.fork()
if pid == 0:
    say(child=os.getpid())
    heard()
    os._exit(0)
time.sleep(600)
""",
        tmp_path,
        service.port,
    ) as parent:
        child = parent.says()["child"]
        parent.process.kill()
        parent.process.wait(LIMIT_S)
        try:
            # The connection ended with the parent, too.
            wait_for(lambda: not service.received(), "the service hears that it is gone")
            OutboxDirectory(tmp_path / "outbox").close()
            state = State(tmp_path / "state.json")
            state.open()
            state.close()
        finally:
            os.kill(child, signal.SIGKILL)


# ---- clients

USES = """
def uses(notify, registration, subscription, publication):
    return [said_by(call) for call in (
        lambda: notify.caught_up, lambda: notify.connected, lambda: notify.status, lambda: notify.pending(),
        lambda: notify.publish("x"), lambda: notify.send("x", 1), lambda: notify.publish("x", acknowledged=False),
        lambda: notify.register("x"), lambda: notify.unregister("x"), lambda: notify.register_only(["x"]),
        lambda: notify.register_query("x"), lambda: notify.register_prefix("x"), lambda: notify.unregister_query("x"),
        lambda: notify.channel("x"), lambda: notify.unregister_channel("x"), lambda: registration.current,
        lambda: registration.subscribe(print), subscription.dispose, lambda: publication.published, publication.wait)]
"""
SYNC = (
    USES
    + """
port, state, ca, how = sys.argv[1:]
told = []
connection = Connection(f"127.0.0.1:{port}", ca_cert=ca or None)
with Notify(DOMAIN, GROUP, CLIENT, State(state), connection, outbox=f"{state}.outbox") as notify:
    registration = notify.register("a")
    subscription = registration.subscribe(lambda n: told.append(n.version))
    publication = notify.publish("own", version=1)
    assert notify.wait_caught_up(60)
    publication.wait(60)
    if how == "locked":
        # What another thread holds when it forks is held in the child for ever.
        holds = threading.Event()
        def hold():
            with notify._lock, notify._publishing_lock:
                holds.set()
                time.sleep(1)
        threading.Thread(target=hold).start()
        holds.wait()

    def work():
        said = uses(notify, registration, subscription, publication)
        said += [said_by(lambda: notify.wait_caught_up(60)), said_by(notify.connect)]
        notify.disconnect()
        return said

    say(told=told, forked=in_child(work))
    while (line := heard()) != "end":
        assert notify.wait_caught_up(60)
        if line == "publish":
            notify.publish("own").wait(60)
        say(told=told, caught_up=notify.caught_up)
"""
)
AIO = (
    USES
    + """
port, state, ca, how = sys.argv[1:]
told = []

async def main():
    connection = Connection(f"127.0.0.1:{port}", ca_cert=ca or None)
    async with aio.Notify(DOMAIN, GROUP, CLIENT, State(state), connection, outbox=f"{state}.outbox") as notify:
        registration = notify.register("a")
        subscription = registration.subscribe(lambda n: told.append(n.version))
        publication = notify.publish("own", version=1)
        assert await notify.wait_caught_up(60)
        await publication
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            said = uses(notify, registration, subscription, publication)
            for method in (lambda: notify.wait_caught_up(60), notify.connect):
                try:
                    said.append(repr(await method()))
                except UsedAfterFork as error:
                    said.append(f"UsedAfterFork: {error}")
            await notify.disconnect()
            # As when it is collected. The loop itself is shared with the parent's: asyncio wants a child to leave so.
            notify._tasks._io.get_coro().close()
            gc.collect()
            os.write(writer, json.dumps(said).encode())
            os._exit(0)
        os.close(writer)
        loop = asyncio.get_running_loop()
        with os.fdopen(reader) as child:
            text = await loop.run_in_executor(None, child.read)
        say(told=told, forked=[json.loads(text or "null"), os.waitpid(pid, 0)[1]])
        while (line := await loop.run_in_executor(None, heard)) != "end":
            assert await notify.wait_caught_up(60)
            if line == "publish":
                await notify.publish("own")
            say(told=told, caught_up=notify.caught_up)

asyncio.run(main())
"""
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that signs itself, and its key in the same file."""
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-keyout", str(path), "-out", f"{path}.crt", "-subj", "/CN=localhost"]
    argv += ["-days", "2", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(argv, check=True, capture_output=True, timeout=LIMIT_S)
    path.write_text(path.read_text() + Path(f"{path}.crt").read_text())
    return path


@contextmanager
def served(certificate: Path | None) -> Iterator[FakeService]:
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    with FakeService(Service(), ssl_context=context) as service:
        yield service


@pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its certificate with openssl")
@pytest.mark.parametrize("over", ["tcp", "tls"])
@pytest.mark.parametrize(("form", "how"), [(SYNC, ""), (SYNC, "locked"), (AIO, "")], ids=["sync", "locked", "aio"])
def test_a_client_goes_on_in_its_parent_and_is_refused_in_a_child(
    tmp_path: Path, certificate: Path, form: str, how: str, over: str
) -> None:
    ca = certificate if over == "tls" else None
    with (
        served(ca) as service,
        program(form, service.port, tmp_path / "state.json", ca or "", how) as parent,
    ):
        first = parent.says()
        in_child, status = first["forked"]
        assert len(in_child) == 22
        assert all_told(in_child), in_child
        assert status == 0
        service.publish(DOMAIN, GROUP, "a", 1, version=7)
        for _ in range(2):
            last = parent.asked("publish")
        wait_for(lambda: parent.asked("look")["told"] == [None, 7], "told")
        assert last["caught_up"]
        # Behind its end, too.
        service.publish(DOMAIN, GROUP, "a", 2, version=8)
        wait_for(lambda: parent.asked("look")["told"] == [None, 7, 8], "told once")
        assert service.accepted == 1, "nobody ended the connection"
        assert not [frame for frame in service.received() if frame.HasField("bye")]
        parent.hears("end")
        assert parent.process.wait(LIMIT_S) == 0
    left = OutboxDirectory(tmp_path / "state.json.outbox")
    assert left.damage is None
    assert left.pending().records == 0
    left.close()


def test_a_callback_that_forks_ends_with_its_child(tmp_path: Path, service: FakeService) -> None:
    with program(
        """
port, state = sys.argv[1:]
told = []

def changed(n):
    if n.version == 1:
        pid = os.fork()
        if pid:
            say(status=os.waitpid(pid, 0)[1])
    told.append(n.version)

with Notify(DOMAIN, GROUP, CLIENT, State(state), Connection(f"127.0.0.1:{port}")) as notify:
    notify.register("a").subscribe(changed)
    assert notify.wait_caught_up(60)
    say(ready=True)
    while heard() != "end":
        say(told=told)
""",
        service.port,
        tmp_path / "state.json",
    ) as parent:
        parent.says()
        service.publish(DOMAIN, GROUP, "a", version=1)
        assert parent.says() == {"status": 0}
        service.publish(DOMAIN, GROUP, "a", version=2)
        wait_for(lambda: parent.asked("look")["told"] == [None, 1, 2], "told")
        assert service.accepted == 1
        parent.hears("end")


def test_a_client_that_was_not_connected_yet_is_the_childs_own(tmp_path: Path, service: FakeService) -> None:
    """As in a server whose workers are forked once all is imported."""
    service.publish(DOMAIN, GROUP, "a", version=3)
    said = outcome(
        """
port, state = sys.argv[1:]
told = []
notify = Notify(DOMAIN, GROUP, CLIENT, State(state), Connection(f"127.0.0.1:{port}"))
notify.register("a").subscribe(lambda n: told.append(n.version))
holds = threading.Event()

def hold():
    with notify._lock, notify._publishing_lock:
        holds.set()
        time.sleep(1)

threading.Thread(target=hold).start()
holds.wait()

def work():
    caught_up = notify.connect(60)
    notify.publish("own").wait(60)
    notify.disconnect()
    return [caught_up, told]

child = in_child(work)
again = in_child(work)  # what it had told is in the state
say(child=child, again=again, parent=notify.connect(60))
notify.disconnect()
""",
        service.port,
        tmp_path / "state.json",
    )
    assert said == {"child": [[True, [3]], 0], "again": [[True, []], 0], "parent": True}


# ---- publishers


def test_a_publisher_by_http_without_an_outbox_works_in_a_child() -> None:
    """It has nothing open between two requests; permits that its parent's threads had are not the child's."""
    said = outcome(
        """
import http.server

class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if "slow" in self.path:
            time.sleep(3)
        body = b'{"version": 1, "partition": 0, "offset": 5}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
publisher = HttpPublisher(f"http://127.0.0.1:{server.server_port}", in_flight_max=1, flow="fixed")
slow = threading.Thread(target=lambda: publisher.publish("d", "g", "slow", version=1))
slow.start()
while publisher._turns._limit.free:
    time.sleep(0.01)
holds = threading.Event()

def hold():
    with publisher._turns._changed:
        holds.set()
        time.sleep(1)

threading.Thread(target=hold).start()
holds.wait()
child = in_child(lambda: [publisher.publish("d", "g", "quick", version=1).offset, publisher.refused])
slow.join()
say(child=child, parent=publisher.publish("d", "g", "quick", version=1).offset)
"""
    )
    assert said == {"child": [[5, 0], 0], "parent": 5}


@pytest.mark.kafka
def test_a_publisher_goes_on_in_its_parent_and_is_refused_in_a_child(
    fresh_kafka: EmbeddedBroker, tmp_path: Path
) -> None:
    said = outcome(
        """
from coldnotify.publisher import Publisher
kafka, path = sys.argv[1:]
with Publisher(kafka, timeout_s=60) as publisher, Publisher(kafka, timeout_s=60, outbox=path) as kept:
    publisher.publish("d", "g", "a", version=1)
    accepted = kept.publish("d", "g", "b", version=1)

    def work():
        said = [said_by(call) for call in (
            lambda: publisher.publish("d", "g", "a", version=9), lambda: publisher.send("d", "g", "tasks", 1),
            lambda: publisher.describe("d", "g", "a", {"on": True}), publisher.flush, lambda: publisher.flow,
            lambda: publisher.publish_many("d", "g", {"a": {"version": 9}}),
            lambda: asyncio.run(publisher.publish_async("d", "g", "a", version=9)),
            lambda: kept.publish("d", "g", "b", version=9), kept.flush, kept.pending, accepted.wait)]
        publisher.close()
        return said

    child = in_child(work)
    offset = publisher.publish("d", "g", "a", version=2).offset
    kept.publish("d", "g", "b", version=2).wait(60)
    say(child=child, offset=offset, pending=kept.pending().records)
""",
        fresh_kafka.bootstrap,
        tmp_path / "outbox",
    )
    in_child, status = said["child"]
    assert len(in_child) == 11
    assert all_told(in_child), in_child
    assert status == 0
    assert said["offset"] >= 0
    assert said["pending"] == 0


def test_a_service_in_memory_is_refused_in_a_child_which_keeps_no_port() -> None:
    said = outcome(
        """
def sockets():
    links = [os.readlink(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd") if int(number) > 2
             and os.path.lexists(f"/proc/self/fd/{number}")]
    return sum(link.startswith("socket:") for link in links)

with FakeService() as service, Notify("d", "g", "c", State(None), Connection(f"127.0.0.1:{service.port}")) as notify:
    assert notify.wait_caught_up(60)
    before = sockets()

    def work():
        left = sockets()
        said = [said_by(lambda: service.publish("d", "g", "a")), said_by(service.received)]
        service.stop()
        return [left, said]

    child = in_child(work)
    service.publish("d", "g", "a")
    say(before=before, child=child)
"""
    )
    assert said["before"] == 5, "a port, what wakes its thread, and both ends of a connection"
    (left, uses), status = said["child"]
    assert left == 0
    assert all_told(uses)
    assert status == 0
