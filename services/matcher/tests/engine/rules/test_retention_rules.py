"""What an operator says of retention: periods by domain, and what is no such text."""

import pytest
from coldnotify_matcher.engine import RetentionRules, parse_retention

DAY_MS = 86_400_000


def test_periods_by_domain() -> None:
    said = parse_retention(" animal.observer=30d, lab=12h,quick=10s,short=2m,*=never,", deleted_ms=DAY_MS)
    assert said == RetentionRules(
        {"animal.observer": 30 * DAY_MS, "lab": DAY_MS // 2, "quick": 10_000, "short": 120_000}, 0, DAY_MS
    )
    assert [said.of(domain, deleted=False) for domain in ("lab", "other")] == [DAY_MS // 2, 0]


def test_all_others() -> None:
    said = parse_retention("*=1d,kept=never")
    assert (said.of("any", deleted=False), said.of("kept", deleted=False)) == (DAY_MS, 0)


@pytest.mark.parametrize(
    ("text", "deleted_ms", "of_deleted"),
    [("", 0, 0), ("", 5000, 5000), ("d=20s", 5000, 5000), ("d=20s", 50_000, 20_000), ("d=20s", 0, 20_000)],
)
def test_what_is_deleted_goes_as_soon_as_either_says_so(text: str, deleted_ms: int, of_deleted: int) -> None:
    said = parse_retention(text, deleted_ms=deleted_ms)
    assert said.of("d", deleted=True) == of_deleted
    assert said.removes is bool(of_deleted)


@pytest.mark.parametrize(
    "text",
    [
        "30d",
        "*=30",
        "*=1.5d",
        "*=9s",
        "*=101w",
        "*=40000d",
        "*=99999999999d",
        "a b=1d",
        "*=1d,*=2d",
        "*=-1d",
        "*=0",
        "*=",
    ],
)
def test_what_is_no_such_text_is_refused_with_the_entry(text: str) -> None:
    with pytest.raises(ValueError, match=r"\W"):
        parse_retention(text)
