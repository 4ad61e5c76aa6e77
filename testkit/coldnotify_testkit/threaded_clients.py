"""For tests: threaded clients of a service in memory, which are quick to come back and to try again."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coldnotify import Connection, Notify, State
from coldnotify.testing import FakeService

DOMAIN, GROUP, CLIENT = "animal.observer", "region-1", "observer-1"
KEY = (DOMAIN, GROUP, CLIENT)
LIMIT_S = 60
"""No promise: only how long a test waits before it fails."""


@contextmanager
def threaded_clients(directory: Path, service: FakeService) -> Iterator[Callable[..., Notify]]:
    """Yields a function that makes clients of this service, with their state in the directory. At the end it
    disconnects them all.
    """
    made: list[Notify] = []

    def make(
        *,
        state: State | None = None,
        client_id: str = CLIENT,
        address: Any = None,
        on_error: Callable[[Exception], object] | None = None,
        tries_max: int = 5,
        **how: Any,
    ) -> Notify:
        how = {"backoff_min_s": 0.05, "ack_delay_s": 0.01, "address_rest_s": 0.2} | how
        connection = Connection(address or f"127.0.0.1:{service.port}", **how)
        notify = Notify(
            DOMAIN,
            GROUP,
            client_id,
            state or State(directory / "state.json"),
            connection,
            on_error=on_error,
            tries_max=tries_max,
            retry_min_s=0.01,
            save_interval_s=0.01,
        )
        made.append(notify)
        return notify

    yield make
    for notify in made:
        notify.disconnect(timeout_s=0.1)
