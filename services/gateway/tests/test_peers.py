"""Other gateways are asked by real sockets: ready, not ready, silent, gone, and with no descriptor left."""

import asyncio
import os
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from coldnotify_gateway import peers as module
from coldnotify_gateway.peers import ASKED_MAX, Peers, Place

LOCALHOST = "127.0.0.1"


@asynccontextmanager
async def answering(said: bytes | None) -> AsyncIterator[Place]:
    """A port that answers each question with these bytes; None: with nothing."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        question = await reader.readuntil(b"\r\n\r\n")
        assert question.startswith(b"GET /readyz HTTP/1.1\r\n")
        if said is None:
            await reader.read()
        else:
            writer.write(said)
        writer.close()

    server = await asyncio.start_server(answer, LOCALHOST, 0)
    async with server:
        yield LOCALHOST, server.sockets[0].getsockname()[1]


def gone() -> Place:
    """A port at which nobody listens."""
    with socket.create_server((LOCALHOST, 0)) as one:
        return LOCALHOST, one.getsockname()[1]


def descriptors() -> list[int]:
    """The open descriptors of this process."""
    return [int(one.name) for one in Path("/proc/self/fd").iterdir()]


READY, NOT_READY = b"HTTP/1.1 200 OK\r\n\r\nready\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\ncut off\n"


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    one = Peers(None)
    yield one
    one.close()


async def test_one_that_is_ready_is_enough(peers: Peers) -> None:
    async with answering(READY) as ready, answering(NOT_READY) as not_ready, answering(None) as silent:
        await peers.look_up([not_ready, silent, gone(), ready])
        async with asyncio.timeout(module.ANSWER_S):
            assert await peers.any_ready()


async def test_none_is_ready(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 0.2)
    async with answering(NOT_READY) as not_ready, answering(None) as silent, answering(b"SSH-2.0\r\n") as other:
        await peers.look_up([not_ready, silent, other, gone()])
        assert not await peers.any_ready()
    assert not await Peers(None).any_ready(), "it knows nobody"


async def test_at_most_five_are_asked(peers: Peers) -> None:
    await peers.look_up([(LOCALHOST, port) for port in range(1, 100)])
    assert len(peers) == ASKED_MAX


async def test_names_that_are_found_no_more_keep_their_addresses(peers: Peers, monkeypatch: pytest.MonkeyPatch) -> None:
    async with answering(READY) as ready:
        await peers.look_up([("localhost", ready[1])])

        async def lost(*_: object, **__: object) -> None:
            raise socket.gaierror("no name server")

        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", lost)
        await peers.look_up([("localhost", ready[1])])
        assert await peers.any_ready()


async def test_it_asks_although_no_descriptor_is_left(peers: Peers) -> None:
    async with answering(READY) as ready:
        await peers.look_up([ready])
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        taken = []
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (max(descriptors()) + 8, hard))
            with suppress(OSError):
                while True:
                    taken.append(os.open(os.devnull, os.O_RDONLY))
            # The server of this test needs one, too.
            assert peers._spare
            asked = asyncio.create_task(peers.any_ready())
            await asyncio.sleep(0)
            os.close(taken.pop())
            assert await asked
        finally:
            for one in taken:
                os.close(one)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_descriptors_are_given_back() -> None:
    before, times = len(descriptors()), 20
    for _ in range(times):
        one = Peers(None)
        await one.look_up([gone()])
        assert not await one.any_ready()
        one.close()
    assert len(descriptors()) < before + times, "clients of Kafka in this process open and close some, too"
