"""Of too many who say nothing, the oldest of the address that has most leaves."""

from collections import Counter

from coldnotify_common.addresses import subscriber
from coldnotify_common.security.places import Places
from hypothesis import given
from hypothesis import strategies as st

A, B, C = b"a", b"b", b"c"


def test_the_oldest_of_the_address_that_has_most_leaves_whoever_comes() -> None:
    places: Places[str] = Places(4)
    assert [places.add(one, A) for one in ("a1", "a2", "a3")] == [None, None, None]
    assert places.add("b1", B) is None
    assert places.add("c1", C) == "a1"
    assert places.add("a4", A) == "a2"
    assert places.add("b2", B) == "a3"
    assert places.add("b3", B) == "b1"
    assert sorted(places) == ["a4", "b2", "b3", "c1"]


def test_a_flood_of_one_address_never_drives_out_another_one() -> None:
    places: Places[object] = Places(2000)
    assert places.add("slow", subscriber("127.0.0.3")) is None
    flood = subscriber("127.0.0.2")
    assert "slow" not in [places.add(number, flood) for number in range(100_000)]
    assert "slow" in places
    assert len(places) == 2000


def test_an_ipv6_flood_that_changes_its_addresses_within_a_64_is_one() -> None:
    places: Places[object] = Places(10)
    places.add("slow", subscriber("2001:db8:2::1"))
    assert all(places.add(n, subscriber(f"2001:db8:1::{n:x}")) != "slow" for n in range(1, 1000))


def test_of_as_many_addresses_as_places_the_one_that_came_first_leaves() -> None:
    places: Places[int] = Places(3)
    assert [places.add(n, bytes([n])) for n in range(6)] == [None, None, None, 0, 1, 2]


def test_an_address_has_a_share_and_one_that_many_share_has_none() -> None:
    places: Places[str] = Places(10, 2)
    assert [places.add(one, A) for one in ("a1", "a2", "a3")] == [None, None, "a1"]
    assert [places.add(f"b{n}", B, shared=True) for n in range(8)] == [None] * 8
    assert places.add("c1", C) == "b0"
    assert (places.of(A), places.of(B), places.of(C)) == (2, 7, 1)


def test_who_takes_a_place_anew_is_the_youngest_and_may_have_another_address() -> None:
    places: Places[str] = Places(3)
    for one in ("a1", "a2"):
        places.add(one, A)
    places.add("a1", A)
    assert places.add("b1", B) is None
    assert places.add("c1", C) == "a2"
    places.add("b1", A)
    assert (places.of(A), places.of(B)) == (2, 0)
    places.discard("b1")
    places.discard("b1")
    assert sorted(places) == ["a1", "c1"]


class Plain:
    """The same, by counting all of them each time."""

    def __init__(self, number_max: int, of_address_max: int) -> None:
        self.max, self.of_address_max = number_max, of_address_max
        self.held: dict[int, bytes] = {}

    def add(self, one: int, address: bytes) -> int | None:
        self.held.pop(one, None)
        self.held[one] = address
        counts = Counter(self.held.values())
        if counts[address] > self.of_address_max:
            candidates = {address}
        elif len(self.held) > self.max:
            candidates = {a for a, count in counts.items() if count == max(counts.values())}
        else:
            return None
        self.leaving = {next(one for one, a in self.held.items() if a == address) for address in candidates}
        return -1


@given(
    st.lists(st.tuples(st.integers(0, 15), st.sampled_from([A, B, C, b"d"]), st.booleans()), max_size=200),
    st.integers(1, 8),
    st.integers(1, 8),
)
def test_it_is_what_counting_all_of_them_says(steps: list[tuple[int, bytes, bool]], most: int, of_address: int) -> None:
    places: Places[int] = Places(most, of_address)
    plain = Plain(most, of_address)
    for one, address, comes in steps:
        if comes:
            left = places.add(one, address)
            assert (left is None) == (plain.add(one, address) is None)
            if left is not None:
                assert left in plain.leaving
                del plain.held[left]
        else:
            places.discard(one)
            plain.held.pop(one, None)
        assert set(places) == set(plain.held)
        assert places._most == max(Counter(plain.held.values()).values(), default=0)
        assert {a: len(own) for a, own in places._by_address.items()} == Counter(plain.held.values())
