"""How much a domain has: objects, live clients and registrations, as they come and go."""

from coldnotify_matcher.engine.upkeep.inventory import DomainHolding
from coldnotify_testkit.engine_bench import DOMAIN, EngineBench


def test_what_comes_and_goes_is_counted() -> None:
    bench = EngineBench()
    assert bench.engine.inventory.look() == {}
    bench.opened("a", session=1, client="client-1")
    bench.register("b", session=1, client="client-1")
    bench.opened("a", session=2, client="client-2")
    bench.version("a", 1)
    bench.version("nobody's", 1)
    bench.settle()
    assert bench.engine.inventory.look() == {DOMAIN: DomainHolding(objects=2, clients=2, registrations=3)}, (
        "b was never published"
    )
    bench.leave(session=2, client="client-2")
    bench.unregister("b", session=1, client="client-1")
    bench.settle()
    assert bench.engine.inventory.look() == {DOMAIN: DomainHolding(objects=2, clients=1, registrations=2)}


def test_an_object_that_is_deleted_makes_room() -> None:
    bench = EngineBench()
    bench.version("a", 1)
    bench.version("b", 1)
    bench.publish("a", b'{"version":2,"deleted":true}')
    bench.publish("a", b'{"version":2,"deleted":true}')
    bench.settle()
    assert bench.engine.inventory.look() == {DOMAIN: DomainHolding(objects=1)}
    bench.load()
    assert bench.engine.inventory.look() == {DOMAIN: DomainHolding(objects=1)}
    bench.version("a", 3)
    bench.version("a", 3)
    bench.settle()
    assert bench.engine.inventory.look() == {DOMAIN: DomainHolding(objects=2)}


def test_a_successor_counts_the_same() -> None:
    bench = EngineBench()
    bench.opened("a", session=1, client="client-1")
    bench.version("a", 1)
    bench.version("nobody's", 1)
    bench.settle()
    before = bench.engine.inventory.look()
    bench.load()
    assert bench.engine.inventory.look() == before == {DOMAIN: DomainHolding(objects=2, clients=1, registrations=1)}


def test_who_is_gone_leaves_nothing() -> None:
    bench = EngineBench()
    bench.opened(session=1, client="client-1")
    bench.leave(session=1, client="client-1")
    bench.settle()
    assert bench.engine.inventory.look() == {}
    assert bench.engine.state.tallies == {}
