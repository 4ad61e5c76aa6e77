"""The pins of Kafka's jars, by name and SHA-256: only jars with these sums are run, whether fetched or found in a
cache.

`jars.sha256` beside this module lists them, a line `SHA256 NAME` each, as sha256sum writes it. After KAFKA_VERSION was
changed, `make pins` fetches all jars again and writes the file (see `pinning`).
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from coldnotify_kafka.broker.config import resource
from coldnotify_kafka.errors import JarsUnavailableError

FILE = resource("jars.sha256")
_LINE = re.compile(r"([0-9a-f]{64})  (\S+\.jar)")


def read(path: Path) -> dict[str, str]:
    """The SHA-256 of each jar, by name. Raises JarsUnavailableError."""
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise JarsUnavailableError(f"{path}: cannot be read: {error.strerror}") from None
    found = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None:
            raise JarsUnavailableError(f"{path}, line {number}: is not 'SHA256  NAME.jar'")
        found[match[2]] = match[1]
    return found


def check(jars: Iterable[Path], pinned: Mapping[str, str]) -> None:
    """That these are the jars that are pinned, all of them and no other. Raises JarsUnavailableError, naming one."""
    names = set()
    for jar in jars:
        names.add(jar.name)
        wanted, found = pinned.get(jar.name), sha256(jar)
        if wanted is None:
            raise JarsUnavailableError(f"{jar}: is not one of the jars in {FILE.name}, so it is not run")
        if wanted != found:
            raise JarsUnavailableError(
                f"{jar}: its SHA-256 is {found}, {FILE.name} says {wanted}: it is another file than the one that was "
                "tested, and is not run. Remove its folder to fetch it again, or name another mirror by "
                "COLDNOTIFY_MAVEN_URL"
            )
    if missing := sorted(pinned.keys() - names):
        raise JarsUnavailableError(f"{missing[0]}: is in {FILE.name} and was not fetched")


def sha256(path: Path) -> str:
    """Returns the SHA-256 of a file's content, as hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def text_of(jars: Iterable[Path]) -> str:
    """Returns the file's text for these jars."""
    return "".join(f"{sha256(jar)}  {jar.name}\n" for jar in sorted(jars, key=lambda jar: jar.name))
