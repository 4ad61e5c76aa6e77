"""M1 to M5, M8 and P7, by histories: what is in order, and each bug of a service that a device can see.

Stands for: devices, kept_sessions, losses, payload_contents, topic_publishes, told_messages, told_versions
"""

from collections.abc import Callable
from typing import Any

import pytest
from coldnotify_checker.histories import (
    Fault,
    Forgotten,
    LogTrimmed,
    MessageTold,
    MqttConnect,
    MqttFilter,
    MqttSubscribe,
    MqttUnsubscribe,
    Publish,
    Published,
    Register,
    Send,
    Started,
    Subscribe,
    Told,
    TopicLost,
)
from coldnotify_checker.judging import judge
from coldnotify_checker.mqtt.kept_sessions import CheckedDevice, GrantedFilter
from coldnotify_checker.mqtt.topic_publishes import TopicPublish
from coldnotify_testkit.mqtt_story import GROUP, NOTHING, TOPICS, MqttStory, will

NEVER_SENT = MqttFilter(filter="#", retain_as_published=True, retain_handling=2)
"""Retained messages are not sent on subscribing."""


def subscribed(filter_: str = "room/#", **options: Any) -> MqttStory:
    """A panel whose session is kept, and a sensor."""
    return MqttStory().connects("sensor").connects().subscribes(filter_, **options)


def day() -> MqttStory:
    """Retained payloads and messages, live, across a sleep, a crash and a deletion, with nothing wrong."""
    story = subscribed().retains("room/light", "on").told("room/light", "on", version=10)
    story.publishes("room/bell", 1).told("room/bell", 1, offset=0)
    story.pings().waits(6).pings().ends()
    story.retains("room/light", "off").retains("room/heat", 20).publishes("room/bell", 2).publishes("room/bell", 3)
    story.connects(present=True).told("room/light", "off", version=11).told("room/heat", 20, version=5)
    story.told("room/bell", 2, offset=4).told("room/bell", 3, offset=5, acknowledged=False).pings().ends("crash")
    story.retains("room/light", NOTHING)
    story.connects(present=True).told("room/bell", 3, offset=5, dup=True).told("room/light", NOTHING, version=12)
    story.pings()
    return story.finish(
        {"room/light": (12, NOTHING), "room/heat": (5, 20)},
        [(0, "room/bell", 1), (4, "room/bell", 2), (5, "room/bell", 3)],
    )


def test_a_publish_that_was_sent_twice_and_came_once_is_had() -> None:
    story = subscribed().publishes("room/bell", 1, code=None).publishes("room/bell", 1)
    story.told("room/bell", 1).pings()
    assert story.finish({}, [(0, "room/bell", 1)]).violations() == {}


def test_a_day_in_order_is_clean() -> None:
    story = day()
    verdict = judge(story.events)
    assert verdict.clean, str(verdict)
    assert (verdict.statistics.mqtt_told, verdict.statistics.mqtt_wakes) == (8, 3)
    assert verdict.statistics.mqtt_acknowledged == 7
    assert not verdict.not_judged.keys() & {"M1", "M2"}


# --- each bug by the promise that it breaks

BUGS: dict[str, tuple[str, Callable[[], MqttStory]]] = {
    "acknowledges a message before Kafka has it": (
        "M1",
        lambda: subscribed("other").publishes("room/bell", 1).finish({}, []),
    ),
    "acknowledges a retained payload before Kafka has it": (
        "M1",
        lambda: subscribed("other").retains("room/light", "on").finish({}, []),
    ),
    "keeps the payload before the last one": (
        "M1",
        lambda: (
            subscribed("other").retains("room/light", "on").retains("room/light", "off")
            .finish({"room/light": (1, "on")}, [])
        ),
    ),
    "forgets the will of a device that crashed": (
        "M1",
        lambda: (
            MqttStory().connects("sensor", will=will("room/alive", "no", retain=True)).ends("crash", "sensor")
            .waits(100).finish({}, [])
        ),
    ),
    "moves the cursor over a gap": (
        "P7",
        lambda: (
            subscribed().publishes("room/bell", 1).publishes("room/bell", 2)
            .told("room/bell", 1, offset=0, acknowledged=False).told("room/bell", 2, offset=1).ends("crash")
            .connects(present=True).pings().finish()
        ),
    ),
    "forgets an owed filter": (
        "P7",
        lambda: (
            MqttStory().connects("sensor").retains("room/light", "on").connects().subscribes("room/#").ends("crash")
            .connects(present=True).pings().finish()
        ),
    ),
    "answers a PINGREQ ahead of what is lacking": (
        "P7",
        lambda: (
            subscribed().ends().publishes("room/bell", 1).connects(present=True).pings()
            .told("room/bell", 1, offset=0).finish()
        ),
    ),
    "drops by the highest offset": (
        "M2",
        lambda: (
            subscribed().retains("room/heat", 20).retains("room/light", "on").told("room/light", "on", version=2)
            .finish()
        ),
    ),
    "forgets a deletion": (
        "M2",
        lambda: (
            subscribed().retains("room/light", "on").told("room/light", "on", version=2).ends()
            .retains("room/light", NOTHING).connects(present=True).finish()
        ),
    ),
    "tells an older version at a reconnect, and no newer one": (
        "M2",
        lambda: (
            subscribed().retains("room/light", "on").ends().retains("room/light", "off").connects(present=True)
            .told("room/light", "on", version=1).finish({"room/light": (2, "off")})
        ),
    ),
    "goes back within a connection": (
        "M3",
        lambda: (
            subscribed().retains("room/light", "on").retains("room/light", "off")
            .told("room/light", "off", version=2).told("room/light", "on", version=1)
        ),
    ),
    "goes back within a connection of 3.1.1": (
        "M3",
        lambda: (
            subscribed().retains("room/light", "on").retains("room/light", "off")
            .told("room/light", "off").told("room/light", "on")
        ),
    ),
    "repeats a version on a live connection": (
        "M3",
        lambda: (
            subscribed().retains("room/light", "on").told("room/light", "on", version=1)
            .told("room/light", "on", version=1)
        ),
    ),
    "answers a SUBSCRIBE twice": (
        "M3",
        lambda: (
            MqttStory().connects("sensor").retains("room/light", "on").connects().subscribes("room/#")
            .told("room/light", "on", version=1, retain=True).told("room/light", "on", version=1, retain=True)
        ),
    ),
    "repeats what was acknowledged in an earlier connection": (
        "M3",
        lambda: (
            subscribed().retains("room/light", "on").told("room/light", "on", version=1).pings().waits(6).ends()
            .connects(present=True).told("room/light", "on", version=1)
        ),
    ),
    "repeats a message that was acknowledged in an earlier connection": (
        "M3",
        lambda: (
            subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=7).pings().waits(6).ends("crash")
            .connects(present=True).told("room/bell", 1, offset=7)
        ),
    ),
    "tells what nobody published": ("M4", lambda: subscribed().told("room/light", "red", version=1)),
    "tells what is of another group": (
        "M4",
        lambda: (
            subscribed().say(Publish(publisher="p", id=1, object="home/house-2/room/light", version=1, payload="on"))
            .told("room/light", "on", version=1)
        ),
    ),
    "tells what was refused": (
        "M4",
        lambda: subscribed().publishes("room/bell", 1, code=0x87).told("room/bell", 1, offset=0),
    ),
    "tells the payload of another version": (
        "M4",
        lambda: (
            subscribed().say(Publish(publisher="p", id=1, object=f"{GROUP}/room/light", version=1, payload="on"))
            .say(Publish(publisher="p", id=2, object=f"{GROUP}/room/light", version=2, payload="off"))
            .told("room/light", "on", version=2)
        ),
    ),
    "wills twice": (
        "M4",
        lambda: (
            subscribed().connects("lamp", will=will("room/alive", "no")).ends("crash", "lamp")
            .told("room/alive", "no", offset=3).told("room/alive", "no", offset=4)
        ),
    ),
    "wills for a device that said good-bye": (
        "M4",
        lambda: (
            subscribed().connects("lamp", will=will("room/alive", "no")).ends("device", "lamp")
            .told("room/alive", "no", offset=3)
        ),
    ),
    "writes a message of a device twice": (
        "M4",
        lambda: subscribed("other").publishes("room/bell", 1).finish({}, [(0, "room/bell", 1), (1, "room/bell", 1)]),
    ),
    "says that a session is present without a set": ("M5", lambda: MqttStory().connects(present=True)),
    "says that a session is present after a clean start": (
        "M5",
        lambda: subscribed().ends().connects(clean=True, present=True),
    ),
    "keeps a session for longer than its expiry": (
        "M5",
        lambda: MqttStory().connects(expiry_s=10).subscribes("a").ends().waits(100).connects(present=True),
    ),
    "loses a session": ("M5", lambda: subscribed().ends().connects(present=False)),
    "grants a filter and does not write it": (
        "M5",
        lambda: subscribed().waits(60).subscribes("a").finish().registers("panel", ["room/#"]),
    ),
    "says that a session is present, and its set is lost": (
        "M8",
        lambda: (
            subscribed().ends().say(TopicLost(topic=TOPICS.registrations)).connects(present=True)
            .publishes("room/bell", 1).finish()
        ),
    ),
    "skips a message": (
        "M8",
        lambda: (
            subscribed().publishes("room/bell", 1).publishes("room/bell", 2).told("room/bell", 2, offset=1)
            .finish({}, [(0, "room/bell", 1), (1, "room/bell", 2)])
        ),
    ),
    "skips a message of 3.1.1": (
        "M8",
        lambda: subscribed().publishes("room/bell", 1).publishes("room/bell", 2).told("room/bell", 2),
    ),
    "tells messages in another order": (
        "M8",
        lambda: (
            subscribed().publishes("room/bell", 1).publishes("room/bell", 2).told("room/bell", 2, offset=1)
            .told("room/bell", 1, offset=0)
        ),
    ),
    "tells messages of 3.1.1 in another order": (
        "M8",
        lambda: (
            subscribed().publishes("room/bell", 1, qos=0).publishes("room/bell", 2).publishes("room/bell", 3)
            .told("room/bell", 3).told("room/bell", 2)
        ),
    ),
    "repeats a message on a live connection": (
        "M8",
        lambda: (
            subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=0).told("room/bell", 1, offset=0)
        ),
    ),
    "never tells the last message": ("M8", lambda: subscribed().publishes("room/bell", 1).finish()),
    "says that what is there was removed": (
        "M8",
        lambda: (
            subscribed().publishes("room/bell", 1).publishes("room/bell", 2)
            .told("room/bell", 2, offset=1, missed=["-1-1 retention"])
            .finish({}, [(0, "room/bell", 1), (1, "room/bell", 2)])
        ),
    ),
    "says that a log was lost that is there": (
        "M8",
        lambda: subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=4, missed=["-1-4 lost"]),
    ),
    "says what is missed in words that nobody can read": (
        "M8",
        lambda: subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=4, missed=["some"]),
    ),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_each_bug_breaks_its_promise(bug: str) -> None:
    promise, story = BUGS[bug]
    found = story().violations()
    assert promise in found, found
    assert all(violation.evidence for violation in judge(story().events).violations)


# --- what is no bug, though it looks like one

FINE: dict[str, Callable[[], MqttStory]] = {
    "only the newest of what was retained is told": lambda: (
        subscribed().retains("room/light", 1).retains("room/light", 2).retains("room/light", 3)
        .told("room/light", 3, version=3).finish()
    ),
    "retained payloads and messages have no order between them": lambda: (
        subscribed().retains("room/light", "on").publishes("room/light", "flash")
        .told("room/light", "flash", offset=3).told("room/light", "on", version=8).finish()
    ),
    "a deletion is not told on subscribing": lambda: (
        MqttStory().connects("sensor").retains("room/light", "on").retains("room/light", NOTHING)
        .connects().subscribes("room/#").pings().finish({"room/light": (2, NOTHING)}, [])
    ),
    "a SUBSCRIBE that comes again is answered again": lambda: (
        subscribed().retains("room/light", "on").told("room/light", "on", version=1).subscribes("room/#")
        .told("room/light", "on", version=1, retain=True).finish()
    ),
    "what an answer said is published again": lambda: (
        subscribed().retains("room/light", "on").told("room/light", "on").subscribes("room/#")
        .told("room/light", "on", retain=True).retains("room/light", "on").told("room/light", "on").finish()
    ),
    "an owed filter is answered again in the next connection": lambda: (
        MqttStory().connects("sensor").retains("room/light", "on").retains("room/heat", 20).connects()
        .subscribes("room/#").told("room/light", "on", version=1, retain=True).pings().waits(6).ends("crash")
        .connects(present=True).told("room/light", "on", version=1, retain=True)
        .told("room/heat", 20, version=4, retain=True).finish()
    ),
    "what was not acknowledged comes again": lambda: (
        subscribed().retains("room/light", "on").publishes("room/bell", 1)
        .told("room/light", "on", version=1, acknowledged=False).told("room/bell", 1, offset=0, acknowledged=False)
        .pings().waits(6).ends("crash").connects(present=True).told("room/light", "on", version=1)
        .told("room/bell", 1, offset=0).finish()
    ),
    "an acknowledgement of the last seconds may be lost": lambda: (
        subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=0).pings().ends("crash")
        .connects(present=True).told("room/bell", 1, offset=0).finish()
    ),
    "what comes again has the payload of a later one": lambda: (
        subscribed().publishes("room/bell", 1).told("room/bell", 1).ends("crash")
        .publishes("room/bell", 2).publishes("room/bell", 1).connects(present=True)
        .told("room/bell", 1).told("room/bell", 2).told("room/bell", 1).finish()
    ),
    "an acknowledgement may be lost with a fault": lambda: (
        subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=0).pings()
        .say(Fault(kind="matcher_killed")).waits(6).ends("service").connects(present=True)
        .told("room/bell", 1, offset=0).finish()
    ),
    "what was on its way with QoS 0 is lost with the connection": lambda: (
        subscribed(qos=0, code=0).retains("room/light", "on").publishes("room/bell", 1).ends("crash")
        .connects(present=True).pings().finish()
    ),
    "what was told with QoS 0 before a CONNACK is lost with the connection": lambda: (
        subscribed(qos=0, code=0).ends().say(MqttConnect(client=f"{GROUP}/panel", expiry_s=3_600))
        .retains("room/light", "on").publishes("room/bell", 1).ends("crash").connects(present=True).pings().finish()
    ),
    "what was told with QoS 0 behind a DISCONNECT on its way is lost": lambda: (
        subscribed(qos=0, code=0).ends().publishes("room/bell", 1).publishes("room/bell", 2).connects(present=True)
        .told("room/bell", 2, offset=1).finish()
    ),
    "a PINGREQ is answered after 10 s in any case": lambda: (
        subscribed().ends().publishes("room/bell", 1).connects(present=True).pings(seconds=11)
        .told("room/bell", 1, offset=0).finish()
    ),
    "its own publishes with No Local": lambda: (
        subscribed(no_local=True).retains("room/light", "on", device="panel")
        .publishes("room/bell", 1, device="panel").finish()
    ),
    "what is too large for the device": lambda: (
        MqttStory().connects("sensor").connects(packet_bytes_max=3_000).subscribes("room/#")
        .retains("room/light", "x" * 4_000).publishes("room/bell", "y" * 4_000).finish()
    ),
    "what MQTT cannot say, and what no filter fits": lambda: (
        subscribed("#").retains("$room/light", "on").publishes("$room/bell", 1).finish()
    ),
    "topics with a leading $, though a filter names them": lambda: (
        subscribed("$room/#").retains("$room/light", "on").publishes("$room/bell", 1).finish()
    ),
    "what was acknowledged behind what was not": lambda: (
        subscribed().publishes("room/bell", 1).publishes("room/bell", 2)
        .told("room/bell", 1, offset=0, acknowledged=False).told("room/bell", 2, offset=1).pings().waits(6)
        .ends("crash").connects(present=True).told("room/bell", 1, offset=0).told("room/bell", 2, offset=1).finish()
    ),
    "an answer behind what was told live as retained": lambda: (
        subscribed(retain_as_published=True).retains("room/light", "on")
        .told("room/light", "on", version=1, retain=True).told("room/light", "on", version=1, retain=True).finish()
    ),
    "a message that a back-end sent twice": lambda: (
        subscribed().connects("lamp").subscribes("room/#", "lamp")
        .say(Send(publisher="p", id=1, channel=f"{GROUP}/room/bell", message="m", payload=1))
        .say(Send(publisher="p", id=2, channel=f"{GROUP}/room/bell", message="m", payload=1))
        .told("room/bell", 1, offset=0).told("room/bell", 1, "lamp", offset=1).finish()
    ),
    "a message whose log was lost": lambda: (
        subscribed().ends().publishes("room/bell", 1).say(TopicLost(topic=TOPICS.channels_1d)).connects(present=True)
        .pings().finish({}, [])
    ),
    "retained payloads that are sent on no subscribing": lambda: (
        MqttStory().connects("sensor").retains("room/light", "on").connects()
        .subscribes("room/#", retain_handling=2).pings().finish()
    ),
    "a filter that was refused": lambda: (
        MqttStory().connects("sensor").connects().subscribes("room/#", code=0x97).retains("room/light", "on").finish()
    ),
    "what is no more subscribed": lambda: (
        subscribed().say(MqttUnsubscribe(client=f"{GROUP}/panel", filters=["room/#"])).retains("room/light", "on")
        .publishes("room/bell", 1).finish()
    ),
    "what was sent before the subscription": lambda: (
        MqttStory().connects("sensor").publishes("room/bell", 1).connects().subscribes("room/#").pings().finish()
    ),
    "a publish that was not acknowledged": lambda: (
        subscribed().retains("room/light", "on", code=None).publishes("room/bell", 1, code=None).finish({}, [])
    ),
    "a version without a payload, and one that expired": lambda: (
        subscribed()
        .say(Publish(publisher="p", id=1, object=f"{GROUP}/room/light", version=7))
        .say(Published(publisher="p", id=1, outcome="acknowledged"))
        .told("room/light", {"version": 7}, version=7)
        .say(Publish(publisher="p", id=2, object=f"{GROUP}/room/heat", version=1, payload=20, expires_at=1))
        .say(Published(publisher="p", id=2, outcome="acknowledged"))
        .say(Send(publisher="p", id=3, channel=f"{GROUP}/room/bell", message="m", expires_at=1))
        .say(Published(publisher="p", id=3, outcome="acknowledged", offset=3)).finish()
    ),
    "a message that is addressed to others": lambda: (
        subscribed().say(Send(publisher="p", id=3, channel=f"{GROUP}/room/bell", message="m", to=["camera"]))
        .say(Published(publisher="p", id=3, outcome="acknowledged", offset=3)).finish()
    ),
    "messages that were removed are missed": lambda: (
        subscribed().ends().publishes("room/bell", 1).publishes("room/bell", 2)
        .say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=1)).connects(present=True)
        .told("room/bell", 2, offset=1, missed=["-1 retention"]).pings().finish({}, [(1, "room/bell", 2)])
    ),
    "messages that were removed are not told to 3.1.1": lambda: (
        subscribed().ends().publishes("room/bell", 1).publishes("room/bell", 2)
        .say(LogTrimmed(topic=TOPICS.channels_1d, partition=0, offset=1)).connects(present=True, protocol=4)
        .told("room/bell", 2).pings().finish({}, [(1, "room/bell", 2)])
    ),
    "a set that is in the topic": lambda: (
        subscribed().waits(60).subscribes("a").finish().registers("panel", ["a", "room/#"])
    ),
    "a payload that is too large, acknowledged in 3.1.1, which cannot say so": lambda: (
        MqttStory().connects("sensor", protocol=4).connects().subscribes("room/#").retains("room/light", "x" * 5_000)
        .publishes("room/bell", "x" * 70_000).finish({}, [])
    ),
    "a set that Kafka lost": lambda: (
        subscribed().retains("room/light", "on").told("room/light", "on", version=1).ends()
        .say(TopicLost(topic=TOPICS.registrations)).connects(present=False).publishes("room/bell", 1).finish()
    ),
    "a set that Kafka lost below a live connection": lambda: (
        MqttStory().connects("sensor").retains("room/light", "on").connects().subscribes("room/#")
        .told("room/light", "on", version=1, retain=True).say(TopicLost(topic=TOPICS.registrations))
        .told("room/light", "on", version=1, retain=True).finish()
    ),
    "a set that an operator had forgotten": lambda: (
        subscribed().ends().say(Forgotten(client=f"{GROUP}/panel")).connects(present=False)
    ),
    "a session that has expired": lambda: (
        MqttStory().connects(expiry_s=10).subscribes("a").ends().waits(100).connects(present=False)
    ),
    "a session that a CONNECT without its CONNACK may have begun or ended": lambda: (
        MqttStory().say(MqttConnect(client=f"{GROUP}/panel", expiry_s=9)).ends("crash").connects(present=True)
        .subscribes("a").ends().say(MqttConnect(client=f"{GROUP}/panel", clean=True)).ends("crash")
        .connects(present=False)
    ),
    "a SUBSCRIBE without its SUBACK": lambda: (
        MqttStory().connects("sensor").retains("room/light", "on").connects()
        .say(MqttSubscribe(client=f"{GROUP}/panel", id=1, filters=[MqttFilter(filter="room/#", qos=1)]))
        .ends("crash").connects(present=True).told("room/light", "on", version=1, retain=True).finish()
    ),
    "a deletion before the SUBSCRIBE": lambda: (
        subscribed().retains("room/light", "on").told("room/light", "on", version=1)
        .say(MqttUnsubscribe(client=f"{GROUP}/panel", filters=["room/#"])).retains("room/light", {"base64": ""})
        .subscribes("room/light").finish()
    ),
    "a version by a filter that is being ended, and then in answer to a SUBSCRIBE": lambda: (
        subscribed(retain_as_published=True, retain_handling=2).ends().retains("room/light", "on")
        .connects(present=True)
        .say(MqttUnsubscribe(client=f"{GROUP}/panel", filters=["room/#"])).subscribes("room/light")
        .told("room/light", "on", version=1, retain=True).told("room/light", "on", version=1, retain=True).finish()
    ),
    "a version by a filter without its SUBACK, and then in answer to a SUBSCRIBE": lambda: (
        MqttStory().connects("sensor").connects()
        .say(MqttSubscribe(client=f"{GROUP}/panel", id=1, filters=[NEVER_SENT]))
        .ends("crash").retains("room/light", "on").connects(present=True).subscribes("room/light")
        .told("room/light", "on", version=1, retain=True).told("room/light", "on", version=1, retain=True).finish()
    ),
    "a will, once, of a device that crashed": lambda: (
        subscribed().connects("lamp", will=will("room/alive", "no")).ends("crash", "lamp")
        .told("room/alive", "no", offset=3).waits(100).finish({}, [(3, "room/alive", "no")])
    ),
    "a will of a device whose good-bye was not heard": lambda: (
        subscribed().connects("lamp", will=will("room/alive", "no")).say(Fault(kind="gateway_killed"))
        .ends("device", "lamp").told("room/alive", "no", offset=3).finish()
    ),
    "the same payload many times": lambda: (
        subscribed().publishes("room/bell", 1).publishes("room/bell", 1).told("room/bell", 1).told("room/bell", 1)
        .retains("room/light", "on").told("room/light", "on").retains("room/light", "off").told("room/light", "off")
        .retains("room/light", "on").told("room/light", "on").finish()
    ),
    "bytes that are no JSON": lambda: (
        subscribed().retains("room/light", {"base64": "gAA="}).told("room/light", {"base64": "gAA="}, version=1)
        .finish({"room/light": (1, {"base64": "gAA="})}, [])
    ),
    "bytes that are JSON with spaces": lambda: (
        subscribed().retains("room/light", {"a": 1}).told("room/light", {"a": 1}, version=1)
        .finish({"room/light": (1, {"base64": "eyJhIjogMX0="})}, [])
    ),
    "a topic that somebody without a history publishes": lambda: (
        subscribed().told("room/light", "on", version=4).finish({"room/light": (4, "on")}, [])
    ),
    "a log that was lost": lambda: (
        subscribed().publishes("room/bell", 1).ends().say(TopicLost(topic=TOPICS.channels_1d)).publishes("room/bell", 2)
        .connects(present=True).told("room/bell", 2, offset=0, missed=["-1-0 lost"]).finish({}, [(0, "room/bell", 2)])
    ),
    "an objects topic that was lost": lambda: (
        subscribed().retains("room/light", "on").ends().say(TopicLost(topic=TOPICS.objects)).connects(present=True)
        .pings().finish({}, [])
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", FINE)
def test_a_history_that_only_looks_wrong_is_clean(what: str) -> None:
    assert FINE[what]().violations() == {}


def beside(story: MqttStory, payload: Any = "on") -> MqttStory:
    """A client of the library is told what the sensor published."""
    client, name = f"{GROUP}/client", f"{GROUP}/room/light"
    story.say(Started(client=client)).say(Register(client=client, object=name))
    story.say(Subscribe(client=client, channel=name))
    story.retains("room/light", "on").publishes("room/light", "on")
    story.say(Told(client=client, object=name, version=7, payload=payload))
    return story.say(MessageTold(client=client, channel=name, offset=3, message="m", payload=payload)).finish()


def test_other_clients_are_told_what_devices_published() -> None:
    assert beside(MqttStory().connects("sensor")).violations() == {}
    assert beside(MqttStory().connects("sensor"), payload="red").violations().keys() == {"P4", "P8"}


def test_a_device_that_is_killed_without_a_line_begins_anew() -> None:
    story = subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=0, acknowledged=False)
    story.connects(present=True).pings().finish()
    assert story.violations().keys() == {"P7"}


def test_without_a_dump_what_devices_published_is_judged_in_part() -> None:
    verdict = judge(subscribed().publishes("room/bell", 1).told("room/bell", 1, offset=0).finish().events)
    assert verdict.clean
    assert "M1" in verdict.judged_in_part


def test_a_history_without_devices_says_nothing_of_their_promises() -> None:
    verdict = judge([Publish(t=1, publisher="p", id=1, object="d/g/o", version=1)])
    assert not {"M1", "M2"} & (verdict.not_judged.keys() | verdict.judged_in_part.keys())


def long_history(messages: int) -> MqttStory:
    story = subscribed()
    for n in range(messages):
        story.publishes("room/bell", n).told("room/bell", n, offset=n)
    return story.finish()


def test_a_message_that_a_device_has_is_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0
    is_owed = CheckedDevice.is_owed

    def counted(self: CheckedDevice, one: TopicPublish, held: GrantedFilter, by: int) -> bool:
        nonlocal looks
        looks += 1
        return is_owed(self, one, held, by)

    monkeypatch.setattr(CheckedDevice, "is_owed", counted)
    assert long_history(300).violations() == {}
    assert looks < 3 * 300
