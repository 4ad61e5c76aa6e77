"""The answer to a publisher whose tenant is above its agreement: 429, and when to come back."""

from math import ceil

from aiohttp import web
from coldnotify_common.http.web import error_response
from coldnotify_common.tenancy.gate import GateRefused

TOO_MANY_REQUESTS = 429
_DIGITS = 3


def refusal(refused: GateRefused, outcome: str = "not published") -> web.Response:
    """{error, outcome, tenant, limit, allowed, measured, retry_after_s}; Retry-After in whole seconds, at least one."""
    words = f"{refused.limit} is {refused.allowed:g}; {refused.measured:.1f} were asked for"
    return _answer(refused, f"tenant {refused.tenant} is above its agreement: {words}", outcome)


def refusal_of_object(refused: GateRefused, missing: str) -> web.Response:
    """Returns the same for publishes of which one, of the object `missing`, would make one object too many."""
    return _answer(refused, refused.for_object(missing), "not published")


def _answer(refused: GateRefused, words: str, outcome: str) -> web.Response:
    # Rounded up: who comes back a moment too early is refused again.
    retry_after_s = ceil(refused.retry_after_s * 10**_DIGITS) / 10**_DIGITS
    response = error_response(
        TOO_MANY_REQUESTS,
        words,
        outcome=outcome,
        tenant=refused.tenant,
        limit=refused.limit,
        allowed=refused.allowed,
        measured=round(refused.measured, _DIGITS),
        retry_after_s=retry_after_s,
    )
    response.headers["Retry-After"] = str(max(1, ceil(retry_after_s)))
    return response
