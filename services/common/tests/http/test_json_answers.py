"""Whole numbers that a page's JSON.parse reads wrong stand in answers as texts, too."""

import json

import pytest
from coldnotify_common.http.json_answers import EXACT_MAX, encoded, is_text, json_answer, with_texts
from hypothesis import given
from hypothesis import strategies as st

LARGE = 2**60 + 1


@pytest.mark.parametrize("number", [EXACT_MAX + 1, -EXACT_MAX - 1, LARGE, 2**63 - 1])
def test_above_2_to_the_53_a_text_stands_beside_it(number: int) -> None:
    assert with_texts({"version": number}) == {"version": number, "version_text": str(number)}
    assert json.loads(encoded({"a": [{"b": {"offset": number}}]})) == {
        "a": [{"b": {"offset": number, "offset_text": str(number)}}]
    }


@pytest.mark.parametrize(
    "said", [{"version": EXACT_MAX}, {"version": -EXACT_MAX}, {"version": None, "a": True}, [LARGE]]
)
def test_up_to_there_nothing_is_added(said: object) -> None:
    assert with_texts(said) == said


def test_what_publishers_have_written_stays_as_it_is() -> None:
    said = {"payload": {"version": LARGE}, "description": {"fps": LARGE}, "version": LARGE}
    assert with_texts(said) == {**said, "version_text": str(LARGE)}


def test_what_was_said_already_is_said_once() -> None:
    once = with_texts({"items": [{"version": LARGE}]})
    assert with_texts(once) == once


def test_an_answer_says_them_and_keeps_its_status_and_headers() -> None:
    answer = json_answer({"newest": {"version": LARGE}}, status=409, headers={"Retry-After": "1"})
    assert json.loads(answer.text or "") == {"newest": {"version": LARGE, "version_text": str(LARGE)}}
    assert (answer.status, answer.headers["Retry-After"], answer.content_type) == (409, "1", "application/json")


def test_a_text_is_one_only_beside_its_number() -> None:
    assert is_text("version_text", ["version", "version_text"])
    assert not is_text("version_text", ["version_text"])
    assert not is_text("version", ["version"])


NAMES = st.sampled_from(["version", "offset", "items", "payload", "words"])
SAID = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text(max_size=3)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(NAMES, inner, max_size=3)),
    max_leaves=10,
)


@given(SAID)
def test_whoever_reads_doubles_has_every_number_of_a_field(said: object) -> None:
    """JSON.parse as pages have it: what it reads, and the texts, say what was said."""

    def exact(read: object, meant: object) -> None:
        if isinstance(meant, dict):
            assert isinstance(read, dict)
            for name, value in meant.items():
                if isinstance(value, int) and not isinstance(value, bool):
                    assert int(str(read.get(f"{name}_text", read[name]))) == value
                elif name != "payload":
                    exact(read[name], value)
        elif isinstance(meant, list):
            assert isinstance(read, list)
            for one, other in zip(read, meant, strict=True):
                exact(one, other)

    exact(json.loads(encoded(said), parse_int=lambda text: int(float(text))), said)
