"""Two installations in one Kafka, each under its own schedule, with the same domains, clients and objects.

The first owns the brokers and all faults that concern Kafka. The second lives through those, and has faults of its own.
Each is judged by its own history and topics: what crosses from one to the other breaks a promise there.
"""

import threading
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.proxy import Network

from coldnotify_fault.brokers import Brokers
from coldnotify_fault.campaign import CALM_S, Campaign, NotStarted, SeedOutcome, logged
from coldnotify_fault.schedule import NEED_KAFKA, TAKE_KAFKA, CampaignSchedule, FaultKind

PREFIX = "beside."
"""The second installation's."""
SEED_BESIDE = 1_000_000
"""Added to the first one's seed."""
_JOIN_S = 60.0


def kinds_beside(kinds: Collection[FaultKind]) -> list[FaultKind]:
    """Returns the kinds of fault of the second installation: those that leave Kafka alone."""
    return [kind for kind in kinds if kind not in NEED_KAFKA | TAKE_KAFKA]


def run(
    schedule: CampaignSchedule,
    beside: CampaignSchedule,
    directory: Path,
    stop: threading.Event,
    *,
    calm_s: float = CALM_S,
) -> list[SeedOutcome]:
    """Runs both, with all files in `directory`, which must not exist yet. `stop` ends them early.

    Raises NotStarted, OSError, and InterruptedError if they were stopped.
    """
    second = directory / PREFIX.rstrip(".")
    second.mkdir(parents=True)
    with ExitStack() as stack:
        stack.enter_context(logged(directory / "publishers.log"))
        network = stack.enter_context(Network())
        brokers = Brokers(directory / "kafka", schedule.brokers, network)
        first = Campaign(schedule, directory, stack, stop, network, brokers)
        first.start()
        other = _Beside(beside, second, brokers, calm_s)
        other.start()
        try:
            other.wait_started()
            first.do_steps()
            first.heal_all()
            other.kafka_is_whole.set()
            return [first.finish(calm_s), other.outcome()]
        finally:
            other.end()


class _Beside(threading.Thread):
    """The second installation, in a thread of its own."""

    def __init__(self, schedule: CampaignSchedule, directory: Path, brokers: Brokers, calm_s: float) -> None:
        super().__init__(name="beside", daemon=True)
        self._schedule, self._directory, self._brokers, self._calm_s = schedule, directory, brokers, calm_s
        self._stop_this = threading.Event()
        self.kafka_is_whole = threading.Event()
        """Set once no fault of the first one concerns Kafka any more: only then may there be calm."""
        self._started = threading.Event()
        self._result: SeedOutcome | Exception | None = None

    def run(self) -> None:
        """The thread."""
        try:
            with ExitStack() as stack:
                network = stack.enter_context(Network())
                campaign = Campaign(
                    self._schedule,
                    self._directory,
                    stack,
                    self._stop_this,
                    network,
                    self._brokers,
                    TopicNames(PREFIX),
                    own_brokers=False,
                )
                campaign.start()
                self._started.set()
                campaign.do_steps()
                while not self.kafka_is_whole.wait(0.1):
                    if self._stop_this.is_set():
                        raise InterruptedError("stopped")
                campaign.heal_all()
                self._result = campaign.finish(self._calm_s)
        except Exception as error:
            self._result = error
        finally:
            self._started.set()

    def wait_started(self) -> None:
        """Returns once all of it is ready, or has failed: until then no fault concerns Kafka."""
        self._started.wait()

    def outcome(self) -> SeedOutcome:
        """Waits for the result. Raises what it has failed with."""
        self.join(self._schedule.seconds + 3 * self._calm_s + _JOIN_S)
        if isinstance(self._result, Exception):
            raise self._result
        if self._result is None:
            raise NotStarted(f"the installation beside did not end (see its logs in {self._directory})")
        return self._result

    def end(self) -> None:
        """Stops it, before the brokers go."""
        self._stop_this.set()
        self.join(_JOIN_S)
