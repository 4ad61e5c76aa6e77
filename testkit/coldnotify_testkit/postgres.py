"""A real PostgreSQL for tests: Debian's, or that of the wheel pgserver; with killing and restarting."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from coldnotify_kafka.broker.free_ports import free_port

from coldnotify_testkit.waiting import wait_for

_SETTINGS = {
    "wal_level": "logical",
    "fsync": "off",  # a killed process loses nothing that it has written
    "max_wal_senders": "10",
    "max_replication_slots": "10",
    "wal_sender_timeout": "10s",
    "shared_buffers": "32MB",
    "unix_socket_directories": "",
    "listen_addresses": "127.0.0.1",
}


def programs() -> Path | None:
    """Returns the folder with PostgreSQL's programs; None if there is none that may be run."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    # Its import would make folders, and warn of them.
    wheel = find_spec("pgserver")
    if wheel is not None and wheel.submodule_search_locations:
        folders.append(Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin")
    return next((one for one in folders if _runs(one / "initdb")), None)


def _runs(program: Path) -> bool:
    try:
        subprocess.run([str(program), "--version"], check=True, capture_output=True, timeout=60, cwd="/", **_user())
    except (OSError, subprocess.SubprocessError):
        return False
    return True


@contextmanager
def postgres_shell() -> Iterator[tuple[Path, Path]]:
    """Yields an empty folder, and one with the programs as commands of a shell: root's are run by another user, whose
    the first folder is. Skips the test where there is no PostgreSQL."""
    found = _found()
    with _folder() as parent:
        folder, commands = parent / "data", parent / "bin"
        if os.geteuid() != 0:
            yield folder, found
            return
        commands.mkdir()
        who = _nobody()
        for name in ("initdb", "pg_ctl", "psql"):
            command = f"setpriv --reuid={who.pw_uid} --regid={who.pw_gid} --clear-groups {found / name}"
            (commands / name).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (commands / name).chmod(0o755)
        yield folder, commands


class Postgres:
    """One server, in a folder of its own."""

    def __init__(self, folder: Path, programs: Path, port: int | None = None) -> None:
        self.folder, self._programs, self.port = folder, programs, port or free_port("127.0.0.1")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def connection(self) -> str:
        """libpq's parameters."""
        return f"host=127.0.0.1 port={self.port} user=postgres dbname=postgres"

    def create(self) -> None:
        """Makes the data directory."""
        self.run("initdb", "-D", str(self.folder), "-U", "postgres", "--auth=trust", "--no-sync", "-E", "UTF8")

    def run(self, program: str, *arguments: str) -> str:
        """Runs one of PostgreSQL's programs; returns its output."""
        done = subprocess.run(
            [str(self._programs / program), *arguments],
            capture_output=True, text=True, timeout=120, cwd=self.folder, **_user(),
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return str(done.stdout)

    def start(self, **settings: str) -> None:
        """Starts the server; returns when it answers."""
        options = [f"--{name}={value}" for name, value in {**_SETTINGS, **settings}.items()]
        with (self.folder.parent / "postgres.log").open("ab") as log:
            self._process = subprocess.Popen(
                [str(self._programs / "postgres"), "-D", str(self.folder), "-p", str(self.port), *options],
                stdout=log, stderr=log, cwd=self.folder, start_new_session=True, **_user(),
            )  # fmt: skip
        wait_for(self._answers, "PostgreSQL answers")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder.parent / "postgres.log").read_text()[-2000:]
        try:
            self.do("SELECT 1")
        except psycopg2.OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL to all of its processes."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        (self.folder / "postmaster.pid").unlink(missing_ok=True)

    def stop(self) -> None:
        """Stops it, if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self.kill()

    def connect(self) -> Any:
        """Returns a connection."""
        return psycopg2.connect(self.connection, connect_timeout=60)

    def do(self, *statements: str) -> list[tuple[Any, ...]]:
        """Executes each statement in a transaction of its own; returns the rows of the last one."""
        connection = self.connect()
        try:
            connection.set_session(autocommit=True)
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
                return list(cursor.fetchall()) if cursor.description else []
        finally:
            connection.close()


def _user() -> dict[str, Any]:
    """PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    who = _nobody()
    return {"user": who.pw_uid, "group": who.pw_gid, "extra_groups": []}


def _nobody() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


@contextmanager
def postgres(**settings: str) -> Iterator[Postgres]:
    """Yields a running server; skips the test where there is no PostgreSQL."""
    found = _found()
    with _folder() as parent:
        server = Postgres(parent / "data", found)
        try:
            server.create()
            server.start(**settings)
            yield server
        finally:
            server.stop()


def _found() -> Path:
    found = programs()
    if found is None:
        pytest.skip("there is no PostgreSQL: apt-get install postgresql, or pip install pgserver")
    return found


@contextmanager
def _folder() -> Iterator[Path]:
    """Yields a folder with an empty folder `data`, which the database's user owns. pytest's own are root's alone."""
    parent = Path(tempfile.mkdtemp(prefix="coldnotify-pg-"))
    folder = parent / "data"
    folder.mkdir(mode=0o700)
    if os.geteuid() == 0:
        parent.chmod(0o755)
        os.chown(folder, _nobody().pw_uid, _nobody().pw_gid)
    try:
        yield parent
    finally:
        shutil.rmtree(parent, ignore_errors=True)
