"""Starts services by fork() from one process without threads that has imported them all.

A start of Python with all imports takes half a core-second.
`start` is used like subprocess.Popen. It returns None where a fork would not be the same, and the caller starts a
process as usual. The forked process has the environment, directory, limits, umask, output and process group that a
started one would have. It gets SIGKILL when the process that asked for it ends, however that ends.
"""

import atexit
import ctypes
import gc
import importlib
import importlib.machinery
import json
import os
import resource
import secrets
import selectors
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from coldnotify_cli import main as main_of_commands
from coldnotify_kafka.broker import private, process

_PARTS = ("matcher", "gateway", "http", "usage")
MODULES = (
    *("coldnotify_cli.main", "coldnotify_cli.stack", "coldnotify_cli.commands.up", "coldnotify_cli.commands.services"),
    *(f"coldnotify_{part}.{module}" for part in _PARTS for module in ("settings", "app")),
    *("coldnotify_gateway.metrics", "coldnotify_gateway.session_endpoints", "coldnotify_matcher.asked_writes"),
    *("coldnotify_matcher.looking.state_endpoints", "coldnotify_usage.faust_app"),
)
"""The imports of all services. Whatever else one needs it imports itself."""
OF_THE_CALL = ("COLDNOTIFY_", "PYTEST_", "JDK_JAVA_OPTIONS", "PYTHONDONTWRITEBYTECODE")
"""Variables by these beginnings may differ from those that the zygote was started with; Python and libraries may have
read any other one as they were imported.
"""
ADDRESS_VARIABLE = "TESTKIT_ZYGOTE"
"""Names the zygote of the tests to `coldnotify up`, which has its parts forked there, too."""
_ENVIRON = dict(os.environ)
"""The environment before any test: one that changes it may be the first that starts a service."""
_READY_S = 100.0
_REQUEST_BYTES_MAX = 1 << 20
_STATUS = struct.Struct("i")
_PR_SET_PDEATHSIG = 1
_SIGNALS = sorted(
    signal.valid_signals()
    - {signal.SIGKILL, signal.SIGSTOP, signal.SIGCHLD}
    # Python ignores these in every process that it starts.
    - {signal.SIGPIPE, signal.SIGXFSZ}
)
"""Signals that a started process ignores if the one that starts it does."""
_LIMITS = [number for name, number in vars(resource).items() if name.startswith("RLIMIT_")]


class ForkedProcess:
    """A process whose parent is the zygote, with the methods of subprocess.Popen that tests use."""

    def __init__(self, argv: Sequence[str], pid: int, status: int) -> None:
        """`status`: the descriptor of a pipe, into which the zygote writes the exit status."""
        self.args, self.pid, self._status = argv, pid, status
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """None while it runs, else its exit status (negative: the signal)."""
        with suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Returns its exit status. Raises subprocess.TimeoutExpired."""
        if self.returncode is None:
            with selectors.DefaultSelector() as selector:
                selector.register(self._status, selectors.EVENT_READ)
                if not selector.select(timeout):
                    raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
            said = os.read(self._status, _STATUS.size)
            # Nothing is said when the zygote itself was killed, and all that it forked with it.
            self.returncode = _STATUS.unpack(said)[0] if said else -signal.SIGKILL
            os.close(self._status)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """A signal, unless it has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


class _Zygote:
    """A connection of this process to a zygote. All that was forked for it ends with it."""

    _current: "_Zygote | None" = None
    _guard = threading.Lock()

    def __init__(self, address: str) -> None:
        self.pid = os.getpid()
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.connect("\0" + address)
        self.environ: dict[str, str] = json.loads(self._socket.recv(_REQUEST_BYTES_MAX))
        self.address = address

    @classmethod
    def of_this_process(cls) -> "_Zygote":
        """The one that it was told of, or else one of its own."""
        with cls._guard:
            if cls._current is None or cls._current.pid != os.getpid():
                cls._current = cls(os.environ.get(ADDRESS_VARIABLE) or _start_zygote())
            return cls._current

    def fork(self, request: dict[str, Any], output: int) -> tuple[int, int]:
        """Returns (process id, descriptor of the pipe of its exit status)."""
        status, status_for_zygote = os.pipe()
        try:
            with self._lock:
                socket.send_fds(self._socket, [json.dumps(request).encode()], [output, status_for_zygote])
                (pid,) = _STATUS.unpack(self._socket.recv(_STATUS.size))
        except BaseException:
            os.close(status)
            raise
        finally:
            os.close(status_for_zygote)
        return pid, status


def start(
    run: str,
    argv: Sequence[str],
    output: int,
    environ: Mapping[str, str] | None = None,
    *,
    own_group: bool = False,
    umask: int = -1,
) -> ForkedProcess | None:
    """Forks a process that calls `run`, a "module:function", with `argv`, and ends with what it returns.

    `output`: descriptor of its standard output and error. `environ`: all of its environment; None: as ours.
    `own_group`: with a process group of its own, else in ours. None: it has to be started as usual.
    """
    environ = dict(os.environ if environ is None else environ)
    if sys.platform != "linux":
        return None
    zygote = _Zygote.of_this_process()
    if _of_all(environ) != zygote.environ:
        return None
    request = {
        "run": run,
        "argv": list(argv),
        "environ": environ,
        "directory": str(Path.cwd()),
        "limits": {number: resource.getrlimit(number) for number in _LIMITS},
        "umask": _umask() if umask < 0 else umask,
        "ignored": [number for number in _SIGNALS if signal.getsignal(number) == signal.SIG_IGN],
        "group": 0 if own_group else os.getpgrp(),
    }
    return ForkedProcess(argv, *zygote.fork(request, output))


def address() -> str:
    """The address of this process' zygote, for ADDRESS_VARIABLE."""
    return _Zygote.of_this_process().address


def _of_all(environ: Mapping[str, str]) -> dict[str, str]:
    return {n: value for n, value in environ.items() if not n.startswith(OF_THE_CALL) and n != ADDRESS_VARIABLE}


def _umask() -> int:
    (line,) = (one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("Umask:"))
    return int(line.split()[1], 8)


def _start_zygote() -> str:
    address = f"testkit-zygote-{secrets.token_hex(8)}"
    ours, its = socket.socketpair()
    argv = [sys.executable, "-m", __name__, address, str(its.fileno())]
    with its:
        zygote = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, pass_fds=[its.fileno()], env=_of_all(_ENVIRON)
        )

    def end() -> None:
        ours.close()
        zygote.wait(_READY_S)

    atexit.register(end)
    ours.settimeout(_READY_S)
    assert ours.recv(1) == b"r", "the zygote is not ready"
    return address


class _Server:
    """The zygote."""

    def __init__(self, address: str, keeper: socket.socket) -> None:
        """It ends when `keeper` is closed at the other end."""
        self._keeper = keeper
        self._prctl = ctypes.CDLL(None).prctl
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind("\0" + address)
        self._listener.listen(64)
        self._environ = _of_all(os.environ)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """By process id: the descriptor for its exit status, and who asked for it."""

    def run(self) -> Callable[[], object] | None:
        """Serves; returns, in each forked process, what that is to do, and at last None in the zygote."""
        woken, wake = socket.socketpair()
        woken.setblocking(False)
        wake.setblocking(False)
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _nothing)
        # Ctrl-C is for the tests, which end this.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for source in (self._keeper, self._listener, woken):
            self._selector.register(source, selectors.EVENT_READ)
        self._keeper.send(b"r")
        while True:
            for key, _ in self._selector.select():
                one: Any = key.fileobj
                if one is self._keeper:
                    for pid in self._children:
                        os.kill(pid, signal.SIGKILL)
                    return None
                if one is self._listener:
                    connection, _ = self._listener.accept()
                    connection.send(json.dumps(self._environ).encode())
                    self._selector.register(connection, selectors.EVENT_READ)
                elif one is woken:
                    with suppress(BlockingIOError):
                        woken.recv(4096)
                elif job := self._serve(one):
                    for other in (woken, wake):
                        other.close()
                    return job
            self._reap()

    def _serve(self, one: socket.socket) -> Callable[[], object] | None:
        """A request, or its sender's end. Returns what to do in a process that was forked for it."""
        data, descriptors, _, _ = socket.recv_fds(one, _REQUEST_BYTES_MAX, 2)
        if not data:
            for pid, (_, whose) in self._children.items():
                if whose is one:
                    os.kill(pid, signal.SIGKILL)
            self._selector.unregister(one)
            one.close()
            return None
        output, status = descriptors
        if pid := os.fork():
            os.close(output)
            self._children[pid] = status, one
            one.send(_STATUS.pack(pid))
            return None
        return self._become(json.loads(data), output, status)

    def _become(self, request: dict[str, Any], output: int, status: int) -> Callable[[], object]:
        """Makes of a fork what a started process would be."""
        self._prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in _SIGNALS:
            default = signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL
            signal.signal(number, signal.SIG_IGN if number in request["ignored"] else default)
        for key in list(self._selector.get_map().values()):
            assert isinstance(key.fileobj, socket.socket)
            key.fileobj.close()
        self._selector.close()
        for descriptor in (status, *(of_child for of_child, _ in self._children.values())):
            os.close(descriptor)
        for standard in (1, 2):
            os.dup2(output, standard)
        os.close(output)
        with suppress(PermissionError):  # of another session: then it stays in the zygote's, as that in ours
            os.setpgid(0, request["group"])
        os.umask(request["umask"])
        os.chdir(request["directory"])
        for number, (soft, hard) in request["limits"].items():
            if resource.getrlimit(int(number)) != (soft, hard):
                resource.setrlimit(int(number), (soft, hard))
        os.environ.clear()
        os.environ.update(request["environ"])
        sys.argv[:] = request["argv"]
        module, _, function = request["run"].partition(":")

        def job() -> object:
            return getattr(importlib.import_module(module), function)(request["argv"])

        return job

    def _reap(self) -> None:
        while self._children:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            descriptor, _ = self._children.pop(pid)
            with suppress(BrokenPipeError):
                os.write(descriptor, _STATUS.pack(os.waitstatus_to_exitcode(status)))
            os.close(descriptor)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """A handler, so that the signal wakes select()."""


def command(argv: Sequence[str]) -> object:
    """`coldnotify` with these arguments. The parts of `up` are forked from the same zygote."""
    from coldnotify_cli import stack

    vars(stack)["spawn"] = spawn
    return main_of_commands.main(argv)


def code(argv: Sequence[str]) -> object:
    """As `python -c`."""
    exec(argv[0], {"__name__": "__main__"})
    return 0


def service(argv: Sequence[str]) -> object:
    """A service by (package, settings class), with the settings that its environment has."""
    from coldnotify_common.settings import load

    package, settings = argv
    app: Any = importlib.import_module(f"{package}.app")
    return app.run(load(getattr(importlib.import_module(f"{package}.settings"), settings), os.environ))


def spawn(argv: Sequence[str], output: Path | None, environ: Mapping[str, str] | None = None) -> Any:
    """Starts a process as coldnotify_kafka's function of this name does; a command of ours is forked."""
    if list(argv[:3]) == [sys.executable, "-m", main_of_commands.__name__]:
        with nullcontext(sys.stderr.fileno()) if output is None else private.open_file(output, "ab") as stream:
            descriptor = stream if isinstance(stream, int) else stream.fileno()
            if forked := start(f"{command.__module__}:command", argv[3:], descriptor, environ, own_group=True):
                return forked
    return process.spawn(argv, output, environ=environ)


def main(arguments: Sequence[str]) -> object:
    """The zygote's own process, and then each that it has forked."""
    address, keeper = arguments
    for module in MODULES:
        importlib.import_module(module)
    # Faust's module puts another object in its place, without what find_spec looks for.
    vars(sys.modules["faust"])["__spec__"] = importlib.machinery.ModuleSpec("faust", None)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"imports have begun {threads - 1} threads, of which a fork has none"
    gc.collect()
    gc.freeze()
    job = _Server(address, socket.socket(fileno=int(keeper))).run()
    return 0 if job is None else job()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))  # type: ignore[arg-type]
