"""All of ColdNotify, as `coldnotify up` runs it."""

from collections.abc import Iterator

import pytest
from coldnotify_testkit.stack import Up, running


@pytest.fixture(scope="session")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Everything running, shared by the tests that harm nobody; each uses names of its own."""
    with pytest.MonkeyPatch.context() as environment:
        # Pages come from origins of their own, at ports that are not known yet.
        environment.setenv("COLDNOTIFY_GATEWAY_WEB_ORIGINS", "*")
        # A busy machine must not make an outcome unknown.
        environment.setenv("COLDNOTIFY_HTTP_OUTCOME_TIMEOUT_S", "10")
        with running(tmp_path_factory.mktemp("up")) as one:
            yield one
