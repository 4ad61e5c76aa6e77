"""A number that a stranger wrote is one of ASCII digits within its bounds, or none; nothing is raised."""

import pytest
from coldnotify_schemas.whole_numbers import WHOLE_NUMBER_MAX, whole_number


def test_the_ends_are_numbers() -> None:
    assert [whole_number(text, 9, minimum=1) for text in ("0", "1", "009", "10")] == [None, 1, 9, None]
    assert whole_number(b"12", 99) == 12
    assert whole_number(str(WHOLE_NUMBER_MAX)) == WHOLE_NUMBER_MAX
    assert whole_number(str(WHOLE_NUMBER_MAX + 1)) is None


@pytest.mark.parametrize(
    "text",
    ["", "²", "١", "１", "+1", "-1", " 1", "1 ", "1_0", "1.0", "1e3", "nan", "inf", "0x1", "1\n", "9" * 5000, "\ud800"],
)
def test_other_texts_are_not_whole_numbers(text: str) -> None:
    assert whole_number(text) is None
    assert whole_number(text.encode(errors="surrogatepass")) is None
