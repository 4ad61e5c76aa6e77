"""Scripts of clients that know several gateways, a home, or a directory. See `transcripts`."""

from coldnotify._core.session.reconnect import Address, Gateways
from coldnotify._core.settings import ClientSettings
from coldnotify.testing import Service
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.wire_pb2 import Close, GatewayFrame

from coldnotify_simulation.transcript_unit import Unit

SETTINGS = ClientSettings(keepalive_s=4, tries_max=3)
HOME, ONE, TWO, THREE = (Address(host, 1) for host in ("home", "one", "two", "three"))
LIGHT_AND_HEAVY = [(ONE, 1), (TWO, 5)]
"""A client whose draws all are the middle begins with the heavier one."""


def _unit(gateways: Gateways, service: Service | None = None) -> Unit:
    unit = Unit(service, gateways=gateways, settings=SETTINGS)
    unit.want("a", "b")
    unit.go(3)
    return unit


def _away() -> Unit:
    unit = Unit(gateways=Gateways([(ONE, 1)], HOME), settings=SETTINGS)
    unit.dead.add(str(HOME))
    unit.want("a", "b")
    unit.go(3)
    unit.dead.clear()
    return unit


def by_weight() -> Unit:
    """The heavier address is first; each that fails rests, then the one that failed first is tried."""
    unit = Unit(gateways=Gateways([*LIGHT_AND_HEAVY, (THREE, 1)]), settings=SETTINGS)
    unit.dead.update((str(ONE), str(TWO), str(THREE)))
    unit.want("a")
    unit.go(20)
    unit.dead.clear()
    unit.go(30)
    unit.stop()
    return unit


def on_the_way_home() -> Unit:
    """A home that was away is tried beside the session; the session goes on there, and its operations with it."""
    unit = _away()
    unit.publish("a")
    unit.go(50)
    unit.publish("b")
    unit.want("c")
    unit.go(3)
    unit.stop()
    return unit


def many_pages_at_home() -> Unit:
    """It is told in pages what it lacks, which the trial acknowledges; the session takes them at once."""
    unit = Unit(Service(page_objects=2), gateways=Gateways([(ONE, 1)], HOME), settings=SETTINGS)
    unit.dead.add(str(HOME))
    names = [f"o{number}" for number in range(7)]
    unit.want(*names)
    unit.go(3)
    unit.dead.clear()
    unit.cut_off.add(str(ONE))
    for name in names:
        unit.service.publish("animal.observer", "region-1", name, {"of": name})
    unit.go(60)
    unit.go(3)
    return unit


def registered_while_it_was_stale() -> Unit:
    """Its gateway is cut off, and an operation is pending: the other one's Welcome is not in sync, and the set is
    said.
    """
    unit = _unit(Gateways(LIGHT_AND_HEAVY))
    unit.cut_off.add(str(TWO))
    unit.want("c")
    unit.service.publish("animal.observer", "region-1", "c", {"of": "c"})
    unit.go(200)
    return unit


def stale() -> Unit:
    """Its gateway is cut off: after 3 x fresh_s and half a minute it is elsewhere, and told what it missed."""
    unit = _unit(Gateways(LIGHT_AND_HEAVY))
    unit.cut_off.add(str(TWO))
    unit.service.publish("animal.observer", "region-1", "a", {"of": "a"})
    unit.go(150)
    return unit


def all_are_cut_off() -> Unit:
    """A refusal before any answer: it stays, and tries after ever longer times."""
    unit = _unit(Gateways(LIGHT_AND_HEAVY))
    unit.cut_off.add(str(TWO))
    unit.full[str(ONE)] = Close(code=CloseCode.OVERLOADED, reason="cut off", retry_after_s=20)
    unit.go(500)
    return unit


def sent_away() -> Unit:
    """OVERLOADED with not_here_s: at once elsewhere, and not back before; then with retry_after_s."""
    unit = _unit(Gateways(LIGHT_AND_HEAVY))
    for close in (
        Close(code=CloseCode.OVERLOADED, reason="too many", not_here_s=100),
        Close(code=CloseCode.OVERLOADED, reason="too many", retry_after_s=30),
        Close(code=CloseCode.GOING_AWAY, reason="stopping", retry_after_s=50),
    ):
        unit.say(GatewayFrame(close=close))
        unit.go(60)
    return unit


def a_home_that_ends_sessions() -> Unit:
    """Three sessions at home end within ten minutes: it is left alone for as long."""
    unit = _unit(Gateways([(ONE, 1)], HOME))
    for _ in range(3):
        unit.cut()
        unit.go(5)
    unit.go(700)
    return unit


def its_session_ends_meanwhile() -> Unit:
    """Its session ends while a trial waits for its answer: the trial's connection has it."""
    unit = _unit(Gateways(LIGHT_AND_HEAVY))
    unit.cut_off.update((str(ONE), str(TWO)))
    unit.go(125)
    unit.cut()
    unit.go(10)
    unit.heal()
    unit.go(40)
    return unit


def by_directory() -> Unit:
    """No address is known: the directory names none at first, then one; later, when that is dead, another."""
    unit = Unit(gateways=Gateways([], None, directory=True), settings=SETTINGS)
    unit.want("a")
    unit.go(25)
    unit.name(ONE)
    unit.go(25)
    unit.name(TWO)
    unit.dead.add(str(ONE))
    unit.cut()
    unit.go(10)
    unit.stop()
    return unit


SCRIPTS = (
    by_weight,
    on_the_way_home,
    many_pages_at_home,
    registered_while_it_was_stale,
    stale,
    all_are_cut_off,
    sent_away,
    a_home_that_ends_sessions,
    its_session_ends_meanwhile,
    by_directory,
)
