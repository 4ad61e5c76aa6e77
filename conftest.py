"""For every test directory: a real Kafka broker for each worker, topics or stacks on it, Hypothesis without a clock.

A test that stops, cuts, suspends or configures Kafka takes `own_kafka`, or starts another one, and says `own_broker`.
"""

import os
import signal
from collections.abc import Iterator

import hypothesis
import pytest
from coldnotify_kafka.broker import EmbeddedBroker
from coldnotify_testkit.kafka import broker, reset_topics
from coldnotify_testkit.stack import Stacks

# A shell has what it starts in the background ignore Ctrl-C, and so all that the tests start, some to interrupt it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A test's broker lives for seconds: Java's second compiler would cost it more than it gives.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")

# In this order: which tests come first depends on what they need.
pytest_plugins = [f"coldnotify_testkit.{name}" for name in ("order", "needs", "costs", "collecting")]

# An example that takes long is no finding: others may keep the machine busy.
hypothesis.settings.register_profile("house", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
# For `make check`: fewer draws of each, for an answer within a minute.
hypothesis.settings.register_profile("brief", hypothesis.settings.get_profile("house"), max_examples=20)
hypothesis.settings.load_profile("house")


@pytest.fixture(autouse=True)
def _environment_as_before() -> Iterator[None]:
    """A test that leaves another environment behind fails, not the one that finds it."""
    before = dict(os.environ)
    yield
    changed = {n for n in before.keys() | os.environ.keys() if before.get(n) != os.environ.get(n)}
    assert not changed - {"PYTEST_CURRENT_TEST"}, "the environment is not as before"


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A running broker, shared by all tests of the run; `kafka.bootstrap` is its address. It begins without topics."""
    with broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running


@pytest.fixture
def fresh_kafka(kafka: EmbeddedBroker) -> EmbeddedBroker:
    """The shared broker with all of ColdNotify's topics, empty; those that were not are made anew, with other ids."""
    reset_topics(kafka.bootstrap, keep_empty=True)
    return kafka


@pytest.fixture(scope="session")
def stacks(kafka: EmbeddedBroker) -> Stacks:
    """Starts stacks in the shared broker, each under a prefix of its own."""
    return Stacks(kafka.bootstrap)


@pytest.fixture(scope="module")
def _own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    with broker(tmp_path_factory.mktemp("own-kafka")) as running:
        yield running


@pytest.fixture
def own_kafka(_own_broker: EmbeddedBroker) -> EmbeddedBroker:
    """A broker of this module's tests alone, with empty topics, as `fresh_kafka`. They say `own_broker`."""
    reset_topics(_own_broker.bootstrap, keep_empty=True)
    return _own_broker
