"""Who may come back."""

from coldnotify_schemas.close_codes import CloseCode, may_come_back


def test_the_ranges() -> None:
    assert {code.name for code in CloseCode if not code.may_come_back} == {
        "PROTOCOL_ERROR",
        "FRAME_TOO_LARGE",
        "BAD_NAME",
        "UNSUPPORTED_PROTOCOL",
        "NOT_AUTHENTICATED",
        "NOT_ALLOWED",
    }


def test_unknown_codes_follow_their_range() -> None:
    assert may_come_back(63)
    assert not may_come_back(64)
    assert not may_come_back(1000)
