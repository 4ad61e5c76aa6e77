"""What a wake costs in bytes: without TLS, with a full handshake, with a resumed one; TCP's own headers not counted.

A client that missed nothing connects, is told that it is complete, and leaves; through a proxy that counts. It is
registered for 100 objects, which changes nothing, and has a cursor. The whole service is real: `coldnotify up`, once
without and once with --tls.

    python loadtest/wake_bytes.py
"""

import argparse
import tempfile
from pathlib import Path

from coldnotify import Connection, Notify, State
from coldnotify.publisher import Publisher
from coldnotify_common.certificates import Authority
from coldnotify_testkit.proxy import CountingProxy
from coldnotify_testkit.stack import running
from coldnotify_testkit.waiting import wait_for

LIMIT_S = 120
OBJECTS = [f"object-{i}" for i in range(100)]
NAME = ("animal.observer", "region-1", "observer-1")


def main() -> None:
    """Prints a line for each way to wake."""
    argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "").parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        authority = Authority(root / "certs")
        for service in ("gateway", "http"):
            authority.server(service, ["localhost", "127.0.0.1"])
        authority.inside(["localhost", "127.0.0.1"])
        cert, key = authority.client(*NAME)
        print(f"{'a wake':<34} {'from client':>12} {'to client':>12} {'together':>10}")  # noqa: T201
        for flags, options in (
            ([], {}),
            ([f"--tls={authority.directory}"], {"ca_cert": authority.directory / "ca.pem", "cert": cert, "key": key}),
        ):
            data = root / ("tls" if flags else "plain")
            data.mkdir()
            with running(data, *flags) as up, CountingProxy(*up.gateway) as proxy:
                _publish(up.kafka)
                first = _client(proxy, root / "state.json" if flags else root / "plain.json", options)
                _register(first)
                _wake(first, proxy)
                if not flags:
                    _show("without TLS", _wake(first, proxy))
                    continue
                anew = _client(proxy, root / "state.json", options)
                _register(anew)
                _show("mutual TLS 1.3, full handshake", _wake(anew, proxy))
                _show("mutual TLS 1.3, resumed", _wake(anew, proxy))


def _client(proxy: CountingProxy, state: Path, options: dict[str, Path]) -> Notify:
    connection = Connection(address="127.0.0.1", port=proxy.port, **options)  # type: ignore[arg-type]
    return Notify(*NAME, State(str(state)), connection)


def _register(client: Notify) -> None:
    # A registration that nobody subscribed to stays pending, and is said again at each wake.
    for registration in client.register_only(OBJECTS):
        registration.subscribe(lambda _told: None)


def _publish(kafka: str) -> None:
    # A client that was told something has a cursor, and says it at each wake.
    with Publisher(kafka=kafka) as publisher:
        publisher.publish(*NAME[:2], OBJECTS[0], version=1)


def _wake(client: Notify, proxy: CountingProxy) -> tuple[int, int]:
    """Bytes from and to the client."""
    proxy.reset()
    assert client.connect(timeout_s=LIMIT_S), client.status
    client.disconnect()
    wait_for(lambda: proxy.idle, "both sides have closed")
    return proxy.up_bytes, proxy.down_bytes


def _show(what: str, counted: tuple[int, int]) -> None:
    print(f"{what:<34} {counted[0]:>12,} {counted[1]:>12,} {sum(counted):>10,}", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
