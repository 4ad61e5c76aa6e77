"""Devices that wake: what they say, the loop in C that plays them at real servers, and the experiments made of it.

Stands for: wakes
"""

import json
import os
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_load.population import Population
from coldnotify_loadtest import servers, wake_loop
from coldnotify_loadtest.command import main
from coldnotify_loadtest.servers import Mosquitto, Nats, Server, ServerError

POPULATION = Population(fan_out=2, groups=2)


@pytest.fixture(scope="module", autouse=True)
def _built_loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Built here where it was not installed, so that something is tested on every machine with a C compiler."""
    directory = tmp_path_factory.mktemp("built")
    if not servers.find("wake_loop"):
        if not (compiler := shutil.which("cc")):
            pytest.skip("no C compiler, and no loop of devices that wake")
        built = [compiler, "-o", str(directory / "wake_loop"), str(servers.PEERS / "wake_loop.c"), "-lm"]
        with_tls = [*built, "-DWITH_TLS", "-lssl", "-lcrypto"]
        assert not (os.spawnv(os.P_WAIT, compiler, with_tls) and os.spawnv(os.P_WAIT, compiler, built))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
        yield


@pytest.mark.parametrize("kind", [Nats, Mosquitto])
def test_hellos_for_peer_systems_need_no_server(kind: type[Server], tmp_path: Path) -> None:
    path = tmp_path / "hellos"
    wake_loop.write_hellos(path, kind(tmp_path), POPULATION, range(3))
    data = path.read_bytes()
    said = []
    while data:
        (size,) = struct.unpack_from("<I", data)
        said.append(data[4 : 4 + size])
        data = data[4 + size :]
    assert len(said) == 3
    assert all(one.startswith(b"CONNECT" if kind is Nats else b"\x10") for one in said)


def test_a_loop_that_cannot_begin_is_told(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match="has ended with 1"):
        wake_loop.wake(Nats(tmp_path), tmp_path / "nothing", 10, 0.1)


def test_wakes_of_a_peer(tmp_path: Path) -> None:
    if Nats.missing():
        pytest.skip("nats-server is not installed")
    with Nats(tmp_path) as server:
        wake_loop.write_hellos(tmp_path / "hellos", server, POPULATION, range(10))
        seen = wake_loop.wake(server, tmp_path / "hellos", 50, 1.0)
        assert seen["done"] == seen["due"] > 0
        at_once = wake_loop.wake(server, tmp_path / "hellos", 0, 30.0)
        assert (at_once["done"], at_once["failed"]) == (10, 0)


@pytest.mark.kafka
def test_both_experiments_tiny(tmp_path: Path) -> None:
    assert main(["wakes", "crowd", "--quick", "--results", str(tmp_path)]) == 0
    idle, woken = json.loads((tmp_path / "wakes.json").read_text())["rows"]
    assert set(idle["cores"]) == {"broker", "matcher", "gateway", "http"}
    assert woken["done"] == woken["due"] > 0
    assert woken["failed"] == 0
    (crowd,) = json.loads((tmp_path / "crowd.json").read_text())["rows"]
    assert (crowd["done"], crowd["failed"]) == (40, 0)


@pytest.mark.kafka
def test_the_same_with_tls(tmp_path: Path) -> None:
    if not wake_loop.knows_tls():
        pytest.skip("no headers of OpenSSL, so the loop knows no TLS")
    assert main(["wakes-matrix", "--quick", "--results", str(tmp_path)]) == 0
    plain, new, resumed = json.loads((tmp_path / "wakes-matrix.json").read_text())["rows"]
    assert [one["tls"] for one in (plain, new, resumed)] == ["no", "new", "resumed"]
    assert all(one["done"] == one["due"] > 0 for one in (plain, new, resumed))
    assert (plain["resumed"], new["resumed"]) == (0, 0)
