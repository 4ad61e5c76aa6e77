"""Scripts of clients that subscribe to channels, for `schemas/transcripts/channels/`."""

from coldnotify._core.interests.interests import ChannelInterest
from coldnotify._core.interests.since import NOW, OLDEST
from coldnotify.testing import Service

from coldnotify_simulation.transcript_unit import DOMAIN, GROUP, MISSED_SUBSCRIBER, SUBSCRIBER, Unit

TASKS, ALARMS = ChannelInterest("tasks", ()), ChannelInterest("alarms", ("camera", "solar"))


def first_subscription() -> Unit:
    """Two channels, one from its oldest message and one from now on; pages, then live messages."""
    unit = Unit(Service(page_objects=2))
    unit.send("tasks", "alarms", "tasks", "others", "tasks")
    unit.want_channel(TASKS)
    unit.want_channel(ALARMS, NOW)
    unit.go(3)
    unit.send("tasks", "alarms")
    unit.send("alarms", to=("mast",))
    unit.send("alarms", to=("camera",))
    unit.go(3)
    unit.driver.application.unregister_channel("tasks")
    unit.go(3)
    unit.stop()
    return unit


def wake_unchanged() -> Unit:
    """A second start that missed nothing: Hello carries the cursor, and CaughtUp confirms that it is the newest."""
    before = _subscribed()
    return _woken(before)


def wake_with_pages() -> Unit:
    """A second start that missed messages of two channels, and a version of an object."""
    before = _subscribed()
    before.send("tasks", "alarms", "tasks", "others", "alarms", "tasks")
    before.publish("a")
    unit = _woken(before)
    unit.send("tasks")
    unit.go(3)
    return unit


def gap() -> Unit:
    """A message is lost in transit: the next one reveals it, the session ends, and the next Hello recovers all."""
    unit = _live()
    assert unit.session is not None
    assert unit.session.feeds is not None
    unit.session.feeds.loses = 1
    unit.send("tasks")
    unit.send("tasks")
    unit.go(5)
    unit.stop()
    return unit


def missed() -> Unit:
    """A client was away for longer than messages are kept: it is told what it missed before the next message."""
    before = _subscribed()
    before.send("tasks", "tasks", "alarms", "tasks")
    before.service.retain(DOMAIN, GROUP, 6)
    return _woken(before)


def missed_without_callback() -> Unit:
    """Nobody is subscribed to missed messages: the error reports them, and they count as told."""
    before = _subscribed()
    before.send("tasks", "tasks", "tasks")
    before.service.retain(DOMAIN, GROUP, 6)
    unit = Unit(before.service, before.disk)
    unit.driver.application.subscribe(TASKS, SUBSCRIBER)
    unit.driver.application.subscribe(ALARMS, SUBSCRIBER)
    unit.go(3)
    unit.stop()
    return unit


def void_epoch() -> Unit:
    """The epoch changed: each channel begins with its oldest message, after a report of missed ones."""
    before = _subscribed()
    before.service.new_channels_epoch()
    before.send("alarms", "tasks")
    unit = _woken(before)
    unit.send("tasks")
    unit.go(3)
    return unit


def _after_a_power_loss(before: Unit) -> Unit:
    """Returns the successor of a unit that was caught up and lost power before its callbacks were told anything."""
    heard = Unit(before.service, before.disk)
    heard.holds = True
    heard.want_channel(TASKS)
    heard.want_channel(ALARMS)
    heard.go(3)
    return Unit(before.service, heard.disk)


def void_epoch_of_an_empty_log() -> Unit:
    """The log is another one, and empty; power was lost before callbacks heard of it: they hear of it at once."""
    before = _subscribed()
    before.service.new_channels_epoch()
    unit = _after_a_power_loss(before)
    unit.want_channel(TASKS)
    unit.want_channel(ALARMS)
    unit.go(3)
    unit.send("alarms", "tasks")
    unit.go(3)
    unit.stop()
    return unit


def loss_that_nobody_hears() -> Unit:
    """The epoch changed and the log is empty: the channel stays behind the cursor until a subscriber is told."""
    before = _subscribed()
    before.service.new_channels_epoch()
    unit = _after_a_power_loss(before)
    unit.want_channel(ALARMS)
    unit.driver.application.register_channel(TASKS, OLDEST)
    unit.go(3)
    unit.send("alarms")
    unit.go(3)
    unit.driver.application.subscribe_missed(TASKS, MISSED_SUBSCRIBER)
    unit.driver.application.subscribe(TASKS, SUBSCRIBER)
    unit.go(3)
    unit.stop()
    return unit


def missed_behind_a_loss() -> Unit:
    """The log is another one, and retention has removed its beginning: both are told, each with its reason."""
    before = _subscribed()
    before.service.new_channels_epoch()
    unit = _after_a_power_loss(before)
    unit.send("tasks", "alarms", "tasks", "others", "alarms", "tasks")
    unit.service.retain(DOMAIN, GROUP, 3)
    unit.want_channel(TASKS)
    unit.want_channel(ALARMS)
    unit.go(3)
    unit.stop()
    return unit


def parked() -> Unit:
    """A channel whose callback fails too often: others go on, and the cursor passes; the next message asks again."""
    unit = _live()
    unit.fails = {"tasks"}
    unit.send("tasks", "alarms")
    unit.go(20)
    unit.send("alarms")
    unit.go(3)
    unit.cut()
    unit.go(20)
    unit.fails = set()
    unit.send("tasks")
    unit.go(3)
    unit.stop()
    return unit


def nobody_subscribed_to_the_channel() -> Unit:
    """Messages without a subscriber make their channel pending before the cursor passes them."""
    unit = Unit()
    unit.driver.application.register_channel(TASKS, NOW)
    unit.go(3)
    unit.send("tasks", "tasks")
    unit.go(3)
    unit.driver.application.subscribe(TASKS, SUBSCRIBER)
    unit.go(3)
    unit.stop()
    return unit


SCRIPTS = (
    first_subscription,
    wake_unchanged,
    wake_with_pages,
    gap,
    missed,
    missed_without_callback,
    void_epoch,
    void_epoch_of_an_empty_log,
    loss_that_nobody_hears,
    missed_behind_a_loss,
    parked,
    nobody_subscribed_to_the_channel,
)


def _live() -> Unit:
    unit = Unit(Service(page_objects=2))
    unit.want_channel(TASKS)
    unit.want_channel(ALARMS)
    unit.want("a")
    unit.send("tasks", "alarms", "tasks")
    unit.go(3)
    return unit


def _subscribed() -> Unit:
    """A client that had all, and has stopped."""
    unit = _live()
    unit.stop()
    return unit


def _woken(before: Unit) -> Unit:
    """The same client, started again."""
    unit = Unit(before.service, before.disk)
    unit.want_channel(TASKS)
    unit.want_channel(ALARMS)
    unit.want("a")
    unit.go(3)
    return unit
