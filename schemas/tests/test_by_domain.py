"""What is said of each domain in one setting."""

import pytest
from coldnotify_schemas.by_domain import ALL_OTHERS, entries_by_domain


def test_each_entry_is_a_domain_and_its_value() -> None:
    assert list(entries_by_domain(" a = 1, ,b.c=x=y,*=", "n")) == [
        ("a = 1", "a", "1"),
        ("b.c=x=y", "b.c", "x=y"),
        ("*=", ALL_OTHERS, ""),
    ]
    assert list(entries_by_domain("", "n")) == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a", "'a' is not domain=n"),
        ("a=1,b", "'b' is not domain=n"),
        ("a=1,a=2", "'a=2': a is there twice"),
        ("*=1,*=1", r"'\*=1': \* is there twice"),
        ("a b=1", "'a b=1': domain: "),
        ("=1", "'=1': domain: "),
    ],
)
def test_a_wrong_entry_is_named(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        list(entries_by_domain(text, "n"))
