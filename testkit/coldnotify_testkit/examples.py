"""Determines how many examples a test of random plays draws: a share of the number in the profile, which `make check`
lowers.

The profiles are in the `conftest.py` of the whole repository: `house`, and `brief` for `make check`.
"""

from hypothesis import settings


def examples(share: float) -> int:
    """Returns a value for `max_examples`. Share 1.0 gives the default of a test, which is 100 in `make test`."""
    profile = settings.default
    assert profile is not None
    return max(1, round(profile.max_examples * share))
