"""How many examples a test of random plays draws: a share of what the profile says, which `make check` has smaller.

The profiles are in the `conftest.py` of the whole repository: `house`, and `brief` for `make check`.
"""

from hypothesis import settings


def examples(share: float) -> int:
    """For `max_examples`: with share 1.0 as many as a test that says no number, 100 in `make test`."""
    profile = settings.default
    assert profile is not None
    return max(1, round(profile.max_examples * share))
