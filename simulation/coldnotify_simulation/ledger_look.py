"""The ledger, held against what callbacks have done: nobody has applied what no callback of his has returned from."""

from collections.abc import Iterable, Iterator

from coldnotify_matcher.engine.clients.clients import RegisteredClient as Known
from coldnotify_matcher.engine.objects.objects import Obj
from coldnotify_matcher.matcher_partition import MatcherPartition
from coldnotify_streams.core.partition_progress import OwningPhase

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.kafka import PARTITIONS
from coldnotify_simulation.matcher import Matcher
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.trace import Trace
from coldnotify_simulation.truth import Version


class LedgerLook:
    """Holds what applications have taken, and compares it with what partitions' owners report."""

    def __init__(self, matchers: Iterable[Matcher], trace: Trace) -> None:
        self._matchers = list(matchers)
        self._trace = trace
        self._turn = 0
        self._taken: dict[tuple[str, str], Version] = {}
        """By client and object's name, the highest version that a callback has returned from, in all its lives."""
        self.looks = 0
        """So often a registration was found applied, as it was."""

    def on_returned(self, client: str, name: str, version: Version) -> None:
        """A callback has returned from this version."""
        place = client, name
        self._taken[place] = max(version, self._taken.get(place, version))

    def look(self, clients: Iterable[SimulatedClient]) -> None:
        """Raises Broken if the ledger claims more than callbacks have done. Its answers about some
        are in the history.
        """
        self._note()
        wishes = {client.key: client.wish for client in clients}
        for known, obj in self._applied():
            if known.key in wishes and obj.name not in wishes[known.key]:
                continue  # its application wants it no more, which the service is to hear
            version = obj.incarnation, obj.version
            if self._taken.get((known.key, obj.name), (-1, -1)) < version:
                raise Broken(f"P2: the ledger says that {known.key} has applied {obj.name} {version}, which it has not")
            self.looks += 1

    def wrong_at_rest(self, online: Iterable[SimulatedClient]) -> list[str]:
        """Whom the ledger holds for one that has not taken something, though all have taken everything."""
        by_key = {client.key: client for client in online}
        return [
            f"P2: the ledger holds {len(known.unsettled)} registrations of {known.key} for unsettled"
            for partition in self._owned()
            for known in partition.engine.state.clients.values()
            if known.key in by_key and known.unsettled
        ]

    def _note(self) -> None:
        for partition in self._owned(between_steps=True):
            engine = partition.engine
            wanted = sorted({obj.key for client in engine.state.clients.values() for obj in client.objects()})
            if not wanted:
                continue
            self._turn += 1
            obj = engine.state.objects[wanted[self._turn % len(wanted)]]
            lacking = [
                client.key
                for client in engine.state.clients.values()
                if client.interested(obj) and (client.lacks(obj) or not client.tells_unsettled)
            ]
            if obj.version >= 0:
                self._trace.event(
                    "ledger",
                    asked=self._trace.now_us,
                    object=obj.key,
                    version=obj.version,
                    incarnation=obj.incarnation,
                    lacking=lacking,
                )

    def _applied(self) -> Iterator[tuple[Known, Obj]]:
        for partition in self._owned(between_steps=True):
            for known in partition.engine.state.clients.values():
                if not known.tells_unsettled:
                    continue
                for obj in known.objects():
                    if obj.version >= 0 and not known.published(obj) and not known.lacks(obj):
                        yield known, obj

    def _owned(self, *, between_steps: bool = False) -> Iterator[MatcherPartition]:
        """Yields the partitions of their owners. `between_steps`: those that would answer now; a question waits for the
        end of a step, which holds the worker's lock until all that it has handled is written."""
        for number in range(PARTITIONS):
            for matcher in self._matchers:
                # One that is stopped answers nobody: what it has handled and not written is not said.
                run = None if matcher.stopped else matcher.run
                partition = None if run is None else run.partitions.get(number)
                if (
                    partition is not None
                    and partition.phase is OwningPhase.OWNED
                    and run is not None
                    and run.group_has(number)
                ):
                    assert isinstance(partition, MatcherPartition)
                    if not (between_steps and run.steps):
                        yield partition
                    break
