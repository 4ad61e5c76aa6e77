"""Cost on the wire: an idle hour, an unchanged wake, one changed object, all state lost; through a counting proxy."""

import time

from coldnotify import Connection, Link, Notify, State
from coldnotify.publisher import Publisher as Library
from coldnotify_common.security.certificates import Authority
from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.swarm import Swarm, SwarmError
from coldnotify_testkit.proxy import Proxy, in_front_of
from coldnotify_testkit.stack import running
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, identity
from coldnotify_loadtest.devices import KINDS
from coldnotify_loadtest.servers import ColdNotify, Server
from coldnotify_loadtest.tables import SERVER, Shape

_QUIET_S = 1.5
"""Acks are delayed by a second."""
_HOUR_S = 3600
_PINGS = 3
LINKED = (1, 4, 16)
"""Clients on one link."""
_SETTLE_S = 5.0
"""nats-server pings a new connection within some seconds, and rarely later."""


def run(bench: BenchRun) -> None:
    """One device at a time. Names have 15, 8 and 10 characters."""
    population = Population(fan_out=1, registrations=bench["registrations"])
    for kind in bench.servers():
        if kind.kind == "bare":
            continue
        bench.progress.step(kind.name)
        with (
            kind(bench.new_directory()) as server,
            PublisherHandle(server.target(population)) as publisher,
            in_front_of(*server.addresses()[0]) as proxy,
        ):
            publisher.publish(
                PublishPlan(200, bench["registrations"] / 200, numbers=bench["registrations"], poisson=False)
            )
            with Swarm(KINDS[server.kind], population, 1, [proxy.address], processes=1) as swarm:
                swarm.add(1)
                swarm.wait_ready(READY_S)
                _note(bench, server, proxy, "first registration")
                _wake(bench, server, proxy, swarm, "unchanged wake")
                swarm.drop()
                publisher.once()
                _wake(bench, server, proxy, swarm, f"1 of {bench['registrations']} changed")
                time.sleep(_SETTLE_S)
                proxy.reset()
                time.sleep(bench["idle_s"])
                idle = proxy.up_bytes + proxy.down_bytes
                pings = []
                for _ in range(_PINGS):
                    proxy.reset()
                    swarm.ping()
                    time.sleep(_QUIET_S)
                    pings.append(proxy.up_bytes + proxy.down_bytes)
                # The least: a heartbeat of the server's own may have come between, and is counted in `idle`.
                ping = min(pings)
                hour = round(idle * _HOUR_S / bench["idle_s"] + ping * _HOUR_S / bench["keepalive_s"])
                bench.rows.append({**identity(server), "case": "idle hour", "bytes": hour, "ping_bytes": ping})
                swarm.drop()
                time.sleep(_QUIET_S)
            # A device that has lost its state comes as one that knows nothing.
            proxy.reset()
            with Swarm(KINDS[server.kind], population, 1, [proxy.address], processes=1) as swarm:
                swarm.add(1)
                swarm.wait_ready(READY_S)
                _note(bench, server, proxy, "total loss of state")
            if isinstance(server, ColdNotify):
                _client_library(bench, server, proxy, population, publisher)
                _linked(bench, server, proxy, population)
                _with_tls(bench, server, population)


def _client_library(
    bench: BenchRun, server: Server, proxy: Proxy, population: Population, publisher: PublisherHandle
) -> None:
    """The same wakes by the client library, until it has disconnected: what an observation unit really sends."""
    names = population.objects(0)
    row = {**identity(server), "server": "ColdNotify, client library"}
    state = server.directory / "client.json"
    for case in ("first registration", "unchanged wake", f"1 of {len(names)} changed", "total loss of state"):
        if "changed" in case and case != "unchanged wake":
            publisher.once()
        if case == "total loss of state":
            state.unlink()
        proxy.reset()
        client = Notify(
            domain=population.domain,
            group_id=population.group(0),
            client_id="observer-2",
            state=State(filename=str(state)),
            connection=Connection(address=proxy.address[0], port=proxy.address[1]),
        )
        for name in names:
            client.register(name).subscribe(lambda _: None)
        client.connect()
        try:
            if not client.wait_caught_up(READY_S):
                raise SwarmError(f"the client library is not caught up after {READY_S:g} s")
            time.sleep(_QUIET_S)
        finally:
            client.disconnect()
        time.sleep(_QUIET_S)
        bench.rows.append(
            {
                **row,
                "case": case,
                "up": proxy.up_bytes,
                "down": proxy.down_bytes,
                "bytes": proxy.up_bytes + proxy.down_bytes,
            }
        )


def _linked(bench: BenchRun, server: Server, proxy: Proxy, population: Population) -> None:
    """Unchanged wakes of clients that share a link, each in a group of its own: all at once, until they have left."""
    assert isinstance(server, ColdNotify)
    address, port = proxy.address
    for count in LINKED:
        # Who was told something has a cursor, and says it at each wake.
        with Library(kafka=server.kafka) as library:
            for number in range(count):
                library.publish(population.domain, f"{count:03}-grp-{number:02}", "camera-config", version=1)
        states = [State(filename=str(server.directory / f"linked-{count}-{number}.json")) for number in range(count)]
        for _ in ("first", "unchanged"):
            # What comes first has registrations; the next one says the cursor of what it was told.
            wait_for(lambda: proxy.idle, "the end of the connection before")
            proxy.reset()
            with Link(Connection(address, port)) as link:
                clients = [
                    Notify(population.domain, f"{count:03}-grp-{number:02}", "observer-2", state, link)
                    for number, state in enumerate(states)
                ]
                for client in clients:
                    client.register("camera-config").subscribe(lambda _: None)
                    client.connect()
                if not all(client.wait_caught_up(READY_S) for client in clients):
                    raise SwarmError(f"a client on the link is not caught up after {READY_S:g} s")
                for client in clients:
                    client.disconnect()
            wait_for(lambda: proxy.idle, "both sides have closed")
        counted = {"up": proxy.up_bytes, "down": proxy.down_bytes, "bytes": proxy.up_bytes + proxy.down_bytes}
        row = {**identity(server), "server": "ColdNotify, client library"}
        bench.rows.append({**row, "case": f"unchanged wake of {count} on one link", **counted})


def _with_tls(bench: BenchRun, plain: Server, population: Population) -> None:
    """The library's unchanged wake with mutual TLS: `coldnotify up --tls`, and a client with a certificate."""
    directory = plain.directory / "with-tls"
    directory.mkdir()
    authority = Authority(directory / "certs")
    for service in ("gateway", "http"):
        authority.server(service, ["localhost", "127.0.0.1"])
    authority.inside(["localhost", "127.0.0.1"])
    name = population.domain, population.group(0), "observer-2"
    cert, key = authority.client(*name)
    with running(directory, f"--tls={authority.directory}") as up, in_front_of(*up.gateway) as proxy:
        state = State(filename=str(directory / "client.json"))

        def made() -> Notify:
            address, port = proxy.address
            ca_cert = authority.directory / "ca.pem"
            client = Notify(*name, state, Connection(address, port, ca_cert=ca_cert, cert=cert, key=key))
            for one in population.objects(0):
                client.register(one).subscribe(lambda _: None)
            return client

        def wake(client: Notify) -> None:
            proxy.reset()
            if not client.connect(timeout_s=READY_S):
                raise SwarmError(f"the client library is not caught up after {READY_S:g} s")
            client.disconnect()
            wait_for(lambda: proxy.idle, "both sides have closed")

        # Who was told something has a cursor, and says it at each wake.
        with Library(kafka=up.kafka) as library:
            library.publish(*name[:2], population.object(0, 0), version=1)
        wake(made())
        client = made()
        row = {**identity(plain), "server": "ColdNotify, client library"}
        for case in ("unchanged wake, mutual TLS 1.3", "unchanged wake, TLS session resumed"):
            wake(client)
            counted = {"up": proxy.up_bytes, "down": proxy.down_bytes, "bytes": proxy.up_bytes + proxy.down_bytes}
            bench.rows.append({**row, "case": case, **counted})


def _wake(bench: BenchRun, server: Server, proxy: Proxy, swarm: Swarm, case: str) -> None:
    swarm.drop()
    time.sleep(_QUIET_S)
    proxy.reset()
    swarm.come_back()
    swarm.wait_ready(READY_S)
    _note(bench, server, proxy, case)


def _note(bench: BenchRun, server: Server, proxy: Proxy, case: str) -> None:
    time.sleep(_QUIET_S)
    row = {
        **identity(server),
        "case": case,
        "up": proxy.up_bytes,
        "down": proxy.down_bytes,
        "bytes": proxy.up_bytes + proxy.down_bytes,
    }
    bench.rows.append(row)


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(7 * (25 + parameters["idle_s"]))


_TABLES = (
    Shape(
        "Bytes on the wire, both ways",
        {**SERVER, "case": "case"},
        {"up": "up", "down": "down", "together": "bytes"},
    ),
)
WIRE = Experiment(
    "wire",
    "bytes on the wire",
    {"registrations": 50, "idle_s": 30, "keepalive_s": 60, "processes": 1, "servers": "all"},
    {"registrations": 5, "idle_s": 2},
    seconds,
    lambda _: 7,
    run,
    _TABLES,
)
