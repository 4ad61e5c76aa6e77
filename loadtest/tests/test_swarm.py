"""A swarm and a publisher at real servers: connecting, publishing, storms.

Stands for: servers
"""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm, SwarmError
from coldnotify_loadtest import servers
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.servers import OWN_SERVERS, PEER_SERVERS, Server, ServerError

WAIT_S = 120.0
POPULATION = Population(fan_out=20, registrations=2, groups=2)
DEVICES = 40


@pytest.fixture(scope="module", autouse=True)
def _bare_loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Built here where it was not installed, so that something is tested on every machine with a C compiler."""
    directory = tmp_path_factory.mktemp("built")
    if not servers.find("bare_loop") and (compiler := shutil.which("cc")):
        assert not os.spawnv(
            os.P_WAIT, compiler, [compiler, "-o", str(directory / "bare_loop"), str(servers.PEERS / "bare_loop.c")]
        )
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{directory}:{os.environ['PATH']}")
            yield
        return
    yield


@pytest.mark.kafka
@pytest.mark.parametrize("kind", [*OWN_SERVERS, *PEER_SERVERS], ids=lambda kind: kind.name)
def test_every_device_is_reached_also_after_a_storm(kind: type[Server], tmp_path: Path) -> None:
    if missing := kind.missing():
        pytest.skip(f"not installed: {', '.join(missing)} (loadtest/peers/install)")
    with (
        kind(tmp_path) as server,
        Swarm(KINDS[server.kind], POPULATION, DEVICES, server.addresses()) as swarm,
        PublisherHandle(server.target(POPULATION)) as publisher,
    ):
        swarm.add(DEVICES)
        swarm.wait_ready(WAIT_S)
        assert all(pids for pids in server.roles().values())
        swarm.record()
        published = publisher.publish(PublishPlan(20, 0.5, blocks=2, poisson=False))
        assert (published.sent, published.acknowledged, published.failed) == (10, 10, 0)
        counts = swarm.wait(lambda counts: counts.reached == DEVICES, WAIT_S, "all reached")
        latencies, _ = swarm.take()
        assert 0 < latencies.summary()["p50_ms"] < WAIT_S * 1000
        assert counts.bytes_in > DEVICES
        swarm.drop()
        assert swarm.counts().connected == 0
        swarm.record()
        swarm.come_back()
        swarm.wait_ready(WAIT_S)
        assert swarm.take()[1].count == DEVICES
        assert not swarm.counts().closed
        swarm.record()
        publisher.once(blocks=2)
        swarm.wait(lambda counts: counts.reached == DEVICES, WAIT_S, "all reached again")
        assert swarm.counts().lost == 0


def test_devices_come_back_by_themselves_to_a_server_that_was_killed(tmp_path: Path) -> None:
    if servers.Bare.missing():
        pytest.skip("no C compiler, and no bare loop")
    with servers.Bare(tmp_path) as server, Swarm(KINDS["bare"], POPULATION, DEVICES, server.addresses()) as swarm:
        swarm.add(DEVICES // 2, per_s=1000)
        swarm.wait_ready(WAIT_S)
        swarm.add(DEVICES // 2)
        with pytest.raises(SwarmError, match="1 devices more"):
            swarm.add(1)
        swarm.wait_ready(WAIT_S)
        swarm.record()
        (child,) = server.children.values()
        child.kill()
        swarm.wait(lambda counts: counts.lost == DEVICES and counts.failed > 0, WAIT_S, "all lost")
        begun_ns = time.monotonic_ns()
        child.start()
        assert child.wait_ready(WAIT_S) < WAIT_S
        assert swarm.wait_ready(WAIT_S).last_ready_ns > begun_ns


def test_a_server_that_ends_at_once_says_why(tmp_path: Path) -> None:
    child = servers.ServerProcess(["/bin/sh", "-c", "echo no such thing; exit 1"], tmp_path / "log", lambda: False)
    child.start()
    with pytest.raises(ServerError, match="no such thing"):
        child.wait_ready(WAIT_S)


def test_a_server_has_its_byte_code_as_one_that_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    child = servers.ServerProcess(
        ["/bin/sh", "-c", "echo ${PYTHONDONTWRITEBYTECODE-none}; exit 1"], tmp_path / "log", lambda: False
    )
    child.start()
    with pytest.raises(ServerError, match="none"):
        child.wait_ready(WAIT_S)


@pytest.mark.parametrize(
    ("version", "is_taken"), [("v2.9.10", False), ("v2.10.0", True), ("v3.0.1", True), ("", False)]
)
def test_a_nats_server_that_is_too_old_is_as_none(
    version: str, is_taken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "nats-server"
    program.write_text(f"#!/bin/sh\necho nats-server: {version}\n")
    program.chmod(0o755)
    monkeypatch.setattr(servers, "INSTALLED", tmp_path / "nothing")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert servers.find("nats-server") == (str(program) if is_taken else "")
