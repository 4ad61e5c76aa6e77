import pytest
from coldnotify_hooks.core.receiver_answers import RETRY_AFTER_S_MAX, Meaning, Reply, reply_of

NOW_S = 1_000_000_000.0  # Sun, 09 Sep 2001 01:46:40 GMT


@pytest.mark.parametrize(
    ("status", "meaning"),
    [
        *((status, Meaning.APPLIED) for status in (200, 204, 299)),
        *((status, Meaning.FAILED) for status in (199, 301, 308, 400, 404, 500)),
        *((status, Meaning.AWAY) for status in (429, 503)),
        (410, Meaning.GONE),
    ],
)
def test_a_status_has_a_meaning(status, meaning):
    assert reply_of(status, None, NOW_S) == Reply(meaning, f"status {status}")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120),
        (" 0 ", 0),
        ("Sun, 09 Sep 2001 01:48:40 GMT", 120),
        ("Sun, 09 Sep 2001 01:40:00 GMT", 0),
        ("99999999", RETRY_AFTER_S_MAX),
        (5000 * "9", RETRY_AFTER_S_MAX),
        ("Sun, 09 Sep 2031 01:40:00 GMT", RETRY_AFTER_S_MAX),
        ("-1", None),
        ("soon", None),
        ("", None),
        ("²", None),
        (None, None),
    ],
)
def test_retry_after_is_a_number_or_a_date(text, seconds):
    assert reply_of(429, text, NOW_S).retry_after_s == seconds
    assert reply_of(503, text, NOW_S).retry_after_s == seconds
    assert reply_of(500, text, NOW_S).retry_after_s is None
