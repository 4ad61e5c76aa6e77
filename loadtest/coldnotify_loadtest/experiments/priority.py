"""Priority: alarms of high priority while a client behind a slow link is caught up with a large backlog."""

import random
import threading
import time
from statistics import median

from coldnotify import Connection, Message, Notification, Notify, State
from coldnotify.publisher import Publisher as Library
from coldnotify_load.population import Population
from coldnotify_testkit.slow_link import needed_bytes, slow_link
from coldnotify_testkit.waiting import wait_for

from coldnotify_loadtest.bench import READY_S, BenchRun, Experiment, Parameters, identity
from coldnotify_loadtest.servers import HOST, ColdNotify
from coldnotify_loadtest.tables import Shape

_ALARM = "alarm"
_BACKLOG = "backlog"
"""The channel in which the backlog is, where it is in one."""
_PAGE_S = 2.0
"""As much is in transit to a client as its link carries in this time."""
_ROUND_TRIP_S = 0.25
"""Round trip of the link, with an alarm of some hundred bytes, and of Kafka."""
_PAUSE_S_MAX = 3.0
"""Between two alarms: at any moment of a page."""
_SEED = 50_000
CASES = {
    "objects": "an object among objects",
    "channels": "a channel among channels",
    "channel": "a channel among objects",
}
"""The kinds of alarms and of the backlog. In a channel, an ordinary message comes right before each alarm."""


class _Told:
    """A subscriber that notes when each alarm came, and how many of the others have come."""

    def __init__(self) -> None:
        self.alarms: dict[int, float] = {}
        self.others = 0
        self.in_order = True
        """No message of the alarms' channel came before an earlier one."""
        self._last = -1
        self._changed = threading.Condition()

    def on_version(self, notification: Notification) -> None:
        with self._changed:
            if notification.object_id != _ALARM:
                self.others += 1
            elif notification.version is not None:
                self._note(notification.version)

    def on_message(self, message: Message) -> None:
        with self._changed:
            if message.channel != _ALARM:
                self.others += 1
                return
            number = message.payload["number"]
            self.in_order = self.in_order and number == self._last + 1
            self._last = number
            self._note(number)

    def _note(self, number: int) -> None:
        self.alarms[number] = time.monotonic()
        self._changed.notify_all()

    def wait(self, number: int, timeout_s: float) -> float | None:
        """Returns when it came, on the monotonic clock; None: not in time."""
        with self._changed:
            self._changed.wait_for(lambda: number in self.alarms, timeout_s)
            return self.alarms.get(number)


def run(bench: BenchRun) -> None:
    """A client sleeps while the backlog is published, then wakes behind the link; alarms are published meanwhile."""
    for case in bench["cases"]:
        if case not in CASES:
            raise ValueError(f"cases: unknown value {case!r}, expected one of {', '.join(CASES)}")
    for case in bench["cases"]:
        _run_case(bench, case)


def _run_case(bench: BenchRun, case: str) -> None:
    population = Population(fan_out=1, registrations=bench["objects"])
    names, domain, group = population.objects(0), population.domain, population.group(0)
    payload = "x" * bench["payload_bytes"]
    rng = random.Random(_SEED)
    with (
        ColdNotify(bench.new_directory()) as server,
        Library(kafka=server.kafka) as library,
        slow_link(HOST, server.port, bits_per_s=bench["bits_per_s"]) as link,
    ):
        state = State(filename=str(server.directory / "client.json"))

        def client(port: int, told: _Told) -> Notify:
            made = Notify(domain, group, "slow", state, Connection(HOST, port))
            for name in () if case == "channels" else names:
                made.register(name).subscribe(told.on_version)
            if case == "objects":
                made.register(_ALARM).subscribe(told.on_version)
            else:
                for name in (_ALARM, _BACKLOG):
                    made.channel(name).subscribe(told.on_message)
            return made

        def alarm(number: int) -> int:
            """Raises an alarm; returns the number by which it is told."""
            if case == "objects":
                return library.publish(domain, group, _ALARM, payload={"number": number}, priority="high").version
            library.send(domain, group, _ALARM, {"number": 2 * number})
            library.send(domain, group, _ALARM, {"number": 2 * number + 1}, priority="high")
            return 2 * number + 1

        bench.progress.step(f"{CASES[case]}: the client registers, and sleeps")
        with client(server.port, _Told()) as awake:
            wait_for(lambda: awake.caught_up, "registered", READY_S)
        bench.progress.step("the backlog is published")
        for name in names:
            if case == "channels":
                library.send(domain, group, _BACKLOG, payload)
            else:
                library.publish(domain, group, name, version=1, payload=payload)
        library.flush(READY_S)
        bench.progress.step("it wakes behind the link, and alarms come")
        told, waits_s = _Told(), []
        with client(link.port, told):
            wait_for(lambda: told.others, "it makes progress", READY_S)
            for number in range(bench["alarms"]):
                time.sleep(rng.uniform(0, _PAUSE_S_MAX))
                began_s = time.monotonic()
                came_s = told.wait(alarm(number), bench["timeout_s"])
                if came_s is not None:
                    waits_s.append(came_s - began_s)
            left_bytes = needed_bytes(names[told.others :], payload, 1)
        bench.rows.append(
            {
                **identity(server),
                "case": CASES[case],
                "backlog_bytes": needed_bytes(names, payload, 1),
                "alarms": bench["alarms"],
                "told": len(waits_s),
                "in_order": told.in_order,
                "within": sum(one <= _PAGE_S + _ROUND_TRIP_S for one in waits_s),
                "median_s": round(median(waits_s), 2) if waits_s else None,
                "longest_s": round(max(waits_s), 2) if waits_s else None,
                "left_bytes": left_bytes,
            }
        )


def _seconds(parameters: Parameters) -> float:
    """About: each alarm its pause and a page."""
    return len(tuple(parameters["cases"])) * (30.0 + int(parameters["alarms"]) * (_PAUSE_S_MAX / 2 + _PAGE_S))


_TABLES = (
    Shape(
        "Alarms while a backlog is told behind a slow link",
        {"an alarm is": "case", "backlog, bytes": "backlog_bytes", "alarms": "alarms"},
        {
            "told": "told",
            "within a page and a round trip": "within",
            "median, s": "median_s",
            "longest, s": "longest_s",
            "backlog left at the end, bytes": "left_bytes",
        },
    ),
)
PRIORITY = Experiment(
    "priority",
    "alarms of high priority while a large backlog is told behind a slow link",
    {
        "cases": tuple(CASES),
        "objects": 500,
        "payload_bytes": 4000,
        "bits_per_s": 50_000.0,
        "alarms": 20,
        "timeout_s": 30.0,
        "processes": 1,
    },
    {"objects": 40, "alarms": 2, "payload_bytes": 1000},
    _seconds,
    lambda _: 3,
    run,
    _TABLES,
)
