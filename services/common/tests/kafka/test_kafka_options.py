"""librdkafka's options from a file: taken under their own names, refused where ColdNotify needs them itself."""

from pathlib import Path

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.kafka.kafka_clients import admin_config, consumer_config, producer_config
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.settings import ServiceSettings

SECURE = """
# how to reach the cluster
security.protocol=SASL_SSL
sasl.mechanism = SCRAM-SHA-512
sasl.username=matcher
sasl.password=a=b c
"""


def written(tmp_path: Path, text: str) -> str:
    path = tmp_path / "kafka.properties"
    path.write_text(text)
    return str(path)


def test_all_clients_get_them(tmp_path: Path) -> None:
    path = written(tmp_path, SECURE)
    settings = ServiceSettings(kafka_config=path)
    for config in (admin_config(settings), consumer_config(settings, "g"), producer_config(settings)):
        assert (config["security.protocol"], config["sasl.password"]) == ("SASL_SSL", "a=b c")
        assert config["bootstrap.servers"] == settings.kafka
    assert read_options("") == {}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("acks=1", "line 1: acks is ColdNotify's own to set"),
        ("enable.auto.commit = true", "enable.auto.commit is ColdNotify's own"),
        ("security.protocol", "line 1: is not name=value"),
        ("client.rack=a\nclient.rack=b", "line 2: client.rack is there twice"),
        ("sasl.pasword=hunter2", 'No such configuration property: "sasl.pasword"'),
        ("ssl.ca.location=/hunter2/ca.pem\nsecurity.protocol=SSL", "ssl.ca.location"),
        ("security.protocol=hunter2", "security.protocol"),
    ],
)
def test_what_cannot_be_used_is_named_and_no_value_is_shown(line: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        read_options(written(tmp_path, line))
    assert "COLDNOTIFY_KAFKA_CONFIG / --kafka-config" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="nowhere"):
        read_options(str(tmp_path / "nowhere"))
