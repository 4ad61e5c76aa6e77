"""Sizes of PUBLISH packets that devices are told."""

import pytest
from coldnotify_schemas.mqtt.kept_properties import read_kept
from coldnotify_schemas.mqtt.told_sizes import told_bytes_min


def test_a_size_counts_topic_payload_and_properties() -> None:
    bare = told_bytes_min("a", b"", b"")
    assert bare == 2 + 2 + 1 + 2 + 1
    assert told_bytes_min("ab", b"xyz", b"") == bare + 4
    assert told_bytes_min("a", b"", b"", identifiers=(7,), expires=True) == bare + 2 + 5
    kept = read_kept([("mqtt-content-type", b"text")]).encoded
    assert told_bytes_min("a", b"", kept) == bare + 7


@pytest.mark.parametrize("size", [0, 119, 120, 4096])
def test_a_size_grows_with_its_payload(size: int) -> None:
    assert told_bytes_min("a", bytes(size + 1), b"") > told_bytes_min("a", bytes(size), b"")
