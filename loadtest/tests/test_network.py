import socket
import threading
from contextlib import ExitStack

import pytest
from coldnotify_loadtest import network
from coldnotify_loadtest.network import NetworkError, SilentNetwork
from coldnotify_testkit.networks import enter, makes_networks

WAIT_S = 60.0


def in_network(name: str) -> socket.socket:
    """Returns a socket of that namespace; only one thread enters it."""
    made: list[socket.socket] = []

    def make() -> None:
        enter(name)
        made.append(socket.socket())

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    return made[0]


@pytest.mark.skipif(not makes_networks(), reason="makes networks: as root, by iproute2")
def test_on_a_silent_link_nothing_arrives_until_it_is_healed() -> None:
    with SilentNetwork(2) as links, ExitStack() as stack:
        devices, servers = [], []
        for host in links.hosts:
            listening = stack.enter_context(socket.create_server((host, 0)))
            device = stack.enter_context(in_network(links.name))
            device.settimeout(WAIT_S)
            device.connect(listening.getsockname())
            devices.append(device)
            servers.append(stack.enter_context(listening.accept()[0]))
        links.silence(0)
        for one in (*devices, *servers):
            one.send(b"a")
        assert (devices[1].recv(1), servers[1].recv(1)) == (b"a", b"a")
        for one in (devices[0], servers[0]):
            one.settimeout(0.5)
            with pytest.raises(TimeoutError):
                one.recv(1)
            one.settimeout(WAIT_S)
        links.heal(0)
        assert (devices[0].recv(1), servers[0].recv(1)) == (b"a", b"a")


def test_it_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network, "makes_networks", lambda: False)
    with pytest.raises(NetworkError, match="needs root and iproute2"):
        SilentNetwork(1)
