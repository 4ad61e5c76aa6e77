"""A slip in what queries are made of breaks a promise in a random schedule: P9, P2 for a member's version, or P5.

Each is a bug that somebody could well write: in the matcher's sets, its pages or its loading, or in the client.

Stands for: crowding
"""

import sys

import pytest
from coldnotify._core.delivery.queries import Queries
from coldnotify_matcher.engine.clients.memberships import Memberships
from coldnotify_matcher.engine.interests.by_query import canonical
from coldnotify_matcher.engine.interests.by_query.sets import QuerySet, QuerySets
from coldnotify_matcher.engine.telling.lacking import Lacked
from coldnotify_matcher.engine.telling.paging import Paging
from coldnotify_matcher.engine.writing.repairs import Repairs
from coldnotify_simulation.slips import Slip, find, run_alone

SLIPS = {
    "a difference is lost": Slip(
        QuerySet,
        "difference",
        "if change.offset <= cursor:",
        "if change.offset <= cursor + 1:",
        1,
    ),
    "a value is told before its object has entered": Slip(
        Queries,
        "is_blocked",
        "one.is_entering(name) and not one.parked",
        "one.is_entering(name) and one.parked",
        1,
    ),
    "what has entered comes without its value after a cut": Slip(
        Lacked,
        "newest",
        "say = not self.left or bool(self.entered) or deleted",
        "say = not (self.left or self.entered) or deleted",
        1,
    ),
    "what has left is not told after a takeover": Slip(
        QuerySets,
        "compute",
        "set_.since = position - 1",
        "set_.since = 0",
        2,
    ),
    "the description before the change is evaluated": Slip(
        QuerySets,
        "on_change",
        "query.matches(name, after)",
        "query.matches(name, before or after)",
        2,
    ),
    "a description that is outdone stands last where compaction finds it": Slip(
        Repairs,
        "look_at_description",
        "if described.needs_repair:",
        "if described.needs_repair and not key:",
        3,
    ),
    "a number and a text have one canonical form": Slip(
        canonical,
        "_literal",
        "return _quoted(literal.text)",
        "return literal.text",
        20,
    ),
    "who wakes is refused where strangers have taken all places": Slip(
        Memberships,
        "_subscribe",
        "self._places.price(group, query.hash, parsed)\n",
        "if self._places.taken.places >= 18:\n    query.refused = 'query: there is no room'\n    return\n",
        1,
    ),
    "what is not evaluated yet lies below the cursor that a page says": Slip(
        Paging,
        "_send",
        "if client.queries and not self._state.members.want(client):",
        "if not self._state.members.want(client) and not client.queries:",
        1,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
