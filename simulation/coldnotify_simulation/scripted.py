"""Helpers of scripted interleavings: a world that is ready, waits for requests, and checks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from unittest.mock import patch

from coldnotify_matcher.engine.inputs.loading import Loading
from coldnotify_schemas.internal_pb2 import Inbox, Request
from coldnotify_schemas.topics import TopicNames

from coldnotify_simulation.client import SimulatedClient
from coldnotify_simulation.gateway import SimulatedGateway
from coldnotify_simulation.kafka import merged_registrations
from coldnotify_simulation.link import SimulatedLink
from coldnotify_simulation.promises import Broken
from coldnotify_simulation.world import World

TOPICS = TopicNames()

Rule = Callable[[], AbstractContextManager[object]]
"""Takes a rule out of the product."""


def connected(*names: str, clients: int = 1, channels: bool = False) -> World:
    """The first client is registered for these objects, each published once, and caught up.

    `channels`: logs of channels are followed.
    """
    world = World(1, clients=clients, late_s=0.001)
    for matcher in world.matchers:
        matcher.channels = channels
    world.start()
    client = world.clients[0]
    client.wish = set(names)
    for name in names:
        world.publish_next(client.key_of(name))
    world.start_client(client)
    world.clock.run_until(lambda: client.caught_up)
    world.run(8.0)
    return world


def link_of(client: SimulatedClient) -> SimulatedLink:
    """Its connection, which is there."""
    assert client.link is not None
    return client.link


def gateway_of(world: World, client: SimulatedClient) -> SimulatedGateway:
    """The gateway that it is connected to."""
    (gateway,) = (one for one in world.gateways if one is link_of(client).gateway)
    return gateway


def until_request(world: World, kind: str, count: int = 1) -> None:
    """Runs until so many more requests of this kind are in the first partition, and not a moment longer."""
    log = world.kafka.log(TOPICS.requests, 0)
    start = log.end

    def there() -> bool:
        requests = [Request.FromString(entry.value or b"") for entry in log.entries if entry.offset >= start]
        return [request.WhichOneof("body") for request in requests].count(kind) >= count

    world.clock.run_until(there)


def until_item(world: World, kind: str, inbox: int) -> int:
    """Until a record with such an item comes into this inbox: its offset."""
    log = world.kafka.log(TOPICS.notifications, inbox)
    start = log.end
    found: list[int] = []

    def there() -> bool:
        for entry in log.entries:
            items = Inbox.FromString(entry.value or b"").items
            if entry.offset >= start and any(item.WhichOneof("item") == kind for item in items):
                found.append(entry.offset)
        return bool(found)

    world.clock.run_until(there)
    return found[0]


def no_matcher(world: World) -> None:
    """All are dead, until `calm`."""
    for matcher in world.matchers:
        matcher.kill()


def takeover(world: World) -> None:
    """All die, and begin again."""
    no_matcher(world)
    world.run(7.0)
    for matcher in world.matchers:
        matcher.start()
    world.run(3.0)


def one_gateway(world: World, *, inbox: int | None = None) -> None:
    """The second one is dead until `calm`; the first one restarts, if it is to have this inbox."""
    first, second = world.gateways
    second.kill()
    if inbox is not None:
        first.kill()
        first.inbox = inbox
        first.start()


def must(holds: bool, what: str) -> None:
    """Raises Broken where it does not."""
    if not holds:
        raise Broken(what)


def registered(world: World, client: SimulatedClient) -> set[str]:
    """Returns the client's objects in the registrations topic."""
    records = merged_registrations(world.kafka.log(TOPICS.registrations, 0))
    mine = [record for key, record in records.items() if key.rpartition("/")[0] == client.key]
    return {name for record in mine for name in record.objects}


def must_stay_registered(world: World, client: SimulatedClient, name: str) -> None:
    """Checks, at each further record of registrations, that the topic still contains this one."""
    on_append = world._on_append

    def watched(topic: str, partition: int, entry: object) -> None:
        on_append(topic, partition, entry)  # type: ignore[arg-type]
        if topic == TOPICS.registrations:
            must(name in registered(world, client), f"P5: {client.name} is not registered for {name} for a while")

    world.kafka._on_append = watched


def must_be_told(world: World, client: SimulatedClient, name: str, version: tuple[int, int]) -> None:
    """Checks that the client has been told this version or a newer one."""
    told = world.promises.told(client, name)
    must(told >= version, f"P2: {client.name} was told {told} of {name}, not {version}")


@contextmanager
def no_session_is_doubted() -> Iterator[None]:
    """A loading matcher accepts registrations as it finds them; a doubt would discover what is missing too early."""
    with patch.object(Loading, "_doubt", lambda *_: None):
        yield


def check(play: Callable[[], None], *rules: Rule) -> None:
    """It holds, and is broken without these rules."""
    play()
    with ExitStack() as stack:
        for rule in rules:
            stack.enter_context(rule())
        try:
            play()
        except Broken:
            return
    raise AssertionError("it holds without its rule, too")
