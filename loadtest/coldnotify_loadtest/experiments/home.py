"""home: real clients, each at its home of three gateways; one gateway is killed, and serves again a while later.

Its clients go elsewhere, and back home beside the session that they have: make before break. They are clients of the
Python library, over TCP, with its own times.
"""

import time
from collections.abc import Callable
from functools import partial

from coldnotify_load.open_loop import PublisherHandle, PublishPlan
from coldnotify_load.population import Population
from coldnotify_load.processes import Meter

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row, identity
from coldnotify_loadtest.experiments.horizontal import HOSTS, behind, most_in_a_second
from coldnotify_loadtest.home_clients import HomeClients, WhereClients
from coldnotify_loadtest.servers import ColdNotify
from coldnotify_loadtest.tables import Shape

_VICTIM = "gateway-1"
_LOOK_S = 0.25
_Looks = list[tuple[float, WhereClients]]


def run(bench: BenchRun) -> None:
    """Each time that the gateway stays away restarts everything."""
    clients, topics = bench["clients"], bench["topics"]
    population = Population(-(-clients // topics), 1, topics, keepalive_s=bench["keepalive_s"])
    for away_s in bench["away_s"]:
        bench.progress.step(f"away for {away_s} s: {clients} clients connect")
        with (
            ColdNotify(bench.new_directory(), gateways=len(HOSTS), hosts=HOSTS) as server,
            PublisherHandle(server.target(population)) as publisher,
        ):
            server.warm_up(bench["warm_up_s"])
            with HomeClients(
                population,
                clients,
                server.addresses(),
                per_s=bench["clients_per_s"],
                home_first_s=bench["home_first_s"],
                processes=bench["processes"],
            ) as there:
                there.wait(lambda found: found.current == clients and not found.away, READY_S, "all at home")
                about: Row = {"away_s": away_s, "clients": clients}
                bench.rows.append({**identity(server), **about, **_struck(bench, server, there, publisher, away_s)})


def _struck(bench: BenchRun, server: ColdNotify, there: HomeClients, publisher: PublisherHandle, away_s: float) -> Row:
    clients, topics = bench["clients"], bench["topics"]
    host, port = server.addresses()[0]
    before = there.look()
    lost = before.at[f"{host}:{port}"]
    # The last ones are home after a random time: they are published to until then, and for a moment longer.
    longest_s = away_s + _longest_way_home_s(bench["home_first_s"], away_s)
    publisher.begin(PublishPlan(bench["per_s"], longest_s, blocks=topics))
    meter = Meter({**server.roles(), "clients": there.pids})
    victim = server.children[_VICTIM]
    begun_s = time.monotonic()
    victim.kill()
    bench.progress.step(f"away for {away_s} s: {_VICTIM} is killed")
    away = _looks(there, begun_s, lambda found: time.monotonic() > begun_s + away_s and found.current == clients)
    victim.start()
    ready_s = victim.wait_ready() + victim.started_s
    bench.progress.step(f"away for {away_s} s: {_VICTIM} serves again")
    back = _looks(there, ready_s, lambda found: found.current == clients and not found.away)
    used = {role: one["cpu_s"] for role, one in meter.read().items()}
    passed_s = time.monotonic() - begun_s
    sent = publisher.end().sent
    newest = there.wait(lambda found: not behind(found.newest), READY_S, "the newest versions at all")
    publisher.once(topics)
    told = newest.told
    there.wait(lambda found: found.told >= told + clients, READY_S, "the last publish at all")
    elsewhere = partial(_since, away)
    home = partial(_since, back)
    return {
        "lost": lost,
        "half_elsewhere_s": elsewhere(lambda found: found.current >= clients - lost / 2),
        "all_elsewhere_s": elsewhere(lambda found: found.current >= clients),
        "attempts_away": away[-1][1].attempts - before.attempts,
        "attempts_away_per_s_max": most_in_a_second([(at_s, found.attempts) for at_s, found in away]),
        "half_home_s": home(lambda found: found.away <= lost / 2),
        "all_home_s": home(lambda found: not found.away),
        "attempts_home": back[-1][1].attempts - away[-1][1].attempts,
        "attempts_home_per_s_max": most_in_a_second([(at_s, found.attempts) for at_s, found in back]),
        "fewest_current_on_the_way_home": min(found.current for _, found in back),
        "expected": sent * clients // topics,
        "told": newest.told - before.told,
        "disordered": newest.disordered,
        "behind": behind(newest.newest),
        "errors": dict(newest.errors),
        "cores": {role: round(cpu_s / passed_s, 2) for role, cpu_s in used.items()},
    }


def _looks(there: HomeClients, since_s: float, is_over: Callable[[WhereClients], bool]) -> _Looks:
    """Looks at the clients until it is over: how long after `since_s`, and what was seen. Raises TimeoutError."""
    looks: _Looks = []
    until_s = time.monotonic() + 2 * READY_S
    while not looks or not is_over(looks[-1][1]):
        if time.monotonic() > until_s:
            raise TimeoutError(f"clients are not where they should be: {looks[-1][1]}")
        found = there.look()
        looks.append((time.monotonic() - since_s, found))
        time.sleep(_LOOK_S)
    return looks


def _since(looks: _Looks, condition: Callable[[WhereClients], bool]) -> float | None:
    """Returns since when it has held; None: not even at the end."""
    since_s = None
    for at_s, found in reversed(looks):
        if not condition(found):
            break
        since_s = round(at_s, 2)
    return since_s


def _longest_way_home_s(home_first_s: float, away_s: float) -> float:
    """A try that fails doubles the time to the next one, which is up to twice as long, at random."""
    at_s = step_s = home_first_s
    while at_s < away_s:
        step_s *= 2
        at_s += step_s
    return 2 * at_s - away_s + 5


def seconds(parameters: Parameters) -> float:
    """About."""
    first_s = parameters["home_first_s"]
    fixed_s = 30 + parameters["warm_up_s"] + parameters["clients"] / parameters["clients_per_s"]
    return float(sum(fixed_s + away_s + _longest_way_home_s(first_s, away_s) for away_s in parameters["away_s"]))


_TABLES = (
    Shape(
        "Clients' home is killed, and serves again",
        {"away, s": "away_s", "clients": "clients"},
        {
            "at that home": "lost",
            "half current elsewhere, s": "half_elsewhere_s",
            "all": "all_elsewhere_s",
            "attempts": "attempts_away",
            "most in a second": "attempts_away_per_s_max",
            "half at home, s after it serves": "half_home_s",
            "all ": "all_home_s",
            "attempts ": "attempts_home",
            "most in a second ": "attempts_home_per_s_max",
            "fewest current meanwhile": "fewest_current_on_the_way_home",
            "versions for all clients": "expected",
            "told": "told",
            "not in order": "disordered",
            "clients without the newest": "behind",
        },
    ),
)
HOME = Experiment(
    "home",
    "the home of clients dies, and returns",
    {
        "clients": 1500,
        "topics": 30,
        "per_s": 30,
        "away_s": (20.0,),
        "keepalive_s": 15,
        "home_first_s": 30.0,
        "clients_per_s": 200,
        "warm_up_s": 20,
        "processes": 2,
    },
    {"clients": 12, "topics": 3, "per_s": 10, "away_s": (1.0,), "home_first_s": 0.5, "warm_up_s": 1},
    seconds,
    lambda parameters: 3 * len(parameters["away_s"]),
    run,
    _TABLES,
)
