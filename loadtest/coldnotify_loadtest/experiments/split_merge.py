"""split_merge: two halves are cut off from each other, and joined again; and a part of all processes is killed at once.

Three nodes of Kafka, four matchers, eight gateways, two processes of clients, each with a publisher. The half with two
nodes has the majority. Clients know all gateways; each is registered for one object of either publisher, in its group.
Looked at once a second:

    live            clients with a session that has caught up with the log
    knows           clients that were told what had been acknowledged a second before, of both publishers
    says so         clients with `caught_up` at any time since the last look
    one owner       partitions that exactly one matcher says it owns
    acknowledged    publishes, by half; those of the cut began after it

It is whole again once all of these are at 100 %, and each publisher has published each of its objects since.

Scalaris, whose experiment this was, took 110 and 100 s.
"""

import random
import time
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise

from coldnotify_load.loaders import Loaders
from coldnotify_schemas.protocol import BACKOFF_MAX_S

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, Row
from coldnotify_loadtest.half_clients import DOMAIN, Acknowledged, ClientLook, HalfLook, HalfPlan
from coldnotify_loadtest.half_clients import run as run_half
from coldnotify_loadtest.halves import HALVES, Halves
from coldnotify_loadtest.tables import Shape

_OBJECTS = ("majority", "minority")
"""The object that each half publishes, by the half's own name."""
_ALL = ("live", "knows", "says")
_KNOWN_S = 1.0
_DEPOSED_S = 15.0
"""The age of the newest publish that a deposed node of Kafka, which still answers, may hide."""
_LATER_S = 300.0
"""The time after the end within which it may become whole."""
_SECOND, _CASE, _KILL = "second", "case", "kill"


class SplitError(Exception):
    """The clients' processes did not do what they were told."""


class _Watch:
    """Looks at everything once a second, and judges what clients say."""

    def __init__(self, halves: Halves, clients: Loaders, groups: tuple[str, ...], every_s: float) -> None:
        self._halves, self._clients, self._groups, self._every_s = halves, clients, groups, every_s
        self._begun_s = time.monotonic()
        self._seconds = 0
        self._seen = False
        self.acknowledged: list[Acknowledged] = []
        self._by_object: defaultdict[tuple[str, str], list[Acknowledged]] = defaultdict(list)
        self._settled: dict[tuple[int, int], float] = {}
        """The time at which each client was current first."""
        self.wrong = 0
        """Looks at clients that said they were fresh as of a time, and lacked what had been acknowledged before."""
        self.rows: list[Row] = []

    @property
    def at_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self._begun_s

    def begin(self) -> None:
        """Clients connect, and publishers publish."""
        self._clients.tell(True)
        self._clients.answers(READY_S)
        self._seen = True

    def look(self) -> Row:
        """Waits for the next second, and looks; restarts what has ended."""
        self._seconds = max(self._seconds + 1, int(self.at_s))
        time.sleep(max(0.0, self._seconds - self.at_s))
        self._halves.keep()
        row: Row = {"at_s": round(self.at_s, 1)}
        row["one_owner"] = sum(count == 1 for count in self._halves.owners().values()) / self._halves.partitions
        looks = self._looks() if self._seen else [HalfLook(), HalfLook()]
        for half, look in zip(_OBJECTS, looks, strict=True):
            self.acknowledged += look.acknowledged
            for one in look.acknowledged:
                self._by_object[one.group, one.object].append(one)
            row[f"acknowledged_{half}"], row[f"failed_{half}"] = len(look.acknowledged), look.failed
            row[f"acknowledged_share_{half}"] = len(look.acknowledged) * self._every_s / len(self._groups)
        counts = Counter[str]()
        for number, (half, look) in enumerate(zip(_OBJECTS, looks, strict=True)):
            for index, client in enumerate(look.clients):
                self._judge((number, index), client, look.at)
                said = {"live": client.live, "knows": self._knows(client, look.at), "says": client.caught_up}
                counts.update({f"{name}_{half}": 1 for name, holds in said.items() if holds})
        sizes = {half: max(1, len(look.clients)) for half, look in zip(_OBJECTS, looks, strict=True)}
        for name in _ALL:
            row |= {f"{name}_{half}": counts[f"{name}_{half}"] / size for half, size in sizes.items()}
            row[name] = sum(counts[f"{name}_{half}"] for half in sizes) / sum(sizes.values())
        self.rows.append(row)
        return row

    def whole_since(self, since: float, row: Row) -> bool:
        """Returns true if nothing lacks anything, and all objects were acknowledged after that (Unix time)."""
        objects = [self._by_object[group, name] for group in self._groups for name in _OBJECTS]
        return all(row[name] == 1 for name in (*_ALL, "one_owner")) and all(
            one and one[-1].at > since for one in objects
        )

    def lost(self) -> int:
        """Returns how many acknowledged publishes Kafka does not have."""
        there = self._halves.written()
        wanted = {(f"{DOMAIN}/{one.group}/{one.object}", one.version) for one in self.acknowledged}
        return len(wanted - there)

    def _looks(self) -> list[HalfLook]:
        self._clients.tell(True)
        return [answer for answer in self._clients.answers(READY_S) if isinstance(answer, HalfLook)]

    def _due(self, group: str, object_: str, before: float) -> int:
        known = self._by_object[group, object_]
        at = bisect_left(known, before, key=lambda one: one.at)
        return known[at - 1].version if at else 0

    def _knows(self, client: ClientLook, at: float) -> bool:
        return all(client.told.get(name, 0) >= self._due(client.group, name, at - _KNOWN_S) for name in _OBJECTS)

    def _judge(self, name: tuple[int, int], client: ClientLook, at: float) -> None:
        if client.caught_up:
            self._settled.setdefault(name, at)
        if client.as_of is None or client.as_of < self._settled.get(name, at):
            return
        before = client.as_of - _DEPOSED_S
        self.wrong += any(client.told.get(one, 0) < self._due(client.group, one, before) for one in _OBJECTS)


def run(bench: BenchRun) -> None:
    """Each back-off has processes of its own. Those of the last one are killed afterwards."""
    moments = [bench[name] for name in ("start_s", "cut_s", "heal_s", "end_s")]
    if any(after <= before for before, after in pairwise(moments)):
        raise ValueError(f"start_s, cut_s, heal_s, end_s: {moments} do not rise")
    *_, last = bench["backoffs"]
    for backoff_s in bench["backoffs"]:
        case = f"split, back-off up to {backoff_s:g} s"
        bench.progress.step(case)
        with ExitStack() as stack:
            halves, watch = _begun(bench, stack, backoff_s)
            _split(bench, halves, watch, {"case": case, "backoff_max_s": backoff_s})
            if backoff_s == last:
                _kills(bench, halves, watch)


def _begun(bench: BenchRun, stack: ExitStack, backoff_s: float) -> tuple[Halves, _Watch]:
    halves = Halves(
        stack,
        bench.new_directory(),
        partitions=bench["partitions"],
        matchers=bench["matchers"],
        gateways=bench["gateways"],
    )
    groups = tuple(f"group-{number}" for number in range(bench["groups"]))
    plans = [
        HalfPlan(
            halves.kafka.networks.name(network),
            halves.kafka.bootstrap,
            tuple(halves.gateways),
            tuple((f"{own}-{n}", groups[n % len(groups)]) for n in range(bench["clients"] // len(HALVES))),
            _OBJECTS,
            own,
            groups,
            bench["keepalive_s"],
            backoff_s,
            bench["every_s"],
        )
        for network, own in zip(HALVES, _OBJECTS, strict=True)
    ]
    clients = stack.enter_context(Loaders(run_half, plans, "process of clients", SplitError))
    return halves, _Watch(halves, clients, groups, bench["every_s"])


def _split(bench: BenchRun, halves: Halves, watch: _Watch, about: Row) -> None:
    while watch.at_s < bench["start_s"]:
        watch.look()
    watch.begin()
    while watch.at_s < bench["cut_s"]:
        watch.look()
    with halves.cut():
        cut, cut_s = time.time(), watch.at_s
        while watch.at_s < bench["heal_s"]:
            watch.look()
        heal = time.time()
    healed_s, whole_s = watch.at_s, None
    while watch.at_s < bench["end_s"] or (whole_s is None and watch.at_s < bench["end_s"] + _LATER_S):
        row = watch.look()
        if whole_s is None and watch.whole_since(heal, row):
            whole_s = row["at_s"] - healed_s
    during = [row for row in watch.rows if cut_s < row["at_s"] < healed_s]
    apart = Counter(one.object for one in watch.acknowledged if cut < one.began and one.at < heal)
    majority, minority = _OBJECTS
    bench.rows.append(
        {
            "part": _CASE,
            **about,
            "clients": bench["clients"],
            "apart_s": bench["heal_s"] - bench["cut_s"],
            "acknowledged_majority": apart[majority],
            "acknowledged_minority": apart[minority],
            "majority_whole_s": majority_again_s(during, cut_s),
            "minority_says_so_s": _for_good(during, cut_s, lambda row: not row[f"says_{minority}"]),
            "whole_s": None if whole_s is None else round(whole_s, 1),
            "lost": watch.lost(),
            "wrong": watch.wrong,
            "restarted": halves.restarted,
        }
    )
    bench.rows += [{"part": _SECOND, "case": about["case"], **row} for row in watch.rows]


def majority_again_s(rows: list[Row], since_s: float) -> float | None:
    """Returns the seconds from `since_s` until the majority's half lacks nothing, after it lacked something; None: it
    still does at the end."""
    whole = [min(row[f"{one}_{_OBJECTS[0]}"] for one in _ALL) == 1 for row in rows]
    lacked = whole.index(False) if False in whole else 0
    return next(
        (round(row["at_s"] - since_s, 1) for row, one in zip(rows[lacked:], whole[lacked:], strict=True) if one), None
    )


def _for_good(rows: list[Row], since_s: float, holds: Callable[[Row], bool]) -> float | None:
    """Returns the seconds from `since_s` until it holds and goes on to hold; None: it does not at the end."""
    last = next((i for i in range(len(rows) - 1, -1, -1) if not holds(rows[i])), -1)
    return round(rows[last + 1]["at_s"] - since_s, 1) if last + 1 < len(rows) else None


def _kills(bench: BenchRun, halves: Halves, watch: _Watch) -> None:
    draw, before, restarted = random.Random(bench["seed"]), len(watch.rows), halves.restarted
    rows: list[Row] = []
    for share in bench["shares"]:
        case = f"{share:.0%} killed"
        bench.progress.step(case)
        names = sorted(draw.sample(sorted(halves.members), round(share * len(halves.members))))
        rows.append({"part": _KILL, "case": case, "clients": bench["clients"], **_killed(halves, watch, names)})
    rows[-1] |= {"lost": watch.lost(), "wrong": watch.wrong, "restarted": halves.restarted - restarted}
    bench.rows += [*rows, *({"part": _SECOND, "case": "killed", **row} for row in watch.rows[before:])]


def _killed(halves: Halves, watch: _Watch, names: list[str]) -> Row:
    killed, killed_s = time.time(), watch.at_s
    halves.kill(names)
    started_s = watch.at_s
    whole_s = _until_whole(watch, killed)
    kinds = Counter(name.partition("-")[0] for name in names)
    return {
        "processes": len(names),
        "killed": ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())),
        "killed_at_s": round(killed_s, 1),
        "started_s": round(started_s - killed_s, 1),
        "fewest_live": min((row["live"] for row in watch.rows if row["at_s"] > killed_s), default=1.0),
        "whole_s": None if whole_s is None else round(whole_s - killed_s, 1),
    }


def _until_whole(watch: _Watch, since: float) -> float | None:
    """Returns the second in which it is whole; None: not in time."""
    until_s = watch.at_s + _LATER_S
    while watch.at_s < until_s:
        row = watch.look()
        if watch.whole_since(since, row):
            return float(row["at_s"])
    return None


def seconds(parameters: Parameters) -> float:
    """About."""
    return float(len(parameters["backoffs"]) * (40 + parameters["end_s"]) + 40 * len(parameters["shares"]))


_TABLES = (
    Shape(
        "Two halves, cut off from each other and joined again",
        {"case": "case", "clients": "clients", "apart, s": "apart_s"},
        {
            "acknowledged meanwhile: majority": "acknowledged_majority",
            "minority": "acknowledged_minority",
            "majority whole, s after the cut": "majority_whole_s",
            "nobody of the minority says to be current, s": "minority_says_so_s",
            "whole again, s after the heal": "whole_s",
            "acknowledged and lost": "lost",
            "wrong about their freshness": "wrong",
        },
        lambda row: row["part"] == _CASE,
    ),
    Shape(
        "A part of all processes killed at once, and started again",
        {"case": "case", "clients": "clients", "processes": "killed"},
        {
            "clients live, the least": "fewest_live",
            "whole again, s after the kill": "whole_s",
            "acknowledged and lost, of all": "lost",
            "wrong about their freshness, of all": "wrong",
        },
        lambda row: row["part"] == _KILL,
    ),
    Shape(
        "Each second, shares of all",
        {"case": "case", "s": "at_s"},
        {
            "live": "live",
            "know the newest": "knows",
            "minority": "knows_minority",
            "say that they are current": "says",
            "minority ": "says_minority",
            "partitions with one owner": "one_owner",
            "acknowledged by the majority": "acknowledged_majority",
            "by the minority": "acknowledged_minority",
        },
        lambda row: row["part"] == _SECOND,
    ),
)
SPLIT_MERGE = Experiment(
    "split_merge",
    "two halves, cut off from each other and joined again",
    {
        "clients": 400,
        "groups": 8,
        "partitions": 8,
        "matchers": 4,
        "gateways": 8,
        "start_s": 10.0,
        "cut_s": 60.0,
        "heal_s": 180.0,
        "end_s": 300.0,
        "keepalive_s": 4,
        "every_s": 1.0,
        "backoffs": (float(BACKOFF_MAX_S), 15.0),
        "shares": (0.25, 0.5, 0.75),
        "seed": 1,
    },
    {
        "clients": 8,
        "groups": 4,
        "partitions": 4,
        "matchers": 2,
        "gateways": 4,
        "start_s": 1.0,
        "cut_s": 6.0,
        "heal_s": 16.0,
        "end_s": 22.0,
        "keepalive_s": 1,
        "backoffs": (15.0,),
        "shares": (0.25,),
    },
    seconds,
    lambda parameters: len(parameters["backoffs"]) + len(parameters["shares"]),
    run,
    _TABLES,
    "Scalaris: 400 nodes, whole again after 110 and 100 s.",
)
