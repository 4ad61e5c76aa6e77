"""The promises hold, played at random: publishers, devices behind gateways, and a matcher that dies at any write.

All is played without and with conflation, and with several registrations records for a client.
"""

import pytest
from coldnotify_matcher.engine import Intervals
from coldnotify_matcher.engine.inputs.registering import registration_requests
from coldnotify_matcher.engine.telling import paging
from coldnotify_testkit.engine_bench import GATEWAY, OTHER_GATEWAY
from coldnotify_testkit.examples import examples
from coldnotify_testkit.promises_machine import CLIENTS, INTERVAL_MS, OBJECTS, PAGE_BYTES, Machine
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (paging, registration_requests):
        monkeypatch.setattr(module, "PAGE_BYTES_MAX", PAGE_BYTES)


class Conflating(Machine):
    """The same, while what follows closely is held and merged."""

    conflation = Intervals(others_ms=INTERVAL_MS)

    def __init__(self) -> None:
        super().__init__()
        self.all_want_everything()

    @rule(names=st.lists(st.sampled_from(OBJECTS[:3]), min_size=2, max_size=6))
    def burst(self, names: list[str]) -> None:
        """Newer versions in a row, and all that leaves at once arrives."""
        for name in names:
            incarnation, version = self.newest(name)
            self.publish(name, max(version, 0) + 1, max(incarnation, 0))
        self.step()
        for gateway in (GATEWAY, OTHER_GATEWAY):
            self.hand_over(gateway, 10_000)


class ManyRecords(Machine):
    """The same, with several registrations records for a client: any step's records may be cut anywhere."""

    bucket_objects_max = 2

    def __init__(self) -> None:
        super().__init__()
        self.all_want_everything()

    @rule(
        client=st.sampled_from(CLIENTS),
        gone=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4, unique=True),
        wanted=st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4, unique=True),
    )
    def change(self, client: str, gone: list[str], wanted: list[str]) -> None:
        """One step moves registrations from one record to another."""
        device = self.devices[client]
        for name in gone:
            self.unregister(client, name)
        device.wanted |= set(wanted)
        for name in wanted:
            device.registering[name] = False
            device.unregistering.discard(name)
        self.ask_for_operations(device)


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("machine", [Machine, Conflating, ManyRecords])
def test_the_promises_hold_whatever_happens_in_whatever_order(machine: type[Machine]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples(1.5), stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )
