import pytest
from coldnotify_common.http.list_pages import LIMIT_DEFAULT, PageRequest, page, page_request
from coldnotify_common.http.web import BadRequest
from coldnotify_schemas.protocol import ITEMS_PER_PAGE_MAX
from hypothesis import given
from hypothesis import strategies as st


@given(st.sets(st.text(max_size=5), max_size=30), st.integers(1, 7))
def test_pages_one_after_another_are_the_whole_list_once(names: set[str], limit: int) -> None:
    keys = sorted(names)
    seen: list[object] = []
    after: str | None = None
    for _ in range(len(keys) + 1):
        part = page(keys, limit, after)
        assert len(part["items"]) <= limit
        seen += part["items"]
        after = part["next"]
        if after is None:
            break
    assert seen == keys


def test_a_key_that_is_gone_meanwhile_does_not_matter() -> None:
    assert page(["a", "c", "d"], 1, "b") == {"items": ["c"], "next": "c"}


def test_without_parameters_the_first_page_is_meant() -> None:
    assert page_request({}) == PageRequest(LIMIT_DEFAULT, None)


def test_the_limits_ends_are_allowed() -> None:
    assert page_request({"limit": str(ITEMS_PER_PAGE_MAX), "after": "x"}) == PageRequest(ITEMS_PER_PAGE_MAX, "x")
    assert page_request({"limit": "1"}).limit == 1


@pytest.mark.parametrize("limit", ["0", "-1", "1001", "x", "", "1.5", "9" * 5000, "²"])
def test_a_bad_limit_is_named(limit: str) -> None:
    with pytest.raises(BadRequest, match=r"^limit: ") as caught:
        page_request({"limit": limit})
    assert caught.value.field == "limit"
