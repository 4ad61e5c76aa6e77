"""The rate at which messages of channels are sent and acknowledged: by Kafka, over HTTP, on a session, by an outbox."""

import asyncio
import json
import os
import threading
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import aiohttp
from coldnotify import Connection, State
from coldnotify.aio import Notify
from coldnotify.publisher import Publisher, make_message
from coldnotify_load.latencies import Latencies
from coldnotify_schemas.protocol import CLIENT_FRAME_BYTES_MAX, MESSAGE_BYTES_MAX

from coldnotify_loadtest.bench import READY_S, BenchRun, Row, identity
from coldnotify_loadtest.servers import HOST, ColdNotify

DOMAIN, GROUP, CHANNEL = "animal.observer", "region-1", "sent"
_ON_A_SESSION = 64
"""As many as a gateway allows to wait for their answers."""
_ACCEPTING_THREADS = 16


def send_by_all_ways(bench: BenchRun, server: ColdNotify) -> None:
    """A row for each way and size."""
    ways = {
        "Kafka": (_by_kafka, MESSAGE_BYTES_MAX),
        "HTTP, one a request": (_by_http, MESSAGE_BYTES_MAX),
        "HTTP, 1,000 a request": (_by_many, 4096),  # a request may have 8 MiB
        "session": (_by_session, CLIENT_FRAME_BYTES_MAX - 1024),
        "outbox on a disk, then Kafka": (_by_outbox, MESSAGE_BYTES_MAX),
    }
    for payload_bytes in bench["payloads_bytes"]:
        for way, (send, bytes_max) in ways.items():
            if payload_bytes > bytes_max:
                continue
            bench.progress.step(f"{way}, {payload_bytes} bytes")
            row: Row = {**identity(server), "part": "sending", "way": way, "payload_bytes": payload_bytes}
            bench.rows.append({**row, **asyncio.run(send(bench, server, payload_bytes))})


async def _for_a_while(once: Callable[[], Coroutine[Any, Any, int]], at_once: int, seconds: float) -> Row:
    """`at_once` tasks, each sending again when it is answered; `once` returns how many messages were acknowledged."""
    latencies, until_s, acknowledged, begun_s = Latencies(), time.monotonic() + seconds, 0, time.monotonic()

    async def loop() -> None:
        nonlocal acknowledged
        while time.monotonic() < until_s:
            begun_ns = time.monotonic_ns()
            answered = await once()
            # Added behind the wait: `acknowledged += await ...` would forget what the others count meanwhile.
            acknowledged += answered
            latencies.add_ns([time.monotonic_ns() - begun_ns])

    await asyncio.gather(*(loop() for _ in range(at_once)))
    summary = latencies.summary()
    passed_s = time.monotonic() - begun_s
    return {"per_s": round(acknowledged / passed_s), "p50_ms": summary.get("p50_ms"), "p99_ms": summary.get("p99_ms")}


async def _by_kafka(bench: BenchRun, server: ColdNotify, payload_bytes: int) -> Row:
    payload = os.urandom(payload_bytes)
    with Publisher(server.kafka) as publisher:

        async def once() -> int:
            messages = [(CHANNEL, make_message(payload)) for _ in range(100)]
            return len(await publisher.send_messages_async(DOMAIN, GROUP, messages))

        return await _for_a_while(once, 4, bench["sending_s"])


async def _by_http(bench: BenchRun, server: ColdNotify, payload_bytes: int) -> Row:
    return await _by_requests(
        server, f"/{CHANNEL}", {"payload": "x" * max(payload_bytes - 2, 0)}, 1, 16, bench["sending_s"]
    )


async def _by_many(bench: BenchRun, server: ColdNotify, payload_bytes: int) -> Row:
    message = {"channel": CHANNEL, "payload": "x" * max(payload_bytes - 2, 0)}
    return await _by_requests(server, "", {"messages": [message] * 1000}, 1000, 2, bench["sending_s"])


async def _by_requests(server: ColdNotify, path: str, said: object, messages: int, at_once: int, seconds: float) -> Row:
    url = f"http://{HOST}:{server.web_port()}/v1/domains/{DOMAIN}/groups/{GROUP}/channels{path}"
    body, refused = json.dumps(said).encode(), threading.Event()
    async with aiohttp.ClientSession() as session:

        async def once() -> int:
            async with session.post(url, data=body) as response:
                await response.read()
                if response.status == 200:
                    return messages
                refused.set()
            await asyncio.sleep(0.05)
            return 0

        return {**await _for_a_while(once, at_once, seconds), "refused": "some" if refused.is_set() else "none"}


async def _by_session(bench: BenchRun, server: ColdNotify, payload_bytes: int) -> Row:
    payload = os.urandom(payload_bytes)
    notify = Notify(DOMAIN, GROUP, "sender", State(_made(bench) / "sender.state"), Connection(HOST, server.port))
    await notify.connect()
    try:

        async def once() -> int:
            publication = notify.send(CHANNEL, payload)
            assert publication is not None
            await publication
            return 1

        return await _for_a_while(once, _ON_A_SESSION, bench["sending_s"])
    finally:
        await notify.disconnect()


async def _by_outbox(bench: BenchRun, server: ColdNotify, payload_bytes: int) -> Row:
    """Acknowledged messages are durable on this machine's disk; `published_per_s`: until Kafka has all of them, too."""
    payload, sent = os.urandom(payload_bytes), []
    begun_s = time.monotonic()
    with Publisher(server.kafka, outbox=_made(bench) / "outbox", outbox_max_records=1_000_000) as publisher:

        async def once() -> int:
            sent.append(await asyncio.to_thread(publisher.send, DOMAIN, GROUP, CHANNEL, payload))
            return 1

        row = await _for_a_while(once, _ACCEPTING_THREADS, bench["sending_s"])
        publisher.flush(READY_S)
        return {**row, "published_per_s": round(len(sent) / (time.monotonic() - begun_s))}


def _made(bench: BenchRun) -> Path:
    directory = bench.new_directory()
    directory.mkdir(parents=True)
    return directory
