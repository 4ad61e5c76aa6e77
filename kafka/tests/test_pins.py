"""Which jars are Kafka's, by their content.

Stands for: pinning
"""

import hashlib
from pathlib import Path

import pytest
from coldnotify_kafka.broker import pins
from coldnotify_kafka.broker.jars import KAFKA_VERSION
from coldnotify_kafka.errors import JarsUnavailableError


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    found = [tmp_path / f"{name}.jar" for name in ("b", "a")]
    for path in found:
        path.write_text(path.name)
    return found


def test_written_pins_match_the_jars(jars: list[Path], tmp_path: Path) -> None:
    file = tmp_path / "jars.sha256"
    file.write_text(pins.text_of(jars))
    assert file.read_text().splitlines()[0] == f"{hashlib.sha256(b'a.jar').hexdigest()}  a.jar"
    pinned = pins.read(file)
    pins.check(jars, pinned)
    with pytest.raises(JarsUnavailableError, match=r"^b\.jar: is in jars\.sha256 and was not fetched"):
        pins.check(jars[1:], pinned)
    more = tmp_path / "c.jar"
    more.touch()
    with pytest.raises(JarsUnavailableError, match=r"c\.jar: is not one of the jars in jars\.sha256"):
        pins.check([*jars, more], pinned)
    jars[0].write_text("another")
    with pytest.raises(JarsUnavailableError, match=r"b\.jar: its SHA-256 is \w+, jars\.sha256 says \w+"):
        pins.check(jars, pinned)


@pytest.mark.parametrize("text", ["abc  a.jar", f"{'0' * 64} a.jar", f"{'0' * 64}  a.txt", f"{'0' * 64}  a.jar\n\n"])
def test_an_invalid_line_of_pins_is_reported(text: str, tmp_path: Path) -> None:
    file = tmp_path / "jars.sha256"
    file.write_text(text)
    with pytest.raises(JarsUnavailableError, match=r"jars\.sha256, line \d: is not"):
        pins.read(file)


def test_the_jars_of_the_embedded_kafka_are_pinned() -> None:
    pinned = pins.read(pins.FILE)
    for name in ("kafka_2.13", "kafka-clients", "kafka-tools"):
        assert f"{name}-{KAFKA_VERSION}.jar" in pinned, "make pins"
    assert "://" not in pins.FILE.read_text()
