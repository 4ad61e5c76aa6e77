"""A pytest plugin that turns off the garbage collector while tests are collected, because nothing that collecting
creates is garbage.

That saves a fifth of the time of collecting, and every worker collects all tests.
"""

import gc
from collections.abc import Iterator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Turns the garbage collector on again afterwards, but exempts the objects that exist by then."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()
