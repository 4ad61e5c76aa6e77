"""Numbers in a query are those that are allowed, and any other text names its parameter and what it may be."""

from math import inf

import pytest
from coldnotify_common.http.query_numbers import seconds, whole_number
from coldnotify_common.http.web import BadRequest


def test_the_ends_are_allowed() -> None:
    assert whole_number("limit", "1", minimum=1, maximum=1000) == 1
    assert whole_number("limit", "1000", minimum=1, maximum=1000) == 1000
    assert whole_number("offset", str((1 << 63) - 1), maximum=(1 << 63) - 1) == (1 << 63) - 1
    assert whole_number("offset", "007", maximum=9) == 7
    assert (seconds("wait_s", "0", maximum=10), seconds("wait_s", "10", maximum=10)) == (0.0, 10.0)
    assert seconds("wait_s", "1e9", maximum=inf) == 1e9


@pytest.mark.parametrize("text", ["0", "-1", "1001", "x", "", "1.5", "1_0", "+1", " 1", "9" * 5000, "²", "١"])
def test_any_other_whole_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^limit: .* is not a whole number from 1 to 1000$") as caught:
        whole_number("limit", text, minimum=1, maximum=1000)
    assert caught.value.field == "limit"
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "text", ["-1", "10.01", "nan", "inf", "x", "", "9" * 5000, "²", "٣", "1_0", " 1", "1e999", ".", "1e9999"]
)
def test_any_other_time_is_refused_by_name(text: str) -> None:
    with pytest.raises(BadRequest, match=r"^wait_s: .* is not a number from 0 to 10$") as caught:
        seconds("wait_s", text, maximum=10)
    assert len(str(caught.value)) < 200
