"""How many requests of a session are passed on."""

from coldnotify_gateway.core import Limits
from coldnotify_gateway.core.quota import Quota

LIMITS = Limits(requests_unanswered_max=2, requests_forgotten_s=30, sync_chunks_max=3, sync_chunks_s=30)


def test_so_many_requests_wait_for_an_answer():
    quota = Quota(0.0)
    assert [quota.take_request(100.0, LIMITS) for _ in range(3)] == [True, True, False]
    quota.answered()
    assert [quota.take_request(101.0, LIMITS) for _ in range(2)] == [True, False]
    assert not quota.take_request(131.0, LIMITS)
    assert quota.take_request(131.1, LIMITS), "its client asks again"


def test_an_answer_too_many_is_no_credit():
    quota = Quota(0.0)
    quota.answered()
    assert [quota.take_request(100.0, LIMITS) for _ in range(3)] == [True, True, False]


def test_a_session_in_sync_begins_anew():
    quota = Quota(0.0)
    for _ in range(2):
        quota.take_request(100.0, LIMITS)
    quota.forgive()
    assert quota.take_request(100.0, LIMITS)


def test_so_many_chunks_are_passed_on_in_a_while():
    quota = Quota(100.0)
    assert [quota.take_chunk(130.0, LIMITS) for _ in range(4)] == [True, True, True, False]
    assert [quota.take_chunk(130.1, LIMITS) for _ in range(4)] == [True, True, True, False]
