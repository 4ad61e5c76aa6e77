"""A gateway that is told to stop: its clients move to the other one at the set pace, and miss nothing."""

import os
import signal
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_testkit.stack import Recorder, Stacks, Up, get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP, OBJECT = "animal.observer", "region-1", "camera-config"
CLIENTS = 16
DRAIN_PER_S = 4


@pytest.fixture
def two(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Two gateways that share a port, slow to send clients away."""
    settings = {"gateway_drain_per_s": str(DRAIN_PER_S), "gateway_drain_s": "60"}
    with stacks.running(tmp_path_factory.mktemp("two"), "--gateways=2", **settings) as up:
        yield up


def sessions(url: str) -> int:
    """How many a gateway has; 0 when it is not there."""
    try:
        return sum(partition["sessions"] for partition in get_json(f"http://{url}/v1/gateway")["partitions"])
    except OSError:
        return 0


def is_there(pid: int) -> bool:
    """Whether this process has not ended."""
    return Path(f"/proc/{pid}/exe").exists()


def test_clients_of_a_gateway_that_stops_are_served_by_the_other_without_loss(two: Up) -> None:
    host, port = two.gateway
    told = [Recorder() for _ in range(CLIENTS)]
    with ExitStack() as stack, two.publisher() as publisher:
        for i, recorder in enumerate(told):
            # The first address is dead for every other one.
            addresses = [f"{host}:1", f"{host}:{port}"] if i % 2 else [f"{host}:{port}"]
            connection = Connection(address=addresses, port=port)
            ou = stack.enter_context(
                Notify(domain=DOMAIN, group_id=GROUP, client_id=f"ou-{i}", state=State(None), connection=connection)
            )
            ou.register(OBJECT).subscribe(recorder)
        wait_for(lambda: all(recorder.seen for recorder in told), "all are registered")
        stopped, _ = two.report["gateways_http"]
        had = sessions(stopped)
        pids = two.report["pids"]
        pid = pids.get("gateway-1", pids.get("gateway"))
        began_s = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        version = 0
        left_there = []
        gone_s: float | None = None
        # Publishing goes on all the while.
        while is_there(pid):
            version += 1
            publisher.publish(DOMAIN, GROUP, OBJECT, version=version)
            publisher.flush(60)
            left_there.append(sessions(stopped))
            if left_there[-1]:
                gone_s = None
            elif gone_s is None:
                gone_s = time.monotonic()
        gone_s = gone_s or time.monotonic()
        publisher.publish(DOMAIN, GROUP, OBJECT, version=version + 1)
        publisher.flush(60)
        wait_for(lambda: all(r.newest(OBJECT) == version + 1 for r in told), "everybody has the newest")
        steps = [n for n in left_there if 0 < n < had]
        assert had < 4 or steps, "they are sent away one after the other, not all at once"
        assert gone_s - began_s >= (had - 1) / DRAIN_PER_S, "they are sent away faster than the setting says"
        for recorder in told:
            versions = [v for v in recorder.versions(OBJECT) if v is not None]
            assert versions == sorted(set(versions)), "nothing backwards, nothing twice"
