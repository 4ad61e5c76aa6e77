"""Compaction takes nothing that would make what is left say something else, before that is repaired."""

from coldnotify_schemas.descriptions import KEY_PREFIX
from coldnotify_schemas.matcher_state import ended_by_header
from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_schemas.topics import TopicNames
from coldnotify_simulation.compaction import compact_objects
from coldnotify_simulation.sets import groups_of
from coldnotify_simulation.world import DOMAIN, GROUPS, World

TOPICS = TopicNames()

KEY = f"{DOMAIN}/{GROUPS[0]}/o"


def remove_all(world: World, version: int, read_to: int) -> None:
    """What an owner writes that had read so far."""
    epoch = f"{world.promises.epoch:08x}"
    world.write_null(0, KEY.encode(), ((REMOVES_HEADER, f"0/{version}@{epoch}/{read_to}".encode()),))
    described = f"0/{world.clock.now_ms}@{epoch}/{read_to}".encode()
    world.write_null(0, f"{KEY_PREFIX}{KEY}".encode(), ((REMOVES_HEADER, described),))


def compact(world: World) -> None:
    compact_objects(world.kafka, world.truth, world.groups, world.promises.epoch, at_rest=False)


def described(world: World) -> object:
    """As the records say that are left."""
    log = world.kafka.log(TOPICS.objects, 0)
    left = groups_of([(0, log.entries)], world.promises.epoch)
    return left.objects[f"{DOMAIN}/{GROUPS[0]}"]["o"].state


def test_why_a_null_of_a_description_removes_nothing_stays_until_the_description_is_written_again() -> None:
    """A version came between what its owner had read and its null: the object stays, and so does its description."""
    world = World(1)
    world.publish(KEY, 1)
    world.describe(KEY, {"Room": 1})
    world.publish(KEY, 2)
    remove_all(world, 1, read_to=1)
    world.publish(KEY, 3)
    compact(world)
    assert described(world) == {"Room": 1}


def test_why_a_null_of_an_object_removes_nothing_stays_until_its_version_is_written_again() -> None:
    """It was described once more meanwhile, and again behind the null."""
    world = World(1)
    world.publish(KEY, 1)
    world.describe(KEY, {"Room": 1})
    world.describe(KEY, {"Room": 2})
    remove_all(world, 1, read_to=1)
    world.describe(KEY, {"Room": 3})
    compact(world)
    log = world.kafka.log(TOPICS.objects, 0)
    thing = groups_of([(0, log.entries)], world.promises.epoch).objects[f"{DOMAIN}/{GROUPS[0]}"]["o"]
    assert thing.version == (0, 1)


def test_compaction_keeps_only_the_records_in_force() -> None:
    world = World(1)
    for version in (1, 2):
        world.publish(KEY, version)
        world.describe(KEY, {"Room": version})
    compact(world)
    assert [entry.offset for entry in world.kafka.log(TOPICS.objects, 0).entries] == [2, 3]


def test_an_open_transaction_keeps_its_records_from_compaction() -> None:
    """Kafka compacts nothing from its begin on. The null there is unread, and the version by arrival counts on it."""
    world = World(1)
    log = world.kafka.log(TOPICS.objects, 0)
    world.publish(KEY, 1)
    world.publish(KEY, 2)
    log.open_transaction()
    remove_all(world, 2, read_to=1)
    world.publish_by_arrival(KEY, behind_ms=0)
    assert world.truth.newest(KEY) == (0, world.clock.now_ms)
    compact(world)
    assert [entry.offset for entry in log.entries] == [0, 1, 2, 3, 4]
    log.end_transaction()
    compact(world)
    assert [entry.offset for entry in log.entries] == [3, 4]


def test_compaction_goes_up_to_an_open_transaction() -> None:
    world = World(1)
    log = world.kafka.log(TOPICS.objects, 0)
    for version in (1, 2):
        world.publish(KEY, version)
    log.open_transaction()
    world.publish(KEY, 2)
    compact(world)
    assert [entry.offset for entry in log.entries] == [1, 2]


def test_a_null_of_registrations_stays_until_a_stopped_follower_has_read_it() -> None:
    world = World(1, clients=1, late_s=0.001)
    for matcher in world.matchers:
        matcher.standby = True
    world.start()
    log = world.kafka.log(TOPICS.registrations, 0)
    world.run(10.0)
    follower = next(one for one in world.matchers if one.run is not world.group.owners[0])
    assert follower.run is not None
    assert follower.run.unread_from(TOPICS.registrations, 0) == log.end
    follower.stop()
    key = f"{DOMAIN}/{GROUPS[0]}/gone/0".encode()
    world.kafka.append(TOPICS.registrations, 0, world.clock.now_ms, key, None, (ended_by_header(1),))
    world.run(1.0)
    world.compact()
    assert key in [entry.key for entry in log.entries]
    follower.go_on()
    world.run(10.0)
    world.compact()
    assert key not in [entry.key for entry in log.entries]
