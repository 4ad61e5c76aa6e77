"""Workers of a queue as a process: `python -m coldnotify_loadtest.queue_workers KIND PORT WORKERS PREFETCH STUCK FILE`.

A task is the time when it was sent (ns of the clock that processes of a machine share). FILE gets a line for each
callback that begins: that, and the time when it began. Of STUCK workers no callback returns.
"""

import os
import re
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TextIO

from coldnotify import Connection, LeasedMessage, Notify, State

DOMAIN, GROUP, CHANNEL, SHARE = "d", "g", "tasks", "workers"
LEASE_S = 60
_HOST = "127.0.0.1"
_LINE = re.compile(
    rb"(H?MSG) (\S+) \d+ (?:(\S+) )??(?:(\d+) )?(\d+)\r\n"
    rb"|PING\r\n|PONG\r\n|\+OK\r\n|-ERR[^\r]*\r\n|INFO[^\r]*\r\n"
)


class Begun:
    """The file of what has begun."""

    def __init__(self, file: TextIO) -> None:
        self._file, self._lock = file, threading.Lock()

    def note(self, task: int) -> None:
        """The callback of this task begins."""
        with self._lock:
            self._file.write(f"{task} {time.monotonic_ns()}\n")
            self._file.flush()


def shared(port: int, number: int, prefetch: int, begun: Begun, stuck: threading.Event | None) -> Notify:
    """Returns a client that is a member of the share, started."""
    connection = Connection(address=_HOST, port=port)
    notify = Notify(
        domain=DOMAIN, group_id=GROUP, client_id=f"w{number}", connection=connection, state=State(filename=None)
    )

    def work(task: LeasedMessage) -> None:
        begun.note(int(task.payload))
        if stuck is not None:
            stuck.wait()

    share = notify.channel(CHANNEL, share=SHARE, since="oldest", lease_s=LEASE_S, prefetch=prefetch)
    share.subscribe(work)
    notify.connect()
    return notify


class PulledQueue(threading.Thread):
    """A worker of JetStream's work queue: it pulls, works, acknowledges."""

    def __init__(self, port: int, number: int, prefetch: int, begun: Begun, stuck: threading.Event | None) -> None:
        super().__init__(daemon=True)
        self._begun, self._stuck, self._prefetch, self._inbox = begun, stuck, prefetch, f"_I.w{number}"
        self._socket = socket.create_connection((_HOST, port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.sendall(f'CONNECT {{"verbose":false,"headers":true}}\r\nSUB {self._inbox} 1\r\n'.encode())
        self._data = b""

    def run(self) -> None:
        """Works until the server goes."""
        asked = 0
        while True:
            if not asked:
                asked = self._prefetch
                body = f'{{"batch":{asked},"expires":30000000000}}'
                subject = f"$JS.API.CONSUMER.MSG.NEXT.{CHANNEL}.{SHARE}"
                self._socket.sendall(f"PUB {subject} {self._inbox} {len(body)}\r\n{body}\r\n".encode())
            reply, payload = self._next()
            if reply is None:
                asked = 0  # the pull is over
                continue
            asked -= 1
            self._begun.note(int(payload))
            if self._stuck is not None:
                self._stuck.wait()
            self._socket.sendall(b"PUB %s 4\r\n+ACK\r\n" % reply)

    def _next(self) -> tuple[bytes | None, bytes]:
        """Returns where to acknowledge, None: it is a status; and the payload."""
        while True:
            found = _LINE.match(self._data)
            if found is None:
                self._read()
                continue
            kind, _, reply, _, size = found.groups()
            if kind is None:
                if found[0] == b"PING\r\n":
                    self._socket.sendall(b"PONG\r\n")
                self._data = self._data[found.end() :]
                continue
            while len(self._data) < found.end() + int(size) + 2:
                self._read()
            payload = self._data[found.end() : found.end() + int(size)]
            self._data = self._data[found.end() + int(size) + 2 :]
            return (None if kind == b"HMSG" else reply), payload

    def _read(self) -> None:
        data = self._socket.recv(65536)
        if not data:
            raise SystemExit
        self._data += data


def main(arguments: list[str]) -> int:
    """Works until SIGTERM."""
    kind, port, workers, prefetch, stuck, file = arguments
    never, over = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    with Path(file).open("w") as lines:
        begun = Begun(lines)
        for number in range(int(workers)):
            waits = never if number < int(stuck) else None
            if kind == "coldnotify":
                shared(int(port), number, int(prefetch), begun, waits)
            else:
                PulledQueue(int(port), number, int(prefetch), begun, waits).start()
        over.wait()
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)  # no callback that is stuck is waited for
