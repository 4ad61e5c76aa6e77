"""The whole core while the power goes between any two steps, and in random histories: all is told in the end."""

from __future__ import annotations

from random import Random

import pytest
from coldnotify._core.document.document import decode
from coldnotify._core.settings import ClientSettings
from coldnotify.testing import Service
from coldnotify_testkit.client_world import DOMAIN, GROUP, KEY, ME, NAMES, ClientWorld, publish
from coldnotify_testkit.examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st


def first_start(world: ClientWorld) -> None:
    """Registrations, a catch-up in pages, live versions."""
    for name in NAMES:
        publish(world, name)
        world.subscribe(name)
        world.register(name)
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.run(lambda world: world.told.get("b") == (0, 1))
    end = world.service.partition(DOMAIN, GROUP).end
    world.run(lambda world: world.disk is not None and decode(world.disk, ME).cursor == end)


def reg_sync(world: ClientWorld) -> None:
    """The service has forgotten us, and what is published meanwhile passes us by, until a Ping finds out."""
    for name in ("a", "b", "c"):
        world.subscribe(name)
        world.register(name)
    world.run()
    world.forget_registrations()
    publish(world, "a")
    publish(world, "b")
    world.run(lambda world: world.told.get("b") == (0, 0))


def nobody_subscribed(world: ClientWorld) -> None:
    """Notifications that wait for subscribe()."""
    world.register("a")
    world.register("b")
    publish(world, "a")
    world.run()
    publish(world, "a")
    publish(world, "b")
    world.run(lambda world: world.disk is not None and decode(world.disk, ME).cursor == 3)


def re_registered(world: ClientWorld) -> None:
    """Unregister, then register again."""
    world.subscribe("a")
    world.register("a")
    publish(world, "a")
    world.run()
    world.unregister("a")
    world.run(lambda world: not world.service.registered.get(KEY))
    publish(world, "b")
    world.register("a")
    world.run()


def new_epoch(world: ClientWorld) -> None:
    """The service has been set up anew."""
    for name in ("a", "b"):
        world.subscribe(name)
        world.register(name)
        publish(world, name)
    world.run()
    world.service.new_epoch()
    publish(world, "b")
    world.run(lambda world: world.told.get("b") == (0, 1))


@pytest.mark.parametrize("scenario", [first_start, reg_sync, nobody_subscribed, re_registered, new_epoch])
def test_a_power_cut_between_any_two_steps_loses_nothing(scenario):
    step = 0
    while True:
        step += 1
        world = ClientWorld(seed=step)
        world.crash_at = step
        scenario(world)
        passed = world.crash_at > 0
        world.crash_at = None
        world.settle()
        if passed:
            break
    assert step > 20


def play(seed: int, steps: int) -> ClientWorld:
    """A random history, the same for the same seed: mostly progress, now and then trouble; in the end, peace."""
    random = Random(seed)
    world = ClientWorld(
        Service(page_objects=random.randint(1, 3)), ClientSettings(tries_max=random.randint(1, 3)), seed
    )
    trouble = random.choice([0.02, 0.1, 0.3])
    # Some applications subscribe as they register, some take their time.
    eager = random.random() < 0.7

    def network() -> None:
        few = random.random() < 0.2
        for _ in range(random.randint(1, 4)):
            world.network(random.choice([None, 7, 50]) if few else None, random.choice([None, 7, 50]) if few else None)

    def register() -> None:
        name = random.choice(NAMES)
        world.register(name)
        if eager:
            world.subscribe(name)

    def unsubscribe() -> None:
        if world.job is None:
            world.unsubscribe(random.choice(NAMES))

    def register_only() -> None:
        only = set(random.sample(NAMES, random.randint(0, len(NAMES))))
        for name in world.wanted - only:
            world.forget_told(name)
        world.wanted = only
        world.client.application.register_only(only)

    def publish() -> None:
        name = random.choice(NAMES)
        old = world.service.newest(DOMAIN, GROUP, name)
        incarnation = old.incarnation + 1 if old is not None and random.random() < 0.1 else None
        world.service.publish(DOMAIN, GROUP, name, {"n": 1}, incarnation=incarnation, hold=random.random() < 0.2)

    def away() -> None:
        world.service.away = True

    progress = {
        network: 40,
        world.begin_save: 8,
        lambda: world.end_save(error=random.random() < 0.1): 10,
        world.begin_job: 10,
        lambda: world.end_job(fails=random.random() < 0.25): 10,
        publish: 10,
        lambda: world.service.release(DOMAIN, GROUP, random.choice(NAMES)): 3,
        world.service.come_back: 3,
        lambda: world.pass_time(random.choice([0.1, 0.6, 1.5, 5])): 10,
    }
    troubles = {
        register: 6,
        lambda: world.unregister(random.choice(NAMES)): 2,
        register_only: 1,
        lambda: world.subscribe(random.choice(NAMES)): 3,
        unsubscribe: 2,
        world.cut: 4,
        world.crash: 3,
        away: 1,
        world.forget_registrations: 1,
        world.service.new_epoch: 1,
        lambda: world.service.close_all(random.choice([1, 2, 5, 6, 17])): 1,
        lambda: world.pass_time(random.choice([31, 61, 400])): 2,
    }
    for _ in range(random.randint(1, 4)):
        register()
    for _ in range(steps):
        actions = troubles if random.random() < trouble else progress
        random.choices(list(actions), list(actions.values()))[0]()
    world.settle()
    return world


@pytest.mark.parametrize("block", range(examples(0.2)))
def test_whatever_happens_everything_is_told_in_the_end(block):
    """A failure says its seed: `play(seed, 120)` plays it again."""
    for seed in range(block * 40, block * 40 + 40):
        try:
            play(seed, 120)
        except AssertionError as error:
            raise AssertionError(f"play({seed}, 120): {error}") from error


@settings(max_examples=examples(1.0), deadline=None)
@given(seed=st.integers(0, 1 << 32), steps=st.integers(0, 300))
def test_also_in_histories_that_nobody_has_tried(seed, steps):
    play(seed, steps)
