"""Which texts are trace contexts, and which of them are worth carrying on."""

import pytest
from coldnotify_schemas.traceparent import is_sampled, is_traceparent, sampled_in

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{SPAN}-01", f"00-{TRACE}-{SPAN}-00"


@pytest.mark.parametrize("text", [SAMPLED, UNSAMPLED, f"01-{TRACE}-{SPAN}-03-later"])
def test_a_valid_trace_context_is_recognised(text: str) -> None:
    assert is_traceparent(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        SAMPLED + "-more",
        SAMPLED.upper(),
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}-0g",
        f"00-{TRACE}-{SPAN}-01\n",
        f"01-{TRACE}-{SPAN}-01-{'x' * 1000}",
    ],
)
def test_invalid_traceparents_are_rejected(text: str) -> None:
    assert not is_traceparent(text)
    assert sampled_in([("traceparent", text.encode())]) == ""


def test_only_sampled_contexts_are_passed_on() -> None:
    assert (is_sampled(SAMPLED), is_sampled(UNSAMPLED)) == (True, False)
    assert sampled_in([("other", b"x"), ("traceparent", SAMPLED.encode())]) == SAMPLED
    assert sampled_in([("traceparent", SAMPLED)]) == SAMPLED
    assert sampled_in([("traceparent", f"01-{TRACE}-{SPAN}-03-later")]) == f"01-{TRACE}-{SPAN}-03"
    for value in (UNSAMPLED.encode(), None, b"\xff\xfe", b""):
        assert sampled_in([("traceparent", value)]) == ""
    assert sampled_in([]) == ""
