"""`coldnotify broker` in the foreground, and Kafka's own tools.

Stands for: kafka_tool
"""

import json
import os
import re
import signal
from pathlib import Path

import pytest
from coldnotify_kafka.broker import free_port
from coldnotify_testkit.command import RunningCommand, coldnotify

NOWHERE = "127.0.0.1:1"


@pytest.mark.kafka
def test_the_broker_runs_until_it_is_told_to_stop_and_then_carries_on(tmp_path: Path) -> None:
    kafka_port = str(free_port())
    settings = {"data": str(tmp_path / "data"), "kafka_port": kafka_port}
    address = f"127.0.0.1:{kafka_port}"
    with RunningCommand(tmp_path / "first", "broker", **settings) as broker:
        broker.wait_for(lambda: f"Kafka is ready at {address}" in broker.output)
        assert coldnotify("topics", "apply", kafka=address).returncode == 0
        other = coldnotify("broker", "--kafka-port", "0", data=str(tmp_path / "data"))
        assert other.returncode == 1
        assert "is in use: another broker runs there" in other.stderr
        other = coldnotify("broker", "--kafka-port", kafka_port, data=str(tmp_path / "other"))
        assert other.returncode == 1
        assert "--kafka-port" in other.stderr
        assert broker.stop() == 0
        assert "Kafka has stopped" in broker.output
    with RunningCommand(tmp_path / "second", "broker", **settings) as broker:
        broker.wait_for(lambda: f"Kafka is ready at {address}" in broker.output)
        assert coldnotify("topics", "plan", kafka=address).stdout == "nothing to change\n"
        tool = coldnotify("kafka-tool", "topics", "--bootstrap-server", address, "--list")
        assert tool.returncode == 0
        assert "coldnotify.objects" in tool.stdout.splitlines()


@pytest.mark.kafka
def test_a_stop_while_it_starts_is_a_clean_stop(tmp_path: Path) -> None:
    with RunningCommand(tmp_path / "output", "broker", data=str(tmp_path / "data"), kafka_port="0") as broker:
        broker.wait_for(lambda: (tmp_path / "data" / "broker.out").exists())
        assert broker.stop() == 0
        assert "Traceback" not in broker.output


@pytest.mark.kafka
def test_three_nodes_run_a_dead_one_comes_back_and_the_directory_is_theirs(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with RunningCommand(tmp_path / "output", "broker", "--nodes", "3", data=data, kafka_port="0") as broker:
        pattern = re.compile(r"Kafka is ready at (\S+) \(data in \S+, pids (.*)\)")
        broker.wait_for(lambda: pattern.search(broker.output))
        [(address, pids)] = pattern.findall(broker.output)
        assert len(address.split(",")) == len(pids.split(", ")) == 3
        assert coldnotify("topics", "apply", "--replication", "3", kafka=address).returncode == 0
        assert coldnotify("topics", "plan", "--replication=3", kafka=address).stdout == "nothing to change\n"
        told = coldnotify("doctor", "--json", kafka=address, http=NOWHERE)
        topics = [one for one in map(json.loads, told.stdout.splitlines()) if one["what"] == "topics"]
        assert [(one["state"], one["words"].rpartition(", ")[2]) for one in topics] == [("ok", "3 copies each")]
        wants_more = coldnotify("doctor", "--replication=5", kafka=address, http=NOWHERE).stdout
        assert "replication factor: 3 -> 5 is refused" in wants_more
        os.kill(int(pids.split(", ")[1]), signal.SIGKILL)
        broker.wait_for(lambda: len(pattern.findall(broker.output)) == 2)
        (_, before), (same_address, after) = pattern.findall(broker.output)
        assert same_address == address
        assert [old == new for old, new in zip(before.split(", "), after.split(", "), strict=True)] == [
            True,
            False,
            True,
        ]
        assert broker.stop() == 0
        assert "Kafka has stopped" in broker.output
    alone = coldnotify("broker", "--kafka-port", "0", data=data)
    assert alone.returncode == 1
    assert "was made for 3 nodes" in alone.stderr


@pytest.mark.kafka
def test_damage_of_a_power_cut_is_reported_at_the_start_and_repaired_on_demand(tmp_path: Path) -> None:
    data = tmp_path / "data"
    settings = {"data": str(data), "kafka_port": str(free_port())}
    assert coldnotify("broker", "--repair", data=str(data)).stderr == f"Error: data directory {data} is not there\n"
    with RunningCommand(tmp_path / "first", "broker", **settings) as broker:
        broker.wait_for(lambda: "Kafka is ready" in broker.output)
        assert coldnotify("topics", "apply", kafka=f"127.0.0.1:{settings['kafka_port']}").returncode == 0
        assert broker.stop() == 0
    for name in ("meta.properties", "coldnotify.objects-0/partition.metadata", "__cluster_metadata-0/quorum-state"):
        (data / "records" / name).write_bytes(b"")
    refused = coldnotify("broker", **settings)
    assert refused.returncode == 1
    assert f"{data / 'records' / 'meta.properties'} is empty" in refused.stderr
    assert f"`coldnotify broker --repair --data {data}`" in refused.stderr
    done = coldnotify("broker", "--repair", data=str(data))
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.partition(": ")[0] for line in lines[:3]] == ["mended"] * 3
    assert f"the replaced files are in {data}/before-repair-" in lines[3]
    assert coldnotify("broker", "--repair", data=str(data)).stdout == f"nothing to mend in {data}\n"
    with RunningCommand(tmp_path / "second", "broker", **settings) as broker:
        broker.wait_for(lambda: "Kafka is ready" in broker.output)
        kafka = f"127.0.0.1:{settings['kafka_port']}"
        assert coldnotify("topics", "plan", kafka=kafka).stdout == "nothing to change\n"
