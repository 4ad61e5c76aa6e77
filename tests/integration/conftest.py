"""All of ColdNotify, as `coldnotify up` runs it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from coldnotify_testkit.browser import Browser, browser
from coldnotify_testkit.stack import Stacks, Up

_SETTINGS = {
    # Pages come from origins of their own, at ports that are not known yet.
    "gateway_web_origins": "*",
    # A busy machine must not make an outcome unknown.
    "http_look_timeout_s": "10",
}
_shared = ExitStack()
"""What ends the stack that tests share, while there is one."""
_up: list[Up] = []
_users: set[str] = set()
"""The modules with a test that wants it."""


@pytest.fixture(scope="session")
def _ends_before_kafka(stacks: Stacks) -> Iterator[Stacks]:
    """Ends the shared stack where it still runs at the end, or where tests were broken off."""
    yield stacks
    _end()


@pytest.fixture(scope="module")
def up(_ends_before_kafka: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Up:
    """Everything running, shared by the tests that harm nobody; each uses names of its own."""
    if not _up:
        _up.append(_shared.enter_context(_ends_before_kafka.running(tmp_path_factory.mktemp("up"), **_SETTINGS)))
        _up[0].shared = True
    return _up[0]


@pytest.fixture(scope="module")
def _chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A start of Chromium costs a core-second and more."""
    with browser(tmp_path_factory.mktemp("chromium") / "chromedriver.log") as one:
        yield one


@pytest.fixture
def window(_chromium: Browser) -> Browser:
    """A window of a real browser, that has nothing of the test before."""
    _chromium.start_over()
    return _chromium


def pytest_collection_finish(session: pytest.Session) -> None:
    """Notes who will want it: what is only deselected does not."""
    _users.update(_module(item) for item in session.items if "up" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """Ends it behind the last module in a row that wants it: at rest it takes a twentieth of a core."""
    try:
        return (yield)
    finally:
        if nextitem is not None and _module(nextitem) not in _users:
            _end()


def _end() -> None:
    _up.clear()
    _shared.close()


def _module(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]
