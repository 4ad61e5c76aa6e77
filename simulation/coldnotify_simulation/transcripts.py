"""The command that records `schemas/transcripts/`: what a client does, step by step, for clients in other languages.

Three kinds: scripts against the service of `coldnotify.testing`, random histories against the same, and clients of
simulated worlds with real matchers and gateways. All of it is the same each time.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from coldnotify.testing import Service
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.protocol import WELCOME_S

from coldnotify_simulation import channel_transcripts, moving_transcripts, unsettled_transcripts
from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.recorder import RecordedDriver
from coldnotify_simulation.transcript_unit import DOMAIN, GROUP, SUBSCRIBER, Unit
from coldnotify_simulation.world import World

ONE_CRC = ("config-7f217f6b6dc8", "config-d7e77869948b")
"""Two names under one CRC-32."""
_HISTORIES, _HISTORY_STEPS = 6, 40
_WORLDS = (3, 4, 5)


# ---- scripts


def first_start() -> Unit:
    """Registrations, a catch-up in pages, live versions, and an orderly end."""
    unit = Unit(Service(page_objects=2))
    unit.publish("a", "b", "c", "a")
    unit.want("a", "b", "c", "d/e")
    unit.publish("b", "d/e")
    unit.go(3)
    unit.stop()
    return unit


def wake() -> Unit:
    """A second start that missed two versions, then a third that missed nothing: Hello, Welcome, CaughtUp."""
    before = first_start()
    before.publish("a", "c")
    unit = Unit(before.service, before.disk)
    unit.want("a", "b", "c", "d/e")
    unit.go(3)
    unit.cut()
    unit.go(3)
    unit.stop()
    return unit


def reg_sync() -> Unit:
    """The service has forgotten the registrations; a Ping's digest finds it."""
    unit = Unit()
    unit.want("a", "b", "c")
    unit.go(1)
    unit.service.registered.clear()
    unit.publish("a", "b")
    unit.go(61)
    unit.stop()
    return unit


def reg_sync_of_many() -> Unit:
    """More operations than a Hello carries: chunks, and requests of what came meanwhile."""
    unit = Unit()
    for number in range(150):
        unit.driver.application.register(f"object-{number:03}")
    unit.publish("object-007", "object-149")
    unit.want("object-007", "object-149")
    unit.want("late")
    unit.driver.application.unregister("object-000")
    unit.go(3)
    return unit


def nobody_subscribed() -> Unit:
    """A version without a subscriber becomes a pending registration before the cursor passes it."""
    unit = Unit()
    unit.publish("a")
    unit.driver.application.register("a")
    unit.driver.application.register("b")
    unit.go(2)
    unit.publish("a", "b")
    unit.go(2)
    unit.driver.application.subscribe("a", SUBSCRIBER)
    unit.go(2)
    unit.cut()
    unit.go(5)
    return unit


def registered_again() -> Unit:
    """A client that registers again is told again."""
    unit = Unit()
    unit.publish("a")
    unit.want("a", "b")
    unit.driver.application.unregister("a")
    unit.go(1)
    unit.driver.application.register("a")
    unit.go(1)
    unit.driver.application.unregister("b")
    unit.driver.application.register("b")
    unit.driver.application.register_only(["b", "c"])
    unit.go(2)
    return unit


def new_epoch() -> Unit:
    """The service was set up again: the cursor is void, floors hold."""
    unit = Unit()
    unit.want("a", "b")
    unit.publish("a", "b", "a")
    unit.go(3)
    unit.service.new_epoch()
    unit.go(3)
    unit.publish("b")
    unit.go(3)
    return unit


def incarnations() -> Unit:
    """A higher incarnation restarts versions; a deletion is a version; versions above 2^53 are exact."""
    unit = Unit()
    unit.want("a", "b")
    unit.service.publish(DOMAIN, GROUP, "a", {"n": 1}, version=2**63 - 1)
    unit.go()
    unit.service.publish(DOMAIN, GROUP, "a", version=0, incarnation=1)
    unit.service.publish(DOMAIN, GROUP, "b", deleted=True)
    unit.go(3)
    return unit


def one_crc() -> Unit:
    """Two names under one CRC-32: UseNames in the session, NAMES in the next Hello."""
    unit = Unit()
    unit.publish(*ONE_CRC)
    unit.want(ONE_CRC[0])
    unit.want(ONE_CRC[1])
    unit.publish(*ONE_CRC)
    unit.go(2)
    unit.cut()
    unit.go(3)
    return unit


def callbacks_fail() -> Unit:
    """A callback fails, is tried again, and its object is parked; a newer version gets its own tries."""
    unit = Unit()
    unit.want("a", "b")
    unit.fails = {"a"}
    unit.publish("a", "b")
    unit.go(1.5)
    unit.publish("a")
    unit.go(20)
    unit.fails = set()
    unit.publish("a")
    unit.go(3)
    unit.cut()
    unit.go(3)
    return unit


def callbacks_take_their_time() -> Unit:
    """While one runs, no other begins, and the newest of what arrives meanwhile is told; stopping waits for it."""
    unit = Unit()
    unit.want("a", "b")
    unit.holds = True
    unit.publish("a", "b", "b", "a", "b")
    unit.go(3)
    unit.returns()
    unit.holds = True
    unit.publish("a", "b")
    unit.stop()
    unit.go(3)
    unit.returns()
    return unit


def unregistered_while_it_is_told() -> Unit:
    """An object goes while its callback runs, and comes back."""
    unit = Unit()
    unit.want("a")
    unit.holds = True
    unit.publish("a")
    unit.driver.application.unregister("a")
    unit.go(1)
    unit.driver.application.register("a")
    unit.go(1)
    unit.returns()
    unit.go(2)
    return unit


def abandoned_callback() -> Unit:
    """A callback that is not waited for is called again."""
    unit = Unit()
    unit.want("a")
    unit.holds = True
    unit.publish("a")
    unit.stop(abandon=True)
    return unit


def state_cannot_be_written() -> Unit:
    """What depends on the state waits, and the write is retried, after longer and longer pauses."""
    unit = Unit()
    unit.disk_is_full = True
    unit.want("a")
    unit.go(4)
    unit.disk_is_full = False
    unit.go(10)
    unit.publish("a")
    unit.go(2)
    unit.disk_is_full = True
    unit.publish("a")
    unit.stop()
    return unit


def close_codes() -> Unit:
    """The client's behaviour after each code from which it comes back."""
    unit = Unit()
    unit.want("a")
    come_back = (CloseCode.GOING_AWAY, CloseCode.SILENT, CloseCode.UNKNOWN_SESSION, CloseCode.EXPIRED)
    for code in (*come_back, CloseCode.ABOVE_AGREEMENT, 17):
        unit.service.close_all(code, "because")
        unit.go(10)
    for _ in range(3):
        unit.service.close_all(CloseCode.DISPLACED, "connected elsewhere")
        unit.go(300)
    return unit


def nobody_answers() -> Unit:
    """Each try takes longer, up to a limit."""
    unit = Unit()
    unit.want("a")
    for _ in range(12):
        unit.cut()
        unit.service.away = True
        unit.go(45)
    unit.service.come_back()
    unit.go(400)
    return unit


def refused_for_good() -> Unit:
    """After a code from 64 on, the application is told, and the client does not come back."""
    unit = Unit()
    unit.want("a")
    unit.service.close_all(99, "go away")
    unit.go(1000)
    unit.stop()
    return unit


def registrations_refused() -> Unit:
    """Refused objects leave the wanted set, whether a Welcome or an answer refuses them."""
    unit = Unit(Service(registrations_max=2))
    for name in ("a", "b", "c"):
        unit.driver.application.register(name)
    unit.want("a")
    unit.want("d")
    unit.go(3)
    return unit


def lost_answers() -> Unit:
    """A confirmed registration whose notification does not come is asked for again."""
    unit = Unit()
    unit.want("a")
    unit.service.loses_answers = 2
    unit.want("b")
    unit.go(31)
    unit.go(31)
    return unit


def silence() -> Unit:
    """A gateway that is silent, before its Welcome and after a Ping."""
    unit = Unit()
    unit.want("a")
    unit.service.away = True
    unit.cut()
    unit.go(WELCOME_S + 2)
    unit.service.come_back()
    unit.go(300)
    unit.mute = True
    unit.go(200)
    unit.mute = False
    unit.go(100)
    return unit


def asleep() -> Unit:
    """The machine sleeps. A Ping asks if the connection still works; it does, it does not, and it is missing."""
    unit = Unit()
    unit.want("a")
    unit.go(3)
    unit.sleep(200)
    unit.go(1)
    unit.mute = True
    unit.publish("a")
    unit.sleep(200)
    unit.go(6)
    unit.sleep(100)
    unit.go(3.5)
    unit.mute = False
    unit.go(5)
    unit.service.away = True
    unit.cut()
    unit.go(400)
    unit.driver.connect_now(unit.now_s)
    unit.go(WELCOME_S + 2)
    unit.service.come_back()
    unit.sleep(0)  # the network is another one
    unit.go(5)
    return unit


SCRIPTS = (
    first_start,
    wake,
    reg_sync,
    reg_sync_of_many,
    nobody_subscribed,
    registered_again,
    new_epoch,
    incarnations,
    one_crc,
    callbacks_fail,
    callbacks_take_their_time,
    unregistered_while_it_is_told,
    abandoned_callback,
    state_cannot_be_written,
    close_codes,
    nobody_answers,
    refused_for_good,
    registrations_refused,
    lost_answers,
    silence,
    asleep,
)


# ---- random histories


def history(seed: int) -> Unit:
    """Mostly progress, now and then trouble."""
    random = Random(seed)
    names = ["a", "b", "c", "d/e", *ONE_CRC]
    unit = Unit(Service(page_objects=random.randint(1, 3)))
    steps: dict[Callable[[], None], int] = {
        lambda: unit.go(random.choice([0.125, 0.75, 2.0, 8.0])): 10,
        lambda: unit.publish(random.choice(names)): 10,
        lambda: unit.want(random.choice(names)): 6,
        lambda: unit.driver.application.unregister(random.choice(names)): 2,
        lambda: unit.driver.application.register_only(random.sample(names, 3)): 1,
        lambda: unit.fails.add(random.choice(names)): 2,
        unit.fails.clear: 3,
        lambda: setattr(unit, "holds", True): 2,
        unit.returns: 4,
        unit.cut: 3,
        unit.service.registered.clear: 1,
        unit.service.new_epoch: 1,
        lambda: unit.service.close_all(random.choice([1, 2, 5, 6, 17])): 2,
        lambda: unit.go(random.choice([31.0, 61.0, 400.0])): 2,
        lambda: setattr(unit, "disk_is_full", random.random() < 0.3): 2,
    }
    for _ in range(_HISTORY_STEPS):
        random.choices(list(steps), list(steps.values()))[0]()
    unit.disk_is_full = False
    unit.returns()
    unit.go(100)
    unit.stop()
    return unit


# ---- simulated worlds


def simulated(seed: int) -> RecordedDriver:
    """A client of a world whose gateways and matchers die, and come back."""
    drivers: list[RecordedDriver] = []

    class Recorded(RecordedDriver):
        def __init__(self, *args: object, **named: object) -> None:
            super().__init__(*args, **named)  # type: ignore[arg-type]
            drivers.append(self)

    world = World(seed, clients=1)
    (client,) = world.clients
    client.driver_type = Recorded
    client.know(client.addresses[:1])
    client.wish = {"o0", "o1", "o2"}
    client.failing = 0.1
    world.start()
    for name in client.wish:
        world.highest[client.key_of(name)] = 0
    world.start_client(client)
    world.run(5)
    random = Random(seed)
    for _ in range(8):
        for name in random.sample(["o0", "o1", "o2", "o3"], 2):
            world.publish_next(client.key_of(name))
        _trouble(random, world, client)
        world.run(random.choice([0.5, 2.0, 12.0]))
    world.calm()
    world.clock.run_until(lambda: client.caught_up)
    world.shut_down(client)
    world.run(5)
    return drivers[0]


def _trouble(random: Random, world: World, client: SimulatedClient) -> None:
    matcher, gateway = random.choice(world.matchers), random.choice(world.gateways)
    match random.randrange(6):
        case 0 if client.link is not None:
            client.link.cut("cut")
        case 1:
            gateway.kill()
            gateway.start()
        case 2:
            matcher.kill()
            matcher.start()
        case 3:
            world.register(client, "o3")
        case 4:
            client.unregister("o1")
        case 5:
            gateway.stop()
            world.clock.later(20.0, gateway.go_on)


# ---- the files


def transcripts() -> dict[str, str]:
    """All files, by name."""
    texts = {}
    scripts = [("", script) for script in SCRIPTS]
    scripts += [("channels/", script) for script in channel_transcripts.SCRIPTS]
    scripts += [("moves/", script) for script in moving_transcripts.SCRIPTS]
    scripts += [("unsettled/", script) for script in unsettled_transcripts.SCRIPTS]
    for folder, script in scripts:
        name = folder + script.__name__.replace("_", "-")
        texts[name] = script().driver.transcript(name, script.__doc__ or "")
    for seed in range(1, _HISTORIES + 1):
        name = f"history-{seed}"
        texts[name] = history(seed).driver.transcript(name, "A random history.")
    for seed in range(1, unsettled_transcripts.HISTORIES + 1):
        name = f"unsettled/history-{seed}"
        text = unsettled_transcripts.history(seed).driver.transcript(name, "A random history of callbacks that raise.")
        texts[name] = text
    for seed in _WORLDS:
        name = f"simulated-{seed}"
        texts[name] = simulated(seed).transcript(name, "In a simulated world, with matchers and gateways that die.")
    return {f"{name}.jsonl": text for name, text in texts.items()}


def main(argv: Sequence[str] | None = None) -> int:
    """Write them."""
    parser = argparse.ArgumentParser(prog="coldnotify_simulation.transcripts", description=main.__doc__)
    parser.add_argument("directory", type=Path, help="schemas/transcripts; what is there and is no transcript goes")
    directory: Path = parser.parse_args(argv).directory
    texts = transcripts()
    for old in directory.rglob("*.jsonl"):
        if old.relative_to(directory).as_posix() not in texts:
            old.unlink()
    for name, text in texts.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
