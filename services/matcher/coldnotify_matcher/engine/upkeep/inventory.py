"""Holdings of each domain in a partition: objects, live clients, registrations. Agreements of tenants need them."""

from typing import NamedTuple

from coldnotify_matcher.engine.partition_state import PartitionState


class DomainHolding(NamedTuple):
    """Holdings of one domain."""

    objects: int = 0
    """Objects that are published, and not deleted."""
    clients: int = 0
    """Clients with a session now."""
    registrations: int = 0
    """Registrations of all clients, online or not."""


class Inventory:
    """Reports the holdings. They are counted as they come and go, so a report takes as many steps as there are
    domains."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def look(self) -> dict[str, DomainHolding]:
        """Returns the present holdings by domain, without empty ones."""
        objects, tallies = self._state.objects.there, self._state.tallies
        found = {}
        for domain in objects.keys() | tallies.keys():
            tally = tallies.get(domain)
            clients, registrations = (0, 0) if tally is None else (tally.clients, tally.registrations)
            if (holding := DomainHolding(objects.get(domain, 0), clients, registrations)) != _NOTHING:
                found[domain] = holding
        return found


_NOTHING = DomainHolding()
