import os
from pathlib import Path

import pytest
from coldnotify_kafka.broker import EmbeddedBroker, EmbeddedCluster, data_dir
from coldnotify_kafka.broker.data_dir import ClusterFile
from coldnotify_kafka.errors import DataDirectoryError, DataDirectoryInUseError

pytestmark = pytest.mark.own_broker("is about the embedded Kafka itself")


def test_a_written_cluster_file_is_read_back_without_remains(tmp_path: Path) -> None:
    assert data_dir.read_cluster_file(tmp_path) is None
    content = ClusterFile("AAAA", (20001, 20002, 20003))
    data_dir.write_cluster_file(tmp_path, content)
    assert data_dir.read_cluster_file(tmp_path) == content
    assert [path.name for path in tmp_path.iterdir()] == ["cluster.json"]


@pytest.mark.parametrize("text", ["", "{}", '{"cluster_id": 1, "controller_ports": [1]}', '{"cluster_id": "a", "con'])
def test_a_damaged_file_is_reported_and_not_recreated(tmp_path: Path, text: str) -> None:
    (tmp_path / "cluster.json").write_text(text)
    with pytest.raises(DataDirectoryError, match=r"cluster\.json"):
        EmbeddedCluster(tmp_path)


def test_a_directory_of_one_node_is_not_for_three(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "meta.properties").touch()
    with pytest.raises(DataDirectoryError, match=r"was made for 1 node and cannot be used with 3: .*--nodes"):
        EmbeddedCluster(tmp_path)
    data_dir.check_nodes(tmp_path, 1)


@pytest.mark.kafka
def test_a_directory_of_three_nodes_is_not_for_one(tmp_path: Path) -> None:
    data_dir.write_cluster_file(tmp_path, ClusterFile("AAAA", (20001, 20002, 20003)))
    broker = EmbeddedBroker(tmp_path)
    with pytest.raises(DataDirectoryError, match=r"was made for 3 nodes and cannot be used with 1: .*--kafka-nodes"):
        broker.start()
    assert not (tmp_path / "records").exists()
    os.close(data_dir.lock(tmp_path))


def test_a_directory_is_for_one_at_a_time(tmp_path: Path) -> None:
    held = data_dir.lock(tmp_path)
    with pytest.raises(DataDirectoryInUseError, match="is in use: another broker runs there"):
        data_dir.lock(tmp_path)
    with pytest.raises(DataDirectoryInUseError):
        EmbeddedCluster(tmp_path).start()
    os.close(held)
    os.close(data_dir.lock(tmp_path))
