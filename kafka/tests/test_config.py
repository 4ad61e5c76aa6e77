import os
from pathlib import Path

import pytest
from coldnotify_kafka.broker.config import BrokerConfig, resource
from coldnotify_kafka.errors import BrokerSettingError, DataDirectoryError


def properties(config: BrokerConfig) -> dict[str, str]:
    lines = [line for line in config.server_properties().splitlines() if line and not line.startswith("#")]
    return dict(line.split("=", 1) for line in lines)


def test_the_template_is_filled_in() -> None:
    config = BrokerConfig(Path("/data"), port=9092, controller_port=9093)
    found = properties(config)
    assert found["listeners"] == "BROKER://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == "BROKER://127.0.0.1:9092"
    assert found["controller.quorum.voters"] == "1@127.0.0.1:9093"
    assert found["log.dirs"] == "/data/records"
    assert "$" not in config.server_properties()


def test_the_settings_that_the_promises_need_are_set() -> None:
    found = properties(BrokerConfig(Path("/data"), port=9092, controller_port=9093))
    assert found["auto.create.topics.enable"] == "false"
    assert found["unclean.leader.election.enable"] == "false"
    assert int(found["group.min.session.timeout.ms"]) <= 1000


def test_a_broker_for_other_machines_needs_an_advertised_host() -> None:
    config = BrokerConfig(Path("/data"), 9092, 9093, host="0.0.0.0", advertised_host="kafka.example")
    found = properties(config)
    assert found["listeners"].startswith("BROKER://0.0.0.0:9092,")
    assert found["advertised.listeners"] == "BROKER://kafka.example:9092"
    assert config.contact_host == "127.0.0.1"
    with pytest.raises(BrokerSettingError, match="advertised_host"):
        BrokerConfig(Path("/data"), 9092, 9093, host="0.0.0.0")


def test_an_ipv6_address_has_brackets() -> None:
    config = BrokerConfig(Path("/data"), 9092, 9093, host="::1")
    found = properties(config)
    assert found["listeners"] == "BROKER://[::1]:9092,CONTROLLER://127.0.0.1:9093"
    assert found["advertised.listeners"] == "BROKER://[::1]:9092"
    assert config.bootstrap == "[::1]:9092"
    everywhere = properties(BrokerConfig(Path("/data"), 9092, 9093, host="::", advertised_host="2001:db8::1"))
    assert everywhere["advertised.listeners"] == "BROKER://[2001:db8::1]:9092"


def test_the_heap_is_a_setting_with_a_minimum() -> None:
    assert "-Xmx300m" in BrokerConfig(Path("/data"), 9092, 9093, heap_mib=300).java_options()
    with pytest.raises(BrokerSettingError, match="heap_mib: 64 MiB are too few"):
        BrokerConfig(Path("/data"), 9092, 9093, heap_mib=64)


def test_users_get_both_of_javas_compilers() -> None:
    assert not any("Tiered" in option for option in BrokerConfig(Path("/data"), 9092, 9093).java_options())


def test_java_reads_a_directory_of_any_name() -> None:
    text = BrokerConfig(Path('/data/jürgen/データ 🐧/50% \\"it\'s" $x'), 9092, 9093).server_properties()
    said = next(line for line in text.splitlines() if line.startswith("log.dirs="))
    assert text.isascii(), "a properties file is ISO-8859-1"
    name = r"/data/j\u00fcrgen/\u30c7\u30fc\u30bf \ud83d\udc27/50% \u005c" + '"it\'s" $x/records'
    assert said == f"log.dirs={name}"
    options = BrokerConfig(Path("/100%d"), 9092, 9093).java_options()
    assert "-Dcoldnotify.log.file=/100%d/broker.log" in options
    assert "-Dcoldnotify.log.pattern=/100%%d/broker.log.%i" in options


def test_a_directory_that_java_cannot_name_is_refused() -> None:
    with pytest.raises(DataDirectoryError, match="is not UTF-8"):
        BrokerConfig(Path(os.fsdecode(b"/data\xff")), 9092, 9093).server_properties()


def test_a_directory_that_kafka_would_misread_is_refused() -> None:
    with pytest.raises(DataDirectoryError, match="comma"):
        BrokerConfig(Path("/data,old"), 9092, 9093)


def test_the_files_beside_the_module_exist() -> None:
    for name in ("server.properties", "log4j2.xml", "tools-log4j2.xml"):
        assert resource(name).is_file()


def test_three_nodes_know_each_other_and_write_to_two() -> None:
    voters = {1: 9193, 2: 9194, 3: 9195}
    found = properties(BrokerConfig(Path("/data"), 9092, 9194, node_id=2, voters=voters))
    assert found["controller.quorum.voters"] == "1@127.0.0.1:9193,2@127.0.0.1:9194,3@127.0.0.1:9195"
    assert (found["node.id"], found["listeners"].rpartition(":")[2]) == ("2", "9194")
    for name, number in found.items():
        if name.endswith("replication.factor"):
            assert number == "3", name
        if name.endswith(("min.isr", "min.insync.replicas")):
            assert number == "2", name
    alone = properties(BrokerConfig(Path("/data"), 9092, 9093))
    assert {alone["offsets.topic.replication.factor"], alone["min.insync.replicas"]} == {"1"}
    with pytest.raises(BrokerSettingError, match=r"voters: .*node 3"):
        BrokerConfig(Path("/data"), 9092, 9194, node_id=3, voters=voters)
