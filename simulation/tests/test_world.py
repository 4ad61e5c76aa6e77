"""The world keeps its history true: what a record means is what it says there."""

from coldnotify_schemas.removals import REMOVES_HEADER
from coldnotify_simulation.world import DOMAIN, GROUPS, World


def test_what_a_record_means_in_another_epoch_is_in_the_history() -> None:
    """A null of the epoch before removes nothing in the new one: what came behind it is of the old incarnation."""
    world = World(1)
    key = f"{DOMAIN}/{GROUPS[0]}/o"
    world.publish(key, 0, incarnation=1)
    removed = f"1/0@{world.promises.epoch:08x}/0".encode()
    world.write_null(0, key.encode(), ((REMOVES_HEADER, removed),))
    world.publish(key, 5)
    world.truncate_objects(0, 3, new_epoch=True)
    said = [(one["version"], one["incarnation"]) for one in world.trace.history if one["event"] == "publish"]
    assert said == [(0, 1), (5, 0), (5, 1)]
