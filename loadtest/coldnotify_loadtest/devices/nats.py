"""A device of nats-server's: core subscriptions, or one watch of a JetStream KV bucket. Pure."""

import json
from functools import lru_cache

from coldnotify_load.population import Population
from coldnotify_load.remembered import Remembered

BUCKET = "bench"
_CONNECT = (
    b'CONNECT {"verbose":false,"pedantic":false,"headers":true,"no_responders":true,"lang":"swarm","version":"1"}\r\n'
)
_IDLE_HEARTBEAT_NS = 5_000_000_000
_INACTIVE_NS = 300_000_000_000


def subject(population: Population, block: int, number: int) -> str:
    """The subject of an object: the domain's dots are levels, too."""
    return f"{population.domain}.{population.group(block)}.{population.object(block, number)}"


@lru_cache(maxsize=4096)
def _subscriptions(population: Population, block: int) -> bytes:
    lines = [f"SUB {subject(population, block, n)} {n + 1}\r\n" for n in range(population.registrations)]
    return "".join(lines).encode()


_live: Remembered[tuple[bytes, tuple[int, ...]]] = Remembered()


class NatsDevice:
    """Subscribes to its subjects: at most once, nothing is kept for absent devices."""

    __slots__ = ("_buffer", "_number", "_population", "closed", "ready")

    def __init__(self, population: Population, number: int) -> None:
        self._population, self._number = population, number
        self._buffer = b""
        self.ready = False
        self.closed = ""

    def hello(self) -> bytes:
        """Sent at once: the server takes it before its INFO was read."""
        self._buffer, self.ready, self.closed = b"", False, ""
        return _CONNECT + self._subscribe() + b"PING\r\n"

    def receive(self, data: bytes) -> tuple[bytes, tuple[int, ...]]:
        """See Device."""
        if self.ready and not self._buffer and (known := _live.get(data)) is not None:
            return known
        was_alone, was_ready = not self._buffer, self.ready
        left, reply, stamps = self._buffer + data, b"", []
        while (end := left.find(b"\r\n")) >= 0:
            words = left[:end].split(b" ")
            verb = words[0].upper()
            if verb in (b"MSG", b"HMSG"):
                size = int(words[-1])
                after = end + 2 + size + 2
                if len(left) < after:
                    break
                body = left[end + 2 : after - 2]
                headers = int(words[-2]) if verb == b"HMSG" else 0
                back = words[3] if len(words) > (4 if verb == b"MSG" else 5) else b""
                answer, stamp = self._message(words[1], back, body[:headers], body[headers:])
                reply += answer
                if stamp is not None:
                    stamps.append(stamp)
                left = left[after:]
                continue
            if verb == b"PING":
                reply += b"PONG\r\n"
            elif verb == b"PONG":
                self._ponged()
            elif verb == b"-ERR":
                self.closed = left[:end].decode(errors="replace")
            left = left[end + 2 :]
        self._buffer = left
        found = (reply, tuple(stamps))
        if was_ready and was_alone and not left and stamps and not self.closed and b"$JS." not in data:
            _live.put(data, found)
        return found

    def tick(self) -> bytes:
        """Returns nothing: there are no acknowledgements."""
        return b""

    def ping(self) -> bytes:
        """See Device."""
        return b"PING\r\n"

    def _subscribe(self) -> bytes:
        return _subscriptions(self._population, self._population.block_of(self._number))

    def _ponged(self) -> None:
        self.ready = True

    def _message(self, _subject: bytes, _reply: bytes, _headers: bytes, payload: bytes) -> tuple[bytes, int | None]:
        return b"", int(payload) if payload.isdigit() else None


class KvDevice(NatsDevice):
    """Watches its keys by one ordered consumer, as clients' `watch` does: first the present values, then changes."""

    __slots__ = ("_lives",)

    def __init__(self, population: Population, number: int) -> None:
        super().__init__(population, number)
        self._lives = 0

    def _subscribe(self) -> bytes:
        # The consumer of the connection before is still there, and holds its deliver subject: clients take a new one.
        self._lives += 1
        name = f"{self._population.client(self._number)}.{self._lives}"
        block = self._population.block_of(self._number)
        keys = [f"$KV.{BUCKET}.{subject(self._population, block, n)}" for n in range(self._population.registrations)]
        wanted = {
            "stream_name": f"KV_{BUCKET}",
            "config": {
                "deliver_subject": f"_D.{name}",
                "deliver_policy": "last_per_subject",
                "ack_policy": "none",
                "max_deliver": 1,
                "flow_control": True,
                "idle_heartbeat": _IDLE_HEARTBEAT_NS,
                "inactive_threshold": _INACTIVE_NS,
                "mem_storage": True,
                "num_replicas": 1,
                **({"filter_subject": keys[0]} if len(keys) == 1 else {"filter_subjects": keys}),
            },
        }
        body = json.dumps(wanted).encode()
        create = f"PUB $JS.API.CONSUMER.CREATE.KV_{BUCKET} _R.{name} {len(body)}\r\n".encode() + body + b"\r\n"
        return f"SUB _D.{name} 1\r\nSUB _R.{name} 2\r\n".encode() + create

    def _ponged(self) -> None:
        """The consumer's answer tells when it is complete."""

    def _message(self, subject_: bytes, reply: bytes, headers: bytes, payload: bytes) -> tuple[bytes, int | None]:
        if subject_.startswith(b"_R."):
            if headers:
                self.closed = headers.decode(errors="replace").strip()
                return b"", None
            answer = json.loads(payload)
            if "error" in answer:
                self.closed = str(answer["error"])
            elif not answer["num_pending"] and not answer.get("delivered", {}).get("consumer_seq"):
                self.ready = True
            return b"", None
        if headers.startswith(b"NATS/1.0 100") and reply:
            return b"PUB " + reply + b" 0\r\n\r\n", None
        # $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time>.<pending>
        if not self.ready and reply.startswith(b"$JS.ACK.") and reply.rsplit(b".", 1)[1] == b"0":
            self.ready = True
        return b"", int(payload) if payload.isdigit() else None
