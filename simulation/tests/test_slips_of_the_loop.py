"""A slip in the loop that jobs run in breaks a promise in a random schedule, whoever wrote it and whatever else holds.

Stands for: slips
"""

import sys

import pytest
from coldnotify_simulation.slips import Slip, find, run_alone
from coldnotify_streams.core.commits import Commits
from coldnotify_streams.core.durable_steps import DurableSteps
from coldnotify_streams.core.run import JobRun

SLIPS = {
    "what is handled is committed before it is flushed": Slip(
        DurableSteps,
        "make_durable",
        """\
        durable = yield from self.write(owned, None)
        for partition in durable:
            self._commits.note(partition)
        """,
        """\
        from coldnotify_streams.core.actions import Commit
        for partition in owned:
            self._commits.note(partition)
        if due := self._commits.take_due(self._agenda.now.s):
            self._agenda.do(Commit(due))
        durable = yield from self.write(owned, None)
        for partition in durable:
        """,
        1020,
    ),
    "a publish that is held back is committed": Slip(
        Commits,
        "note",
        "partition.table_done",
        "partition.position",
        3000620,
    ),
    "requests are handled before the table is read as far as it went": Slip(
        JobRun,
        "_advance",
        "while pending and not partition.waits and is_reached(partition, pending[0]):",
        "while pending and not partition.waits:",
        600079,
    ),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_is_found(slip: str) -> None:
    run_alone(__file__, slip)


if __name__ == "__main__":
    sys.exit(find(SLIPS, *sys.argv[1:]))
