"""Scripts of clients that report what their callbacks have not taken, for `schemas/transcripts/unsettled/`."""

from collections.abc import Callable
from random import Random

from coldnotify._core.interests.interests import ChannelInterest
from coldnotify._core.interests.since import NOW
from coldnotify.testing import Service

from coldnotify_simulation.transcript_unit import Unit

TASKS, ALARMS = ChannelInterest("tasks", ()), ChannelInterest("alarms", ())
MANY = 150
HISTORIES, HISTORY_STEPS = 4, 60


def a_wake_that_says_nothing() -> Unit:
    """A registration is settled once its callback has returned, and the next wake does not mention it."""
    before = _unit()
    before.publish("a")
    before.want("a", "b")
    before.go(10)
    before.stop()
    unit = _unit(before)
    unit.want("a", "b")
    unit.go(10)
    unit.stop()
    return unit


def busy() -> Unit:
    """A callback that does not return keeps its object unsettled. Bye follows the changes."""
    unit = _unit()
    unit.want("a")
    unit.go(10)
    unit.holds = True
    unit.publish("b")
    unit.want("b")
    unit.go(10)
    unit.returns()
    unit.want("c")
    unit.stop()
    return unit


def callbacks_raise() -> Unit:
    """A callback raises and its object is parked; a newer version is tried, and in the next session it returns."""
    unit = _unit()
    unit.want("a", "b")
    unit.go(10)
    unit.fails = {"a"}
    unit.publish("a", "b")
    unit.go(20)
    unit.publish("a")
    unit.go(20)
    unit.cut()
    unit.go(10)
    unit.fails = set()
    unit.cut()
    unit.go(10)
    unit.stop()
    return unit


def a_callback_raises_once() -> Unit:
    """What is taken before it was reported is not reported; what was reported is withdrawn."""
    unit = _unit()
    unit.want("a")
    unit.go(10)
    unit.fails = {"a"}
    unit.publish("a")
    unit.fails = set()
    unit.go(10)
    unit.fails = {"a"}
    unit.publish("a")
    unit.go(1.5)
    unit.publish("a")
    unit.go(6)
    unit.fails = set()
    unit.go(20)
    return unit


def nobody_subscribed() -> Unit:
    """A version without a subscriber is pending, so it stays unsettled, in the next session, too."""
    unit = _unit()
    unit.publish("a")
    unit.driver.application.register("a")
    unit.want("b")
    unit.go(10)
    unit.cut()
    unit.go(10)
    unit.driver.application.unregister("a")
    unit.go(10)
    return unit


def more_than_a_hello_carries() -> Unit:
    """If there are many, Hello does not carry all: the rest follows CaughtUp."""
    unit = _unit(page_objects=100)
    names = [f"object-{number:03}" for number in range(MANY)]
    for name in names:
        unit.driver.application.register(name)
    unit.want(*names[:100])
    unit.go(10)
    unit.cut()
    unit.go(10)
    unit.want(*names[100:])
    unit.go(10)
    return unit


def reg_sync() -> Unit:
    """The service has forgotten the registrations. What is unsettled then is reported again."""
    unit = _unit()
    unit.want("a", "b")
    unit.go(10)
    unit.fails = {"a"}
    unit.service.registered.clear()
    unit.publish("a")
    unit.go(70)
    unit.fails = set()
    unit.cut()
    unit.go(10)
    return unit


def nobody_answers() -> Unit:
    """A service of release 0.1.0 never answers: everything is repeated, ever more rarely, and in the next Hello."""
    unit = _unit()
    unit.service.answers_unsettled = False
    unit.want("a")
    unit.go(2000)
    unit.publish("a")
    unit.go(10)
    unit.cut()
    unit.go(10)
    unit.stop()
    return unit


def state_cannot_be_written() -> Unit:
    """Nothing is reported before the document contains that something is unsettled, in no Hello either."""
    unit = _unit()
    unit.want("a")
    unit.go(10)
    unit.disk_is_full = True
    unit.fails = {"a"}
    unit.publish("a")
    unit.go(30)
    unit.cut()
    unit.go(30)
    unit.disk_is_full = False
    unit.go(70)
    unit.fails = set()
    unit.cut()
    unit.go(10)
    return unit


def channels() -> Unit:
    """A channel that is behind reports up to where it is told, and one whose log is empty is settled."""
    unit = _unit()
    unit.want_channel(TASKS)
    unit.want_channel(ALARMS, NOW)
    unit.go(10)
    unit.send("tasks", "tasks")
    unit.go(5)
    unit.fails = {"tasks"}
    unit.send("tasks", "tasks", "alarms")
    unit.go(20)
    unit.cut()
    unit.go(20)
    unit.fails = set()
    unit.cut()
    unit.go(20)
    unit.stop()
    return unit


SCRIPTS = (
    a_wake_that_says_nothing,
    busy,
    callbacks_raise,
    a_callback_raises_once,
    nobody_subscribed,
    more_than_a_hello_carries,
    reg_sync,
    nobody_answers,
    state_cannot_be_written,
    channels,
)


def history(seed: int) -> Unit:
    """Mostly progress, now and then trouble, and callbacks that raise: of objects, or of channels."""
    random = Random(seed)
    names = ["a", "b", "c", "d/e"] if seed % 2 else []
    channels = [] if seed % 2 else [TASKS, ALARMS]
    unit = _unit(page_objects=random.randint(1, 3))
    steps: list[Callable[[], object]] = [
        *[lambda: unit.go(random.choice([0.125, 0.75, 2.0, 8.0]))] * 10,
        *[lambda: unit.publish(random.choice(names))] * 8 * bool(names),
        *[lambda: unit.want(random.choice(names))] * 6 * bool(names),
        *[lambda: unit.driver.application.unregister(random.choice(names))] * 2 * bool(names),
        *[lambda: unit.send(random.choice(channels).name)] * 8 * bool(channels),
        *[lambda: unit.want_channel(random.choice(channels))] * 6 * bool(channels),
        *[lambda: unit.driver.application.unregister_channel(random.choice(channels).name)] * bool(channels),
        *[lambda: unit.fails.add(random.choice([*names, *(one.name for one in channels)]))] * 4,
        *[unit.fails.clear] * 2,
        lambda: setattr(unit, "holds", True),
        *[unit.returns] * 3,
        *[unit.cut] * 3,
        unit.service.registered.clear,
        unit.service.new_epoch,
        *[lambda: unit.go(random.choice([31.0, 61.0]))] * 2,
        *[lambda: setattr(unit, "disk_is_full", random.random() < 0.3)] * 2,
        *[lambda: setattr(unit.service, "answers_unsettled", random.random() < 0.7)] * 2,
    ]
    for _ in range(HISTORY_STEPS):
        random.choice(steps)()
    unit.disk_is_full, unit.service.answers_unsettled = False, True
    unit.fails.clear()
    unit.returns()
    unit.cut()
    unit.go(100)
    unit.stop()
    return unit


def _unit(before: Unit | None = None, *, page_objects: int = 2) -> Unit:
    """A new client, or the one of `before` started again."""
    if before is None:
        return Unit(Service(page_objects=page_objects), say_unsettled=True)
    return Unit(before.service, before.disk, say_unsettled=True)
