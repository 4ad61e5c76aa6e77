"""A simulated matcher over logs of channels: followed, taken over, read in blocks, shortened by retention."""

from coldnotify_schemas import internal_pb2, wire_pb2
from coldnotify_schemas.interests import channel_hash
from coldnotify_schemas.internal_pb2 import Inbox, Request
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.scripted import no_matcher
from coldnotify_simulation.world import DOMAIN, GROUPS, World
from coldnotify_testkit.channels_bench import entry_of

TOPICS = TopicNames()

LOG = TOPICS.channels_1d
NUMBER = 0
KEY = f"{DOMAIN}/{GROUPS[0]}/tasks".encode()


def world_with_channels(seed: int) -> World:
    world = World(seed)
    for matcher in world.matchers:
        matcher.channels = True
    world.start()
    world.run(5.0)
    return world


def send(world: World, count: int) -> None:
    for _ in range(count):
        world.kafka.append(LOG, NUMBER, world.clock.now_ms, KEY, b"payload", [("source", b"a-back-end")])


def committed(world: World) -> int:
    return world.kafka.committed_offset(LOG, NUMBER)[0]


def until(world: World, condition: object) -> None:
    assert callable(condition)
    world.clock.run_until(condition)


def ask(world: World, session: int, **body: object) -> None:
    """As a gateway that is not one of the world's."""
    request = Request(
        format=1, gateway=999, inbox=0, session=session, domain=DOMAIN, group=GROUPS[0], client="listener",
        **body,  # type: ignore[arg-type]
    )  # fmt: skip
    world.kafka.append(TOPICS.requests, NUMBER, world.clock.now_ms, b"key", request.SerializeToString())


def pages(world: World, session: int) -> list[internal_pb2.Page]:
    inbox = world.kafka.log(TOPICS.notifications, 0)
    records = (Inbox.FromString(entry.value or b"") for entry in inbox.entries)
    items = [item for record in records if record.gateway == 999 for item in record.items]
    return [item.stream_page for item in items if item.stream_page.session == session]


def test_a_log_is_followed_and_committed_across_a_takeover() -> None:
    world = world_with_channels(1)
    send(world, 5)
    until(world, lambda: committed(world) == 5)
    no_matcher(world)
    send(world, 3)
    world.run(7.0)
    assert committed(world) == 5
    for matcher in world.matchers:
        matcher.start()
    until(world, lambda: committed(world) == 8)
    assert world.kafka.log(TOPICS.channels_state, NUMBER).end > 0


def test_a_client_that_is_behind_is_told_every_message_that_still_exists() -> None:
    world = world_with_channels(2)
    send(world, 40)
    until(world, lambda: committed(world) == 40)
    no_matcher(world)
    world.run(7.0)
    world.kafka.log(LOG, NUMBER).remove_below(10)
    for matcher in world.matchers:
        matcher.start()
    world.run(5.0)
    channel = wire_pb2.Interest(kind=wire_pb2.INTEREST_CHANNEL, text="tasks", since=wire_pb2.SINCE_OLDEST)
    digest = channel_hash("tasks")
    ask(
        world,
        1,
        open=internal_pb2.Open(digest=digest, ask=1, interests=[channel], streams=[internal_pb2.OpenStream(ask=1)]),
    )
    until(world, lambda: any(page.last for page in pages(world, 1)))
    entries = [entry_of(entry) for page in pages(world, 1) for entry in page.entries]
    assert [one[0] for one in entries] == list(range(10, 40))


def test_a_recreated_log_is_followed_from_its_beginning() -> None:
    world = world_with_channels(3)
    send(world, 5)
    until(world, lambda: committed(world) == 5)
    world.kafka.recreate(LOG)
    send(world, 2)
    until(world, lambda: committed(world) == 2)
