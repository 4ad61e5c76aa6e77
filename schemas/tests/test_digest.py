"""The digest of a set, and names' CRC-32s."""

import hashlib
import zlib

from coldnotify_schemas.digest import MODULUS, digest, object_crc, object_digest, sets_digest
from hypothesis import given
from hypothesis import strategies as st

NAMES = st.text(min_size=1, max_size=40).filter(lambda name: name.isprintable())


def test_the_empty_sets_is_0() -> None:
    assert digest([]) == 0


def test_the_digest_is_made_of_sha_256() -> None:
    expected = sum(int.from_bytes(hashlib.sha256(n.encode()).digest()[:8], "little") for n in ("a", "ß")) % 2**64
    assert digest(["a", "ß"]) == expected


@given(st.sets(NAMES, max_size=20), NAMES)
def test_the_digest_is_updated_object_by_object(names: set[str], name: str) -> None:
    without = names - {name}
    added = (digest(without) + object_digest(name)) % MODULUS
    assert added == digest({*without, name})
    assert (added - object_digest(name)) % MODULUS == digest(without)


def test_swapped_suffixes_do_not_collide() -> None:
    """They do for a sum of CRC-32s, which is affine."""
    assert digest(["a/1", "b/2"]) != digest(["a/2", "b/1"])


def test_the_digest_of_several_sets_knows_which_object_is_in_which() -> None:
    here, there, nowhere = digest(["a"]), digest(["b"]), digest([])
    assert sets_digest([(1, here), (2, there)]) == sets_digest([(2, there), (1, here)])
    assert sets_digest([(1, here), (2, there)]) != sets_digest([(1, there), (2, here)])
    assert sets_digest([(1, here), (2, nowhere)]) != sets_digest([(1, here)])
    assert sets_digest([]) == 0
    hashed = hashlib.sha256(bytes([1, *[0] * 7]) + here.to_bytes(8, "little")).digest()
    assert sets_digest([(1, here)]) == int.from_bytes(hashed[:8], "little")


@given(NAMES)
def test_the_crc_is_zlibs(name: str) -> None:
    assert object_crc(name) == zlib.crc32(name.encode())
