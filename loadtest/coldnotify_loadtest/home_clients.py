"""Real clients, of the library for asyncio, in their own processes: each has a home, and knows the other gateways."""

import asyncio
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection as Pipe
from typing import Any

from coldnotify import Connection, Notification, State, aio
from coldnotify._core.settings import MoveTimes
from coldnotify_load.loaders import Loaders
from coldnotify_load.population import Population, merged

_ANSWER_S = 120.0


class HomeClientsError(Exception):
    """A process could not do what it was told."""


@dataclass(frozen=True)
class HomeShare:
    """The share of one process."""

    population: Population
    first: int
    last: int
    """Its clients are `first` to `last` - 1; the home of each is the address of its number, in turn."""
    addresses: tuple[tuple[str, int], ...]
    per_s: float
    """They connect so many a second."""
    home_first_s: float
    """A client away from home tries it after this, and a random time; then ever more seldom."""


@dataclass(frozen=True)
class WhereClients:
    """The places of clients, and counts of what they were told."""

    at: Counter[str]
    """Clients that are caught up, by their gateway's address."""
    away: int
    """The number of those that are not at home."""
    attempts: int
    """Connections that were begun."""
    told: int
    disordered: int
    """Notifications that were not newer than the one before."""
    errors: Counter[str]
    """Kinds of errors that clients reported."""
    newest: dict[int, Counter[int]]
    """By block, how many clients have which version as their newest."""

    @property
    def current(self) -> int:
        """The number of clients that are caught up."""
        return self.at.total()


def _together(some: Sequence[WhereClients]) -> WhereClients:
    return WhereClients(
        sum((one.at for one in some), Counter()),
        sum(one.away for one in some),
        sum(one.attempts for one in some),
        sum(one.told for one in some),
        sum(one.disordered for one in some),
        sum((one.errors for one in some), Counter()),
        merged([one.newest for one in some]),
    )


class HomeClients(Loaders):
    """Clients with homes, over several processes."""

    def __init__(
        self,
        population: Population,
        clients: int,
        addresses: list[tuple[str, int]],
        *,
        per_s: float,
        home_first_s: float,
        processes: int = 2,
    ) -> None:
        """Starts them: they begin to connect."""
        bounds = [clients * i // processes for i in range(processes + 1)]
        shares = [
            HomeShare(population, bounds[i], bounds[i + 1], tuple(addresses), per_s / processes, home_first_s)
            for i in range(processes)
        ]
        super().__init__(_run, shares, "process of clients", HomeClientsError)

    @property
    def pids(self) -> list[int]:
        """The ids of its processes."""
        return [process.pid for process in self._processes if process.pid is not None]

    def look(self) -> WhereClients:
        """Returns where all of them are. Raises HomeClientsError."""
        self.tell("look")
        return _together([one for one in self.answers(_ANSWER_S) if isinstance(one, WhereClients)])

    def wait(self, condition: Callable[[WhereClients], bool], timeout_s: float, what: str) -> WhereClients:
        """Returns where they are once that fulfils the condition. Raises HomeClientsError, naming `what`."""
        until_s = time.monotonic() + timeout_s
        while not condition(found := self.look()):
            if time.monotonic() > until_s:
                raise HomeClientsError(f"{what}: not within {timeout_s:g} s; {found}")
            time.sleep(0.2)
        return found


class _Loop(asyncio.SelectorEventLoop):
    """Counts the connections that are begun."""

    begun = 0

    async def create_connection(self, *arguments: Any, **options: Any) -> Any:
        self.begun += 1
        return await super().create_connection(*arguments, **options)


class _Client:
    def __init__(self, share: HomeShare, number: int, errors: Counter[str]) -> None:
        population = share.population
        self.block = population.block_of(number)
        self.newest = self.told = self.disordered = 0
        addresses = [f"{host}:{port}" for host, port in share.addresses]
        self.home = addresses.pop(number % len(addresses))
        self.notify = aio.Notify(
            population.domain,
            population.group(self.block),
            population.client(number),
            State(None),
            Connection(addresses, home=self.home, keepalive_s=population.keepalive_s),
            on_error=lambda error: errors.update([type(error).__name__]),
        )
        times = MoveTimes(home_first_s=share.home_first_s)
        self.notify._settings = replace(self.notify._settings, move_times=times)
        for name in population.objects(self.block):
            self.notify.register(name).subscribe(self._tell)

    def _tell(self, notification: Notification) -> None:
        if notification.version is None:
            return
        self.told += 1
        self.disordered += notification.version <= self.newest
        self.newest = max(self.newest, notification.version)

    @property
    def at(self) -> str | None:
        """The address of its gateway, if it is caught up."""
        status = self.notify.status
        return str(status.address) if status.caught_up else None


async def _serve(share: HomeShare, pipe: Pipe) -> None:
    loop, orders, errors = asyncio.get_running_loop(), asyncio.Queue[object](), Counter[str]()
    assert isinstance(loop, _Loop)
    loop.add_reader(pipe.fileno(), lambda: orders.put_nowait(_order(pipe)))
    clients = [_Client(share, number, errors) for number in range(share.first, share.last)]
    begun_s = time.monotonic()

    async def connect() -> None:
        for count, client in enumerate(clients):
            await asyncio.sleep(max(0.0, begun_s + count / share.per_s - time.monotonic()))
            await client.notify.connect()

    connecting = asyncio.create_task(connect())
    while await orders.get() is not None:
        places = [(at, client.home) for client in clients if (at := client.at) is not None]
        found = WhereClients(
            Counter(at for at, _ in places),
            sum(at != home for at, home in places),
            loop.begun,
            sum(client.told for client in clients),
            sum(client.disordered for client in clients),
            errors,
            merged([{client.block: Counter([client.newest])} for client in clients]),
        )
        pipe.send(found)
    loop.remove_reader(pipe.fileno())
    connecting.cancel()


def _order(pipe: Pipe) -> object:
    try:
        return pipe.recv()
    except EOFError:
        return None


def _run(share: HomeShare, pipe: Pipe) -> None:
    # A line for each of hundreds of clients that cannot connect would be an additional load.
    logging.getLogger("coldnotify").setLevel(logging.CRITICAL)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    with asyncio.Runner(loop_factory=_Loop) as runner:
        runner.run(_serve(share, pipe))
