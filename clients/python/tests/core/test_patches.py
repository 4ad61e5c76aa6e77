"""Patches: checked as the service checks them, and put together."""

import json

import pytest
from coldnotify._core.publishing.patches import KEYS_MAX, PATCH_BYTES_MAX, TEXT_BYTES_MAX, composed, encode_patch
from coldnotify_schemas import description_patches, descriptions
from coldnotify_schemas.descriptions import merge_patch

MANY = [f"a{number}" for number in range(65)]


def test_the_limits_are_the_services() -> None:
    assert (descriptions.KEYS_MAX, descriptions.TEXT_BYTES_MAX) == (KEYS_MAX, TEXT_BYTES_MAX)
    assert description_patches.PATCH_BYTES_MAX == PATCH_BYTES_MAX


def test_two_together_do_what_both_do() -> None:
    first, second = {"a": 1, "b": None, "c": "x"}, {"a": None, "c": "y", "d": True}
    both = composed(encode_patch(first), encode_patch(second))
    assert both is not None
    start = {"a": 0, "b": 2, "e": 5}
    assert merge_patch(start, json.loads(both)) == merge_patch(merge_patch(start, first), second)
    assert composed("", both) == composed(both, "") == both


def test_two_that_are_too_long_together_stay_two() -> None:
    def part(letter: str) -> str:
        return encode_patch({f"{letter}{number}": "x" * 250 for number in range(30)})

    more = composed(part("a"), part("b"))
    assert more is not None
    assert composed(more, part("c")) is None


@pytest.mark.parametrize(
    "patch",
    [
        *(None, [1], {1: 2}, {"a": object()}, {"a": [1]}, {"1": 1}, {"a": "x" * 257}, {"a": float("nan")}),
        *(
            {"a": "\ud800"},
            {f"a{number}": 1 for number in range(65)},
            {f"a{number}": "x" * 256 for number in range(64)},
        ),
    ],
)
def test_a_wrong_one_is_told(patch: object) -> None:
    with pytest.raises(ValueError, match=r"^description: "):
        encode_patch(patch)  # type: ignore[arg-type]
