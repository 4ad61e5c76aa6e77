"""The raw device's hashes: those of the vectors that every client is tested with."""

import json
from pathlib import Path

from coldnotify_testkit.raw_device.hashes import channel_hash, crc, members_digest, query_hash, sets_digest

VECTORS = json.loads((Path(__file__).parents[3] / "schemas" / "vectors.json").read_text())


def test_names() -> None:
    for one in VECTORS["crcs"]:
        assert crc(one["object"]) == one["crc"]


def test_digests() -> None:
    for one in VECTORS["digests"]:
        assert members_digest(one["objects"]) == int(one["digest"])


def test_queries() -> None:
    for one in VECTORS["query_hashes"]:
        assert query_hash(one["query"]) == int(one["hash"])


def test_channels() -> None:
    for one in VECTORS["channels"]:
        assert channel_hash("\0".join([one["name"], *one["attributes"]])) == int(one["hash"])


def test_sets() -> None:
    for one in VECTORS["sets_digests"]:
        assert sets_digest((of["query"], of["members"]) for of in one["sets"]) == int(one["digest"])
