"""All of ColdNotify, as `coldnotify up` runs it."""

from collections.abc import Iterator

import pytest
from coldnotify_testkit.stack import Up, running


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running, shared by the tests that harm nobody; each uses names of its own."""
    settings = {
        # Pages come from origins of their own, at ports that are not known yet.
        "gateway_web_origins": "*",
        # A busy machine must not make an outcome unknown.
        "http_outcome_timeout_s": "10",
    }
    with running(tmp_path_factory.mktemp("up"), **settings) as one:
        yield one
