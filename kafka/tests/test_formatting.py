"""A directory that we format, beside one that Kafka's own StorageTool did."""

import os
import stat
import struct
from pathlib import Path

import pytest
from coldnotify_kafka.broker import jars
from coldnotify_kafka.broker.config import BrokerConfig
from coldnotify_kafka.broker.formatting import CHECKPOINT, checkpoint_by_tool, format_if_new, new_id
from coldnotify_kafka.broker.java import find_java

_BATCH_HEAD = struct.Struct(">qiibI")
"""Of a batch of records: base offset, length behind it, leader's epoch, magic, checksum."""
_CHECKSUM_AT, _TIMES_AT, _TIMES_BYTES = 17, 27, 16


def config(data_dir: Path, **others: object) -> BrokerConfig:
    return BrokerConfig(data_dir=data_dir, port=1, controller_port=2, **others)  # type: ignore[arg-type]


def fields(formatted: BrokerConfig) -> dict[str, str]:
    lines = (formatted.log_dir / "meta.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if not line.startswith("#"))  # type: ignore[misc]


def without_times(checkpoint: bytes) -> list[bytes]:
    """The batches, without when they were written and the checksums over that."""
    batches = []
    while checkpoint:
        length = _BATCH_HEAD.unpack_from(checkpoint)[1] + 12
        batch = bytearray(checkpoint[:length])
        batch[_CHECKSUM_AT : _CHECKSUM_AT + 4] = bytes(4)
        batch[_TIMES_AT : _TIMES_AT + _TIMES_BYTES] = bytes(_TIMES_BYTES)
        batches.append(bytes(batch))
        checkpoint = checkpoint[length:]
    return batches


@pytest.mark.kafka
def test_the_checkpoint_equals_that_of_kafkas_own_tool(tmp_path: Path) -> None:
    java = [str(find_java().path), "-XX:TieredStopAtLevel=1", "-cp", jars.classpath()]
    by_tool = checkpoint_by_tool(java, tmp_path)
    assert without_times(by_tool) == without_times(CHECKPOINT.read_bytes()), "run `make pins`"
    # The same names are written as the tool writes, by which Kafka knows the directory again.
    ours = config(tmp_path / "ours")
    ours.data_dir.mkdir()
    format_if_new(ours)
    tools = config(tmp_path)
    assert fields(ours).keys() == fields(tools).keys()
    assert {path.name for path in ours.log_dir.iterdir()} == {path.name for path in tools.log_dir.iterdir()}


def test_each_directory_has_ids_of_its_own(tmp_path: Path) -> None:
    found = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        format_if_new(config(tmp_path / name))
        found.append(fields(config(tmp_path / name)))
    assert found[0]["cluster.id"] != found[1]["cluster.id"]
    assert found[0]["directory.id"] != found[1]["directory.id"]


def test_nodes_of_a_cluster_have_its_id_and_their_own_directorys(tmp_path: Path) -> None:
    cluster, voters = new_id(), {1: 2, 3: 4}
    (tmp_path / "three").mkdir()
    node = BrokerConfig(
        data_dir=tmp_path / "three", port=1, controller_port=4, node_id=3, voters=voters, cluster_id=cluster
    )
    format_if_new(node)
    assert fields(node)["cluster.id"] == cluster
    assert fields(node)["node.id"] == "3"
    assert fields(node)["directory.id"] != cluster


def test_a_formatted_directory_stays_unchanged(tmp_path: Path) -> None:
    format_if_new(config(tmp_path))
    before = fields(config(tmp_path))
    format_if_new(config(tmp_path))
    assert fields(config(tmp_path)) == before


def test_an_interrupted_format_is_repeated(tmp_path: Path) -> None:
    one = config(tmp_path)
    one.log_dir.mkdir()
    for name in ("bootstrap.checkpoint", "bootstrap.checkpoint.tmp", "meta.properties.tmp"):
        (one.log_dir / name).write_bytes(b"half")
    format_if_new(one)
    assert (one.log_dir / "bootstrap.checkpoint").read_bytes() == CHECKPOINT.read_bytes()
    assert sorted(path.name for path in one.log_dir.iterdir()) == ["bootstrap.checkpoint", "meta.properties"]


def test_a_formatted_directorys_files_are_for_their_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        format_if_new(config(tmp_path))
    finally:
        os.umask(before)
    records = config(tmp_path).log_dir
    assert [stat.S_IMODE(path.stat().st_mode) for path in (records, *sorted(records.iterdir()))] == [
        0o700,
        0o600,
        0o600,
    ]


def test_ids_are_of_kafkas_form() -> None:
    ids = {new_id() for _ in range(1000)}
    assert len(ids) == 1000
    assert all(len(one) == 22 and not one.startswith("-") for one in ids)


def test_an_empty_directory_that_lost_its_identity_gets_another(tmp_path: Path) -> None:
    new = config(tmp_path)
    format_if_new(new)
    (new.log_dir / "meta.properties").write_bytes(b"")
    format_if_new(new)
    assert fields(new)["node.id"] == "1"
