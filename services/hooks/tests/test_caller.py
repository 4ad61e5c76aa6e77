"""Calls of a real receiver over real sockets, by a resolver that the test plays.

Stands for: judged_resolver
"""

import asyncio
import ssl
import subprocess
from pathlib import Path

import pytest
from coldnotify_common.hooks.hook_urls import HookUrls
from coldnotify_hooks import caller as callers
from coldnotify_hooks.caller import ANSWER_BYTES_MAX, OF_HOST_MAX, Call, Caller
from coldnotify_hooks.core.receiver_answers import Meaning
from coldnotify_testkit.waiting import until

SECRET = "whsec_" + 43 * "A" + "="


class Receiver:
    """Answers each request with `answer`; keeps the heads."""

    def __init__(self, answer=b"HTTP/1.1 204 No Content\r\n\r\n", context=None):
        self.heads, self.answer, self.context = [], answer, context
        self.go = asyncio.Event()
        self.go.set()
        self.names = []

    async def __aenter__(self):
        if self.context is not None:
            self.context.sni_callback = lambda _socket, name, _context: self.names.append(name)
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0, ssl=self.context)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.go.set()
        self.server.close()

    async def serve(self, reader, writer):
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.heads.append(head)
                length = next(int(line[15:]) for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
                await reader.readexactly(length)
                await self.go.wait()
                writer.write(self.answer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def urls(*ports, networks="127.0.0.1/32"):
    return HookUrls.of(networks, " ".join(map(str, ports)), "https,http")


def call(url, position="1"):
    return Call(url, f"object_{position}", b"{}", "application/json", (SECRET,), 7, position)


def answers(*said):
    """A resolver that says one list after the other, and the last one for good."""
    asked = []

    async def lookup(host, _port):
        asked.append(host)
        return list(said[min(len(asked), len(said)) - 1])

    return lookup, asked


async def test_a_call_has_its_headers_and_the_name_of_the_host():
    async with Receiver() as receiver:
        lookup, asked = answers(["127.0.0.1"])
        one = Caller(urls(receiver.port), lookup)
        reply = await one.post(call(f"http://receiver.example:{receiver.port}/x?y=z"), lambda: True)
        await one.close()
    assert reply.meaning is Meaning.APPLIED
    assert asked == ["receiver.example"]
    head = receiver.heads[0].decode()
    assert head.startswith("POST /x?y=z HTTP/1.1\r\n")
    for line in (f"Host: receiver.example:{receiver.port}", "webhook-id: object_1", "ColdNotify-Claim: 7",
                 "ColdNotify-Position: 1", "webhook-signature: v1,"):  # fmt: skip
        assert f"\r\n{line}" in head


async def test_a_resolver_that_changes_its_answer_between_two_questions_leads_nowhere_else():
    """The first answer is judged, and connected to: nobody asks a second time for the same connection."""
    async with Receiver() as inside:
        lookup, asked = answers(["93.184.215.14"], ["127.0.0.1"])
        one = Caller(urls(inside.port, networks=""), lookup)
        first = asyncio.create_task(one.post(call(f"http://rebinding.example:{inside.port}/"), lambda: True))
        await until(lambda: asked, "the first question")
        await asyncio.sleep(0.2)
        first.cancel()
        second = await one.post(call(f"http://rebinding.example:{inside.port}/"), lambda: True)
        await one.close()
    assert inside.heads == []
    assert second.meaning is Meaning.AWAY
    assert "not global" in second.words
    assert "127.0.0.1" not in second.words
    assert len(asked) == 2


@pytest.mark.parametrize("refused", ["10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "169.254.169.254"])
async def test_one_refused_address_among_allowed_ones_refuses_the_call(refused):
    async with Receiver() as receiver:
        lookup, _ = answers(["127.0.0.1", refused])
        one = Caller(urls(receiver.port), lookup)
        reply = await one.post(call(f"http://both.example:{receiver.port}/"), lambda: True)
        await one.close()
    assert receiver.heads == []
    assert reply.meaning is Meaning.AWAY
    assert refused not in reply.words


async def test_less_is_allowed_than_when_the_hook_was_set():
    async with Receiver() as receiver:
        one = Caller(HookUrls())
        reply = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
        await one.close()
    assert receiver.heads == []
    assert reply.meaning is Meaning.AWAY


async def test_a_redirection_is_not_followed():
    async with Receiver() as inside:
        moved = f"HTTP/1.1 307 Moved\r\nLocation: http://127.0.0.1:{inside.port}/\r\nContent-Length: 0\r\n\r\n".encode()
        async with Receiver(moved) as receiver:
            one = Caller(urls(receiver.port, inside.port))
            reply = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
            await one.close()
    assert (reply.meaning, reply.words) == (Meaning.FAILED, "status 307")
    assert inside.heads == []


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch):
    async with Receiver() as proxy, Receiver() as receiver:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.port}")
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
        one = Caller(urls(receiver.port))
        reply = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
        await one.close()
    assert reply.meaning is Meaning.APPLIED
    assert proxy.heads == []


async def test_an_endless_answer_is_read_to_its_bound():
    endless = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n" + (ANSWER_BYTES_MAX + 1) * b"x"
    async with Receiver(endless) as receiver:
        one = Caller(urls(receiver.port))
        reply = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
        await one.close()
    assert reply.meaning is Meaning.APPLIED


async def test_retry_after_is_read():
    async with Receiver(b"HTTP/1.1 429 No\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n") as receiver:
        one = Caller(urls(receiver.port))
        reply = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
        await one.close()
    assert (reply.meaning, reply.retry_after_s) == (Meaning.AWAY, 17)


async def test_garbage_and_nobody_are_no_answer():
    async with Receiver(b"SSH-2.0-OpenSSH\r\n\r\n") as receiver:
        one = Caller(urls(receiver.port, 1))
        garbage = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
        nobody = await one.post(call("http://127.0.0.1:1/"), lambda: True)
        await one.close()
    assert garbage.meaning is nobody.meaning is Meaning.AWAY
    assert "127.0.0.1" not in garbage.words + nobody.words


async def test_a_silent_receiver_is_given_up(monkeypatch):
    monkeypatch.setattr(callers, "CALL_S", 0.3)
    async with Receiver() as receiver:
        receiver.go.clear()
        one = Caller(urls(receiver.port))
        reply = await one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: True)
        await one.close()
    assert reply.meaning is Meaning.AWAY
    assert "no answer within" in reply.words


async def test_nothing_is_called_without_the_right_to():
    async with Receiver() as receiver:
        one = Caller(urls(receiver.port))
        allowed = []
        task = asyncio.create_task(one.post(call(f"http://127.0.0.1:{receiver.port}/"), lambda: bool(allowed)))
        await asyncio.sleep(0.3)
        assert receiver.heads == []
        allowed.append(True)
        assert (await task).meaning is Meaning.APPLIED
        await one.close()


async def test_a_host_has_so_many_calls_at_a_time_and_another_host_its_own():
    async with Receiver() as slow, Receiver() as fast:
        slow.go.clear()
        one = Caller(urls(slow.port, fast.port))
        waiting = [
            asyncio.create_task(one.post(call(f"http://127.0.0.1:{slow.port}/", str(number)), lambda: True))
            for number in range(3 * OF_HOST_MAX)
        ]
        await until(lambda: len(slow.heads) == OF_HOST_MAX, "the calls of the slow host")
        reply = await one.post(call(f"http://127.0.0.1:{fast.port}/"), lambda: True)
        assert reply.meaning is Meaning.APPLIED
        assert len(slow.heads) == OF_HOST_MAX
        slow.go.set()
        assert {(await task).meaning for task in waiting} == {Meaning.APPLIED}
        assert one._hosts == {}
        await one.close()


@pytest.fixture
def certificate(tmp_path: Path):
    """The files of a key and a certificate for receiver.example."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
         "-subj", "/CN=receiver.example", "-addext", "subjectAltName=DNS:receiver.example",
         "-keyout", key, "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    return key, certificate


async def test_with_tls_the_name_is_in_sni_and_is_what_the_certificate_is_for(certificate):
    key, certificate = certificate
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    async with Receiver(context=context) as receiver:
        lookup, _ = answers(["127.0.0.1"])
        one = Caller(urls(receiver.port), lookup, context=ssl.create_default_context(cafile=str(certificate)))
        good = await one.post(call(f"https://receiver.example:{receiver.port}/"), lambda: True)
        other = await one.post(call(f"https://other.example:{receiver.port}/"), lambda: True)
        await one.close()
    assert good.meaning is Meaning.APPLIED
    assert other.meaning is Meaning.AWAY
    assert "TLS" in other.words
    assert receiver.names == ["receiver.example", "other.example"]
