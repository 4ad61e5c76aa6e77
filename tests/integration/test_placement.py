"""Which gateway a client has, with real processes: the directory, a gateway that is nearly full, and a crowd."""

import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from coldnotify import Connection, Notify, State
from coldnotify_common.placement.fair_shares import FULL_NOT_HERE_S
from coldnotify_kafka.broker import free_port
from coldnotify_schemas.host_port import host_port
from coldnotify_schemas.wire_pb2 import CAPABILITY_AT_HOME, CAPABILITY_MOVES
from coldnotify_testkit.command import RunningCommand
from coldnotify_testkit.device_frames import hello, ping
from coldnotify_testkit.fetching import fetch
from coldnotify_testkit.raw_client import RawClient
from coldnotify_testkit.stack import Recorder, Stacks, Up, get_json
from coldnotify_testkit.waiting import wait_for

pytestmark = pytest.mark.kafka

DOMAIN, GROUP = "animal.observer", "region-1"
LIMIT = 20
PER_S = 20
EVENED = 30
_PORTS = ("gateway_port", "gateway_web_port", "gateway_http_port")
_RUN_COMMAND = "from coldnotify_cli.main import main; main()"


@pytest.fixture(scope="module")
def up(stacks: Stacks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """A gateway with few connections, and a pace of Hellos."""
    settings = {"gateway_connections_max": "400", "gateway_hellos_per_s": str(PER_S)}
    with stacks.running(tmp_path_factory.mktemp("up"), **settings) as one:
        yield one


def test_a_client_that_knows_the_directory_alone_is_served(up: Up) -> None:
    url = f"{up.http_url}/v1/gateway"
    wait_for(lambda: fetch(url, 10).status == 200, "the directory knows the gateway")
    given = get_json(url)
    assert given == {"address": host_port(*up.gateway), "home_ready": False}
    home = get_json(f"{url}?home={given['address']}")
    assert home == {"address": given["address"], "home_ready": True}
    web = get_json(f"{url}?listener=web")
    assert web["address"] != given["address"]
    bad = fetch(f"{url}?domain=a%2Fb", 10)
    assert bad.status == 400
    told = Recorder()
    connection = Connection(address=[], directory=up.http_url)
    with Notify(domain=DOMAIN, group_id=GROUP, client_id="by-name", state=State(None), connection=connection) as ou:
        ou.register("x").subscribe(told)
        wait_for(lambda: told.seen, "it is told")


def test_a_crowd_waits_in_order_and_live_sessions_are_heard_meanwhile(up: Up) -> None:
    _, port = up.gateway
    with ExitStack() as stack:
        live = stack.enter_context(RawClient(port))
        live.send(hello("live"))
        live.until("caught_up")
        crowd = [stack.enter_context(RawClient(port)) for _ in range(5 * PER_S)]
        begun_s = time.monotonic()
        for n, one in enumerate(crowd):
            one.send(hello(f"crowd-{n}"))
        waits = [frame.wait.seconds for frame in (one.frame() for one in crowd[-PER_S:]) if frame is not None]
        live.send(ping())
        live.until("pong")
        heard_s = time.monotonic() - begun_s
        for one in crowd:
            one.until("caught_up")
        took_s = time.monotonic() - begun_s
    print(
        f"a crowd of {len(crowd)} at {PER_S}/s: {took_s:.1f} s, told to wait up to {max(waits)} s, ping {heard_s:.2f} s"
    )
    assert max(waits) >= 3
    assert took_s > 3, "a pace, and a second's Hellos at once"


def test_above_its_mark_a_gateway_sends_on_who_knows_another(stacks: Stacks, tmp_path: Path) -> None:
    ports = {name: str(free_port()) for name in ("gateway_port", "gateway_web_port", "gateway_http_port")}
    with stacks.running(tmp_path, gateway_connections_max=str(LIMIT)) as one, ExitStack() as stack:
        _, port = one.gateway

        def said(client: str, capabilities: int, stays: ExitStack = stack) -> int | None:
            """Returns the `not_here_s` of the Close; None: the client is served."""
            raw = stays.enter_context(RawClient(port))
            raw.send(hello(client, capabilities=capabilities))
            frame = raw.frame()
            assert frame is not None
            return frame.close.not_here_s if frame.HasField("close") else None

        full = [said(f"c{n}", CAPABILITY_MOVES) for n in range(LIMIT * 8 // 10)]
        other = RunningCommand(tmp_path / "other.log", "gateway", **one.in_kafka, **ports)
        stack.enter_context(other).wait_port_ready(int(ports["gateway_http_port"]))

        def sends_on() -> bool:
            """Until it knows the other one, it takes all that it can."""
            with ExitStack() as leaves:
                return said("moves", CAPABILITY_MOVES, leaves) == FULL_NOT_HERE_S

        wait_for(sends_on, "it sends clients on")
        alone = [said("moves", 0), said("home", CAPABILITY_MOVES | CAPABILITY_AT_HOME)]
    assert set(full) == {None}
    assert alone == [None, None]


class HurriedGateway(RunningCommand):
    """A gateway whose balance takes seconds, not minutes."""

    def __init__(self, output: Path, **environ: str) -> None:
        times = "rules.ABOVE_FOR_S, rules.A_MINUTE, rules.REST_S = 2.0, 1.0, 5.0"
        self._hurried = f"from coldnotify_common.placement import fair_shares as rules; {times}; {_RUN_COMMAND}"
        super().__init__(output, "gateway", **environ)

    def _started(self) -> "subprocess.Popen[bytes]":
        with self.output_file.open("ab") as file:
            return subprocess.Popen(
                [sys.executable, "-c", self._hurried, "gateway"],
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=self._environ,
            )


def test_after_a_restart_balance_evens_three_gateways_out(stacks: Stacks, tmp_path: Path) -> None:
    # The stack's own gateway is to have no clients.
    with stacks.running(tmp_path, node_weight="0") as up, ExitStack() as stack:
        ports = [{name: str(free_port()) for name in _PORTS} for _ in range(3)]

        def start(n: int) -> HurriedGateway:
            running = HurriedGateway(tmp_path / f"{n}.log", **up.in_kafka, **ports[n], gateway_balance="yes")
            stack.enter_context(running).wait_port_ready(int(ports[n]["gateway_http_port"]))
            return running

        def sessions(numbers: Sequence[int] = range(3)) -> list[int]:
            shown = [get_json(f"http://127.0.0.1:{ports[n]['gateway_http_port']}/v1/gateway") for n in numbers]
            return [sum(partition["sessions"] for partition in one["partitions"]) for one in shown]

        gateways = [start(n) for n in range(3)]
        told = [Recorder() for _ in range(EVENED)]
        for n, one in enumerate(told):
            connection = Connection(address=[f"127.0.0.1:{port['gateway_port']}" for port in ports])
            ou = Notify(domain=DOMAIN, group_id=GROUP, client_id=f"e-{n}", state=State(None), connection=connection)
            ou.register("x").subscribe(one)
            ou.connect()
            stack.callback(ou.disconnect)
        wait_for(lambda: sum(sessions()) == EVENED, "all are connected")
        before = sessions()
        gateways[0].kill()
        wait_for(lambda: sum(sessions([1, 2])) == EVENED, "all are elsewhere")
        start(0)
        back, begun_s = sessions(), time.monotonic()
        wait_for(lambda: min(sessions()) >= EVENED / 3 * 0.8 and sum(sessions()) == EVENED, "evened out", 200)
        print(f"{before}, back {back}, {time.monotonic() - begun_s:.0f} s later {sessions()}")
        with up.publisher() as publisher:
            publisher.publish(DOMAIN, GROUP, "x", version=1)
        wait_for(lambda: all(one.newest("x") == 1 for one in told), "everybody is told")
