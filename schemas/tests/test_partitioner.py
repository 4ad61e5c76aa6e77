"""murmur2 as Kafka's own tests have it (UtilsTest.testMurmur2); kafka/tests asks Kafka's Java client itself."""

import pytest
from coldnotify_schemas.partitioner import murmur2, partition_of
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("data", "signed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % 2**32


@given(st.binary(max_size=64))
def test_murmur2_is_32_bits(data: bytes) -> None:
    assert 0 <= murmur2(data) < 2**32


def test_the_object_does_not_count_and_the_slash_does() -> None:
    assert partition_of("a", "b", 10**9) != partition_of("ab", "", 10**9)
    assert partition_of("a", "b", 1) == 0
