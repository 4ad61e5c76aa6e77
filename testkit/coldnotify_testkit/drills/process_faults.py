"""Faults of processes: one is stopped or hangs, two have the same name, one may open few files; Kafka is gone or
pauses.
"""

import fcntl
import os
import resource
import secrets
import termios
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path

from coldnotify_schemas.topics import TopicNames
from confluent_kafka import Producer

from coldnotify_testkit.drills.injection import another_matcher, repeated, standing_still
from coldnotify_testkit.drills.scene import WAIT_S, Scene
from coldnotify_testkit.waiting import wait_for

TOPICS = TopicNames()

_PIPE_BYTES = 4096


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


def two_matchers_have_one_name(scene: Scene, stack: ExitStack) -> None:
    """a second matcher is started with the first one's COLDNOTIFY_MATCHER_ID"""
    stack.enter_context(another_matcher(scene, "matcher-1"))


def _stays_full(pipe: int) -> bool:
    """Returns true if the pipe holds unread bytes and nothing was written into it within 3 s."""

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
            producer.produce(TOPICS.requests, b"?", partition=partition)  # a line in the log each second
        producer.flush(60)
        stopping.wait(0.3)

    with repeated(make_it_log):
        wait_for(lambda: _stays_full(end), "its log is full", WAIT_S)
    stack.enter_context(another_matcher(scene, "hanging"))
