"""A link of 50 kbit/s with a large backlog: the newest is what it carries, and keepalive survives."""

import socket
import time
from pathlib import Path
from typing import Any

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_schemas.digest import digest
from coldnotify_schemas.frames import FrameBuffer, encode, parse_gateway_frame
from coldnotify_schemas.protocol import GATEWAY_FRAME_BYTES_MAX
from coldnotify_schemas.wire_pb2 import Ack, ClientFrame, Hello, Ping
from coldnotify_testkit.slow_link import needed_bytes, slow_link
from coldnotify_testkit.stack import Recorder, Up, notify
from coldnotify_testkit.waiting import WAIT_S, wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
NAMES = [f"slow-{i}" for i in range(80)]
PAYLOAD = "x" * 700
BITS_PER_S = 50_000
VERSIONS = 10
"""Of each object while it is away, and as many again while it catches up."""
SENT_PER_NEEDED_MAX = 8
"""Sending every version would be 20. What is outdone while it waits in a page or a socket's buffer is sent all the
same."""
PONG_OBJECTS, PONG_PAYLOAD = 60, "x" * 1200
"""They take the link 13 s."""
PING_EVERY_S = 0.7
LIVE_S, LIVE_PER_S = 8, 30
"""Six times what the link carries."""
PONG_S_MAX = 18.0
"""A Pong waits behind a page of 2 s; or, live, behind as much and what the kernel has: 2 and 5 s in all, and this is
generous. With pages of 64 KiB, and a connection that is full with 64 KiB and twice as much in the kernel, it would be
11 and 25 s."""


def test_a_backlog_comes_as_the_newest_of_each_and_pongs_come_in_between(up: Up, tmp_path: Path) -> None:
    first, told = Recorder(), Recorder()
    state = tmp_path / "state"
    with notify(up, "slow", state) as ou:
        for name in NAMES:
            ou.register(name).subscribe(first)
        wait_for(lambda: len({one.object_id for one in first.seen}) == len(NAMES), "registered")
    with slow_link(*up.gateway, bits_per_s=BITS_PER_S) as link, up.publisher() as publisher:
        for version in range(1, VERSIONS + 1):
            for name in NAMES:
                publisher.publish(DOMAIN, GROUP, name, version=version, payload=PAYLOAD)
        publisher.flush(60)
        connection = Connection(address="127.0.0.1", port=link.port, keepalive_s=2)
        slow = Notify(
            domain=DOMAIN, group_id=GROUP, client_id="slow", state=State(filename=str(state)), connection=connection
        )
        with slow as ou:
            for name in NAMES:
                ou.register(name).subscribe(told)
            wait_for(lambda: told.seen, "it makes progress")
            # It is behind by more than the link carries in seconds, and more is published all the time.
            for version in range(VERSIONS + 1, 2 * VERSIONS + 1):
                for name in NAMES:
                    publisher.publish(DOMAIN, GROUP, name, version=version, payload=PAYLOAD)
                publisher.flush(60)
            wait_for(lambda: all(told.newest(name) == 2 * VERSIONS for name in NAMES), "caught up", timeout_s=240)
            assert ou.status.last_problem is None, "the connection held"
            wait_for(lambda: link.times_of("pong"), "a Ping was answered")
        assert len(link.times_of("welcome")) == 1, "all on one connection"
        needed = needed_bytes(NAMES, PAYLOAD, 2 * VERSIONS)
        assert link.down_bytes / needed < SENT_PER_NEEDED_MAX, (link.down_bytes, needed)
        for name in NAMES:
            versions = told.versions(name)
            assert versions == sorted(versions, key=lambda v: v or 0), "never backwards"


def test_a_pong_does_not_wait_long_behind_pages_nor_behind_what_comes_live(up: Up) -> None:
    names = [f"pong-{i}" for i in range(PONG_OBJECTS)]
    with slow_link(*up.gateway, bits_per_s=BITS_PER_S) as link, up.publisher() as publisher:

        def publish(number: int) -> None:
            version, i = divmod(number, len(names))
            publisher.publish(DOMAIN, GROUP, names[i], version=version + 1, payload=PONG_PAYLOAD)

        for number in range(len(names)):
            publish(number)
        publisher.flush(60)
        pinged_s: list[float] = []
        published, caught_up_s = len(names), 0.0
        frames = FrameBuffer(GATEWAY_FRAME_BYTES_MAX)
        with socket.create_connection(("127.0.0.1", link.port)) as connection:

            def say(**frame: Any) -> None:
                connection.sendall(encode(ClientFrame(**frame)))

            hello = Hello(protocol=1, domain=DOMAIN, group=GROUP, client="pinging", register=names)
            hello.digest = digest(names)
            say(hello=hello)
            connection.settimeout(0.1)
            begun_s = time.monotonic()
            while not (caught_up_s and time.monotonic() > caught_up_s + LIVE_S):
                now_s = time.monotonic()
                assert now_s < begun_s + 2 * WAIT_S, "it is never caught up"
                if now_s > begun_s + PING_EVERY_S * (len(pinged_s) + 1):
                    pinged_s.append(now_s)
                    say(ping=Ping())
                while caught_up_s and published < len(names) + (now_s - caught_up_s) * LIVE_PER_S:
                    publish(published)
                    published += 1
                try:
                    data = connection.recv(4096)
                except TimeoutError:
                    continue
                assert data, "the connection held"
                for frame in map(parse_gateway_frame, frames.feed(data)):
                    if frame.HasField("page_end"):
                        say(ack=Ack(page=frame.page_end.page))
                    if frame.HasField("caught_up"):
                        caught_up_s = caught_up_s or now_s
            wait_for(lambda: len(link.times_of("pong")) == len(pinged_s), "every Ping is answered")
        waited_s = [ponged_s - one_s for one_s, ponged_s in zip(pinged_s, link.times_of("pong"), strict=True)]
        assert max(waited_s) < PONG_S_MAX, waited_s
