"""How much each domain has in a partition: objects, live clients, registrations. For what tenants agreed to."""

from typing import NamedTuple

from coldnotify_matcher.engine.partition_state import PartitionState


class DomainHolding(NamedTuple):
    """Of one domain."""

    objects: int = 0
    """Published, and not deleted."""
    clients: int = 0
    """With a session now."""
    registrations: int = 0
    """Of all clients, online or not."""


class Inventory:
    """Takes stock. All of it is counted as it comes and goes, so a look costs as many steps as there are domains."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def look(self) -> dict[str, DomainHolding]:
        """By domain, as of now; domains that have nothing are left out."""
        objects, tallies = self._state.objects.there, self._state.tallies
        found = {}
        for domain in objects.keys() | tallies.keys():
            tally = tallies.get(domain)
            clients, registrations = (0, 0) if tally is None else (tally.clients, tally.registrations)
            if (holding := DomainHolding(objects.get(domain, 0), clients, registrations)) != _NOTHING:
                found[domain] = holding
        return found


_NOTHING = DomainHolding()
