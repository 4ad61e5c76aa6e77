"""OutletTurns: waiting and reading in turns, which every outlet does; each outlet says what one turn is."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection

from coldnotify_common.kafka.kafka_clients import KafkaUnavailable

from coldnotify_auto.newest_log import NewestByKey, of_domain, read_newest
from coldnotify_auto.settings import AutoSettings
from coldnotify_auto.source import SourceFailed

TURN_S = 0.1
"""The longest turn of a wait."""


class OutletTurns(ABC):
    """The waits and the reading that outlets have in common."""

    _settings: AutoSettings

    @abstractmethod
    def _turn(self, wait_s: float) -> None:
        """Waits so long at most, and does what cannot wait longer. Raises SourceFailed, RunStopped."""

    def newest(self, domains: Collection[str]) -> NewestByKey:
        """Returns the newest versions of the domains' objects. Raises SourceFailed, RunStopped."""
        try:
            return read_newest(self._settings, of_domain(domains), lambda: self._turn(0))
        except KafkaUnavailable as error:
            raise SourceFailed(str(error)) from None

    def wait(self, seconds: float) -> None:
        """Waits in turns, in one at least. Raises SourceFailed, RunStopped."""
        end_s = time.monotonic() + seconds
        self._turn(min(seconds, TURN_S))
        while (left_s := end_s - time.monotonic()) > 0:
            self._turn(min(left_s, TURN_S))
