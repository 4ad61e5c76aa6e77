"""Fetching is tested with jgo itself against a Maven repository on this machine, with tiny jars in it.

Stands for: jars, maven
"""

import io
import os
import signal
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NoReturn

import pytest
from coldnotify_kafka import broker
from coldnotify_kafka.broker import jars, pins
from coldnotify_kafka.broker.jars import KAFKA_VERSION, cache_directory
from coldnotify_kafka.errors import JarsUnavailableError
from coldnotify_testkit.waiting import wait_for

LOG4J = "2.9.9"
NAMES = [f"kafka-tools-{KAFKA_VERSION}.jar", f"kafka_2.13-{KAFKA_VERSION}.jar", f"log4j-core-{LOG4J}.jar"]
NAMES.append(f"log4j-slf4j-impl-{LOG4J}.jar")


def pom(group: str, artifact: str, version: str, dependencies: str = "") -> bytes:
    own = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
    head = '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
    return f"{head}{own}<dependencies>{dependencies}</dependencies></project>".encode()


def jar(content: str) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("content", content * 1000)
    return buffer.getvalue()


def repository_files() -> dict[str, bytes]:
    """What stands for Maven's central repository: Kafka's two coordinates and the logging they bring."""
    log4j = "org.apache.logging.log4j"
    needs = f"<dependency><groupId>{log4j}</groupId><artifactId>log4j-core</artifactId><version>{LOG4J}</version>"
    found = {}
    for group, artifact, version, dependencies in (
        ("org.apache.kafka", "kafka_2.13", KAFKA_VERSION, f"{needs}</dependency>"),
        ("org.apache.kafka", "kafka-tools", KAFKA_VERSION, ""),
        (log4j, "log4j-core", LOG4J, ""),
        (log4j, "log4j-slf4j-impl", LOG4J, ""),
    ):
        base = f"/{group.replace('.', '/')}/{artifact}/{version}/{artifact}-{version}"
        found[f"{base}.pom"] = pom(group, artifact, version, dependencies)
        found[f"{base}.jar"] = jar(artifact)
    return found


class Repository:
    """A Maven repository over HTTP whose answers a test can spoil."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.files = repository_files()
        self.asked: Counter[str] = Counter()
        self.cut_short: set[str] = set()
        """Names of files that are cut in the middle, once each."""
        self.open = threading.Event()
        """Jars are held back until it is set."""
        self.open.set()


@pytest.fixture
def repository(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Repository]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            content = here.files.get(self.path)
            if content is None:
                self.send_error(404)
                return
            here.asked[name] += 1
            if name.endswith(".jar"):
                here.open.wait(60)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if name in here.cut_short:
                here.cut_short.remove(name)
                content = content[: len(content) // 2]
            self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    here = Repository(f"http://127.0.0.1:{server.server_port}")
    directory = tmp_path_factory.mktemp("pins")
    for path, content in here.files.items():
        if path.endswith(".jar"):
            (directory / path.rpartition("/")[2]).write_bytes(content)
    (directory / "jars.sha256").write_text(pins.text_of(directory.glob("*.jar")))
    monkeypatch.setattr(pins, "FILE", directory / "jars.sha256")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield here
    here.open.set()
    server.shutdown()
    thread.join()
    server.server_close()


def names(found: list[Path]) -> list[str]:
    return sorted(path.name for path in found)


def fetch(cache: Path, url: str) -> list[Path]:
    return jars.jars(lambda words: None, {"COLDNOTIFY_CACHE": str(cache), "COLDNOTIFY_MAVEN_URL": url})


@contextmanager
def fetching_process(cache: Path, url: str) -> Iterator[subprocess.Popen[bytes]]:
    script = "from pathlib import Path; from coldnotify_kafka.broker import jars, pins; "
    script += f"pins.FILE = Path({str(pins.FILE)!r}); jars.jars()"
    environ = {**os.environ, "COLDNOTIFY_CACHE": str(cache), "COLDNOTIFY_MAVEN_URL": url}
    with subprocess.Popen([sys.executable, "-c", script], env=environ, stderr=subprocess.DEVNULL) as process:
        try:
            yield process
        finally:
            process.kill()


NOWHERE = "http://127.0.0.1:1"


def test_an_empty_cache_is_filled_and_then_needs_no_network(repository: Repository, tmp_path: Path) -> None:
    cache = tmp_path / "made" / "here"
    assert names(fetch(cache, repository.url)) == sorted(NAMES)
    assert names(fetch(cache, NOWHERE)) == sorted(NAMES)
    assert sorted(path.name for path in cache.iterdir()) == [f"kafka-{KAFKA_VERSION}", f"kafka-{KAFKA_VERSION}.lock"]


def test_progress_is_reported(repository: Repository, tmp_path: Path) -> None:
    said: list[str] = []
    jars.jars(said.append, {"COLDNOTIFY_CACHE": str(tmp_path), "COLDNOTIFY_MAVEN_URL": repository.url})
    assert KAFKA_VERSION in said[0]
    assert any("descriptions read" in words for words in said)
    assert any("4 jars" in words for words in said[:-1])
    assert "complete" in said[-1]


def test_a_connection_lost_half_way_is_tried_again(repository: Repository, tmp_path: Path) -> None:
    repository.cut_short = {NAMES[0], f"log4j-core-{LOG4J}.pom"}
    found = fetch(tmp_path, repository.url)
    assert all(zipfile.is_zipfile(path) for path in found)
    assert repository.asked[NAMES[0]] == repository.asked[f"log4j-core-{LOG4J}.pom"] == 2


def test_a_failed_fetch_is_reported_with_a_remedy(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(JarsUnavailableError, match=r"could not be fetched.*network.*COLDNOTIFY_MAVEN_URL"):
        fetch(tmp_path, NOWHERE)
    del repository.files[next(path for path in repository.files if path.endswith(NAMES[1]))]
    with pytest.raises(JarsUnavailableError, match=r"kafka_2\.13"):
        fetch(tmp_path, repository.url)
    # What failed has left nothing that is taken for a cache.
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{KAFKA_VERSION}.lock"]


def test_a_damaged_jar_is_reported_and_not_kept(repository: Repository, tmp_path: Path) -> None:
    path = next(path for path in repository.files if path.endswith(NAMES[1]))
    whole = repository.files[path]
    for damaged in (b"<html>Please log in to the proxy</html>", whole.replace(b"kafka", b"kafki", 3)):
        repository.files[path] = damaged
        with pytest.raises(JarsUnavailableError, match="arrived damaged"):
            fetch(tmp_path, repository.url)
    repository.files[path] = whole
    assert names(fetch(tmp_path, repository.url)) == sorted(NAMES)


def test_a_jar_that_differs_from_its_pin_is_reported_and_not_kept(repository: Repository, tmp_path: Path) -> None:
    path = next(path for path in repository.files if path.endswith(NAMES[1]))
    right = repository.files[path]
    repository.files[path] = jar("somebody else's")
    with pytest.raises(JarsUnavailableError, match=rf"{NAMES[1]}: its SHA-256 is .*jars\.sha256 says"):
        fetch(tmp_path, repository.url)
    assert [path.name for path in tmp_path.iterdir()] == [f"kafka-{KAFKA_VERSION}.lock"]
    repository.files[path] = right
    assert names(fetch(tmp_path, repository.url)) == sorted(NAMES)


def test_a_cache_with_another_jar_is_not_used(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changed = fetch(tmp_path, repository.url)[0]
    content = bytearray(changed.read_bytes())
    content[-1] ^= 1  # as long as before
    changed.write_bytes(content)
    monkeypatch.setattr(jars, "_checked", set())  # as in a process that begins
    with pytest.raises(JarsUnavailableError, match=rf"{changed.name}: its SHA-256 is .*Remove its folder"):
        fetch(tmp_path, NOWHERE)


def test_all_jars_can_be_fetched_again_to_be_pinned(repository: Repository, tmp_path: Path) -> None:
    pins.FILE.write_text("")
    found = jars.fetch_anew(tmp_path, {"COLDNOTIFY_MAVEN_URL": repository.url})
    assert names(found) == sorted(NAMES)


def test_a_cache_that_lost_a_jar_is_filled_again(repository: Repository, tmp_path: Path) -> None:
    for spoil in (Path.unlink, lambda path: path.write_bytes(b"")):
        spoil(fetch(tmp_path, repository.url)[0])
        assert all(zipfile.is_zipfile(path) for path in fetch(tmp_path, repository.url))


def test_a_process_killed_while_fetching_leaves_nothing_behind(repository: Repository, tmp_path: Path) -> None:
    repository.open.clear()
    with fetching_process(tmp_path, repository.url) as process:
        wait_for(lambda: repository.asked[NAMES[0]], what="the first jar being fetched")
        process.send_signal(signal.SIGKILL)
        process.wait(30)
    repository.open.set()
    assert all(zipfile.is_zipfile(path) for path in fetch(tmp_path, repository.url))


def test_two_processes_fetch_once(repository: Repository, tmp_path: Path) -> None:
    repository.open.clear()
    with fetching_process(tmp_path, repository.url) as one:
        wait_for(lambda: repository.asked[NAMES[0]], what="the first jar being fetched")
        said: list[str] = []
        environ = {"COLDNOTIFY_CACHE": str(tmp_path), "COLDNOTIFY_MAVEN_URL": repository.url}
        found: list[Path] = []
        two = threading.Thread(target=lambda: found.extend(jars.jars(said.append, environ)))
        two.start()
        wait_for(lambda: said, what="the second one saying that it waits")
        repository.open.set()
        two.join(60)
        assert one.wait(60) == 0
    assert "Another process" in said[0]
    assert names(found) == sorted(NAMES)
    assert {repository.asked[name] for name in NAMES} == {1}


def test_an_unwritable_cache_is_reported_with_its_setting(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(JarsUnavailableError, match="COLDNOTIFY_CACHE"):
        fetch(tmp_path / "file" / "cache", NOWHERE)


def test_the_cache_directory_follows_the_environment() -> None:
    assert cache_directory({"COLDNOTIFY_CACHE": "/c", "XDG_CACHE_HOME": "/x"}) == Path("/c")
    assert cache_directory({"XDG_CACHE_HOME": "/x"}) == Path("/x/coldnotify")
    assert cache_directory({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "coldnotify"
    assert cache_directory({}) == Path.home() / ".cache" / "coldnotify"


@pytest.mark.parametrize("home", [None, "relative"])
def test_without_a_home_the_setting_is_named(home: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nobody(_uid: int) -> NoReturn:
        raise KeyError

    monkeypatch.setattr("pwd.getpwuid", nobody)
    monkeypatch.delenv("HOME") if home is None else monkeypatch.setenv("HOME", home)
    for environ in ({}, {"COLDNOTIFY_CACHE": "~/x"}) if home is None else ({},):
        with pytest.raises(JarsUnavailableError, match=r"no home directory .*set COLDNOTIFY_CACHE"):
            cache_directory(environ)
    assert cache_directory({"COLDNOTIFY_CACHE": str(tmp_path)}) == tmp_path


def test_without_the_fetcher_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coldnotify_kafka.broker.maven", None)
    monkeypatch.delattr(broker, "maven", raising=False)
    with pytest.raises(JarsUnavailableError, match=r"pip install 'coldnotify-server\[embedded\]'"):
        jars.jars(lambda words: None, {"COLDNOTIFY_CACHE": str(tmp_path)})
    assert not list(tmp_path.glob("kafka-*.partial"))
