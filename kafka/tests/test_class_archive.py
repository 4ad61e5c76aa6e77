"""The archive of Kafka's classes: made once, believed with care, and never in a node's way."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, class_archive, jars
from coldnotify_kafka.broker.java import Java, find_java

pytestmark = pytest.mark.own_broker("is about the embedded Kafka itself")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache with Kafka's jars and an archive, made as the first start of a node has it made; where it is."""
    cache = tmp_path_factory.mktemp("cache")
    there = jars.jars()[0].parent
    shutil.copytree(there, cache / there.name, copy_function=shutil.copy2)
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("COLDNOTIFY_CACHE", str(cache))
        path = class_archive.make()
    assert path is not None
    return path


@pytest.fixture
def archive(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The same, in use: whatever becomes of it in the test, it is as before afterwards, and no other is made."""
    monkeypatch.setenv("COLDNOTIFY_CACHE", str(made.parents[1]))
    monkeypatch.setattr(class_archive, "_make_beside", lambda folder: None)
    content = made.read_bytes()
    yield made
    made.write_bytes(content)
    made.chmod(0o600)
    made.parent.chmod(0o700)


def options() -> list[str]:
    return class_archive.options(find_java(), jars.jars())


def classes_from_archive(java_options: list[str]) -> bool:
    """Whether Java, asked for Kafka's version, took Kafka's class out of an archive; it must tell the version."""
    argv = [str(find_java().path), *java_options, "-Xlog:class+load", "-cp", jars.classpath(), "kafka.Kafka"]
    said = subprocess.run([*argv, "--version"], capture_output=True, text=True, timeout=120, check=True).stdout
    assert jars.KAFKA_VERSION in said
    [line] = [line for line in said.splitlines() if " kafka.Kafka$ source:" in line]
    return "shared objects file" in line


@pytest.mark.kafka
def test_java_loads_kafkas_classes_from_the_archive(archive: Path) -> None:
    assert options() == [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"]
    assert classes_from_archive(options())
    assert not classes_from_archive([])
    assert [path.suffix for path in sorted(archive.parent.iterdir())] == [".jsa", ".lock"]


@pytest.mark.kafka
def test_a_node_starts_with_the_archive(archive: Path, tmp_path: Path) -> None:
    with EmbeddedBroker(tmp_path / "data") as broker:
        line = Path(f"/proc/{broker.pid}/cmdline").read_text().split("\0")
        assert f"-XX:SharedArchiveFile={archive}" in line
        # Java would say here what it does not like about it.
        assert "cds" not in broker.config.output_file.read_text()


@pytest.mark.kafka
@pytest.mark.parametrize("damage", ["cut off", "one byte", "nothing in it"])
def test_a_damaged_archive_is_not_used_and_removed(archive: Path, damage: str) -> None:
    content = archive.read_bytes()
    middle = len(content) // 2
    one_byte = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]
    archive.write_bytes({"cut off": content[:middle], "one byte": one_byte, "nothing in it": b""}[damage])
    assert options() == []
    assert not archive.exists()


@pytest.mark.kafka
def test_an_archive_that_others_could_have_written_is_not_used(archive: Path, caplog: pytest.LogCaptureFixture) -> None:
    archive.chmod(0o666)
    assert options() == []
    assert "others than its user may write there" in caplog.text
    archive.chmod(0o600)
    archive.parent.chmod(0o777)
    assert options() == []
    archive.parent.chmod(0o700)
    assert options() != []


@pytest.mark.kafka
def test_an_archive_of_other_jars_is_not_used(archive: Path) -> None:
    jar = jars.jars()[0]
    before = jar.stat()
    os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    try:
        assert options() == []
    finally:
        os.utime(jar, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert options() != []


@pytest.mark.kafka
def test_only_one_of_two_makers_makes_the_archive(archive: Path) -> None:
    lock = next(archive.parent.glob("*.lock"))
    away = archive.with_suffix(".away")
    archive.rename(away)
    with subprocess.Popen(
        ["flock", "--exclusive", str(lock), "sh", "-c", "echo locked; read go"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdin
        assert holder.stdout
        assert holder.stdout.readline()
        assert class_archive.make() is None
        holder.stdin.close()
    away.rename(archive)
    assert class_archive.make() == archive


@pytest.mark.kafka
def test_an_archive_unused_for_long_is_removed_when_another_is_made(archive: Path) -> None:
    folder = archive.parent
    for name, days in (("old", 31), ("recent", 29)):
        (folder / f"{name}.lock").touch()
        (folder / f"{name}.00.jsa").touch()
        at = time.time() - days * 24 * 3600
        os.utime(folder / f"{name}.lock", (at, at))
    class_archive._remove_unused(folder)
    assert not list(folder.glob("old.*"))
    for path in folder.glob("recent.*"):
        path.unlink()
    assert archive.exists()


def test_a_java_with_an_unusual_layout_gets_no_archive(tmp_path: Path) -> None:
    assert class_archive.options(Java(tmp_path / "bin" / "java", 17, "PATH"), []) == []


def test_the_first_start_has_a_separate_process_make_the_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLDNOTIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(class_archive, "_maker", None)
    monkeypatch.setattr(class_archive, "_key", lambda java, classpath: "key")
    started = tmp_path / "started"
    script = f"#!/bin/sh\necho x >> {started}\nexit 3\n"
    program = tmp_path / "python"
    program.write_text(script)
    program.chmod(0o700)
    monkeypatch.setattr("sys.executable", str(program))
    java = Java(tmp_path / "java", 17, "PATH")
    assert class_archive.options(java, []) == []
    maker = class_archive._maker
    assert maker is not None
    assert maker.wait(60) == 3
    # What failed once is not tried again by each start.
    assert class_archive.options(java, []) == []
    assert class_archive._maker is maker
    assert started.read_text() == "x\n"


def test_an_unwritable_cache_does_not_prevent_a_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "classes").touch()
    monkeypatch.setenv("COLDNOTIFY_CACHE", str(tmp_path))
    monkeypatch.setattr(class_archive, "_maker", None)
    monkeypatch.setattr(class_archive, "_key", lambda java, classpath: "key")
    assert class_archive.options(Java(tmp_path / "java", 17, "PATH"), []) == []
    assert class_archive._maker is None
