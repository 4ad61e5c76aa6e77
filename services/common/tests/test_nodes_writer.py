"""Addresses of a node, as it says them, and by which name Kafka knows it; tests of the reader write records, too."""

from pathlib import Path

import pytest
from coldnotify_common.errors import SettingError
from coldnotify_common.nodes_writer import Advertised, NodePort, principal_of
from coldnotify_common.security.certificates import Authority
from coldnotify_common.settings import ServiceSettings

DEVICE = NodePort(host="10.0.0.3", port=55_000)
EVERYWHERE = NodePort(host="0.0.0.0", port=55_001)


def addresses(node_addresses: str, kafka: str = "127.0.0.1:9092", **ports: NodePort) -> dict[str, str]:
    return Advertised(ServiceSettings(kafka=kafka, node_addresses=node_addresses)).addresses(ports)


def test_a_node_is_where_it_listens() -> None:
    web = NodePort(host="::1", port=55_080, tls=True)
    assert addresses("", device=DEVICE, web=web) == {"device": "10.0.0.3:55000", "web": "https://[::1]:55080"}


def test_one_that_listens_everywhere_is_where_kafka_sees_it() -> None:
    assert addresses("", inside=EVERYWHERE) == {"inside": "127.0.0.1:55001"}


def test_a_host_stands_for_all_ports_and_single_ones_can_be_said() -> None:
    said = addresses("node-1, device=gw1.example:443", device=DEVICE, inside=EVERYWHERE)
    assert said == {"device": "gw1.example:443", "inside": "node-1:55001"}


@pytest.mark.parametrize("text", ["device=gw1", "a b", "one,two", "De vice=a:1", "a/b", "device=a/b:80"])
def test_an_unusable_address_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="--node-addresses"):
        Advertised(ServiceSettings(node_addresses=text))


@pytest.mark.parametrize("text", ["zone", "a-b=c", "a=" + "b" * 81])
def test_an_unusable_label_is_refused(text: str) -> None:
    with pytest.raises(SettingError, match="--node-labels"):
        Advertised(ServiceSettings(node_labels=text))


def test_the_principal_is_the_user_of_sasl_or_the_subject_of_a_certificate(tmp_path: Path) -> None:
    options = tmp_path / "kafka.options"
    assert principal_of(ServiceSettings()) == "anonymous"
    options.write_text("sasl.username=coldnotify-gateway\n")
    assert principal_of(ServiceSettings(kafka_config=str(options))) == "coldnotify-gateway"
    certificate, _ = Authority(tmp_path / "certs").operator("eve")
    options.unlink()
    other = tmp_path / "other.options"
    other.write_text(f"ssl.certificate.location={certificate}\n")
    assert principal_of(ServiceSettings(kafka_config=str(other))) == "CN=eve"
