"""schemas/vectors.json, by which a client in another language is tested, says what our code does."""

import json
from pathlib import Path
from typing import Any

import pytest
from coldnotify_schemas import frames
from coldnotify_schemas.digest import digest, object_crc, sets_digest
from coldnotify_schemas.interests import by_channel, query_hash
from coldnotify_schemas.partitioner import murmur2, partition_of
from coldnotify_schemas.wire_pb2 import ClientFrame, GatewayFrame
from google.protobuf.json_format import ParseDict

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors.json").read_text())


def of(side: str) -> list[Any]:
    """The frames of one side, as pytest's parameters."""
    return [pytest.param(vector, id=vector["what"]) for vector in VECTORS["frames"][side]]


@pytest.mark.parametrize("vector", of("client"))
def test_a_clients_frame(vector: dict[str, Any]) -> None:
    message = ParseDict(vector["message"], ClientFrame())
    assert frames.encode(message).hex() == vector["hex"]
    (body,) = frames.FrameBuffer(frames.CLIENT_FRAME_BYTES_MAX).feed(bytes.fromhex(vector["hex"]))
    assert frames.parse_client_frame(body) == message


@pytest.mark.parametrize("vector", of("gateway"))
def test_a_gateways_frame(vector: dict[str, Any]) -> None:
    message = ParseDict(vector["message"], GatewayFrame())
    assert frames.encode(message).hex() == vector["hex"]
    (body,) = frames.FrameBuffer(frames.GATEWAY_FRAME_BYTES_MAX).feed(bytes.fromhex(vector["hex"]))
    assert frames.parse_gateway_frame(body) == message


@pytest.mark.parametrize(("message", "side"), [(ClientFrame, "client"), (GatewayFrame, "gateway")])
def test_every_kind_of_frame_has_a_vector(message: type[ClientFrame | GatewayFrame], side: str) -> None:
    kinds = {field.name for field in message.DESCRIPTOR.oneofs_by_name["frame"].fields}
    assert {kind for vector in VECTORS["frames"][side] for kind in vector["message"]} == kinds


def test_lengths() -> None:
    assert VECTORS["lengths"] == [
        {"length": v["length"], "hex": frames.encode_length(v["length"]).hex()} for v in VECTORS["lengths"]
    ]


def test_digests() -> None:
    assert [v["digest"] for v in VECTORS["digests"]] == [str(digest(v["objects"])) for v in VECTORS["digests"]]


def test_hashes_of_queries() -> None:
    for v in VECTORS["query_hashes"]:
        assert v["hash"] == str(query_hash(v["query"]))


def test_digests_of_sets() -> None:
    for v in VECTORS["sets_digests"]:
        sets = [(query_hash(one["query"]), digest(one["members"])) for one in v["sets"]]
        assert v["digest"] == str(sets_digest(sets))


def test_crcs() -> None:
    assert [v["crc"] for v in VECTORS["crcs"]] == [object_crc(v["object"]) for v in VECTORS["crcs"]]


def test_two_names_under_one_crc() -> None:
    one, other = VECTORS["one_crc"]
    assert one != other
    assert object_crc(one) == object_crc(other)


def test_partitions() -> None:
    assert len(VECTORS["partitions"]) >= 20
    for v in VECTORS["partitions"]:
        assert v["murmur2"] == murmur2(f"{v['domain']}/{v['group']}".encode())
        assert v["of_8"] == partition_of(v["domain"], v["group"], 8)


def test_hashes_of_channels() -> None:
    for vector in VECTORS["channels"]:
        assert vector["hash"] == str(by_channel(vector["name"], vector["attributes"]).hash)
