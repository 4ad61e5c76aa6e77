"""Follows all MQTT devices of a history event by event; judges M3 across connections, M4, M5 and P7 on the way."""

from coldnotify_schemas.topics import TopicNames

from coldnotify_checker.histories import (
    End,
    Event,
    Forgotten,
    MqttAcknowledge,
    MqttConnect,
    MqttConnected,
    MqttDisconnected,
    MqttPong,
    MqttPublished,
    MqttSubscribe,
    MqttSubscribed,
    MqttTold,
    MqttUnsubscribe,
    TopicLost,
)
from coldnotify_checker.mqtt.kept_sessions import FOR_EVER_S, CheckedDevice
from coldnotify_checker.mqtt.losses import judge_losses
from coldnotify_checker.mqtt.payload_contents import content
from coldnotify_checker.mqtt.told_messages import TopicMessages
from coldnotify_checker.mqtt.told_versions import TopicVersions, words
from coldnotify_checker.mqtt.topic_publishes import TopicPublish, TopicPublishes, topic_name
from coldnotify_checker.publishes import CheckedPublishes
from coldnotify_checker.topic_contents import DumpedTopics
from coldnotify_checker.verdict import JudgeVerdict

ANSWERED_US = 10_000_000
"""A PINGREQ is answered after so long even if the device still lacks something."""
ENDED_UNNOTICED_US = 60_000_000
"""So long behind its end a session that does not outlive its connection may still be there: its gateway has died."""
LOST_UNNOTICED_US = 30_000_000
"""So long the loss of a topic may go unnoticed: a set that was acknowledged meanwhile may have been in the old one."""


class MqttDevices:
    """All MQTT devices of a history. One without any costs nothing, and is judged by none of their promises."""

    def __init__(
        self,
        history: list[Event],
        publishes: CheckedPublishes,
        topics: DumpedTopics,
        verdict: JudgeVerdict,
        names: TopicNames,
        skew_us: int,
    ) -> None:
        self.any = any(isinstance(event, MqttConnect) for event in history)
        self._history = history if self.any else []
        self._verdict = verdict
        self._names = names
        self._topics = topics
        self._skew_us = skew_us
        dumped = topics if self.any else DumpedTopics(names)
        self._publications = TopicPublishes(self._history, publishes, dumped, names)
        self._versions = TopicVersions(self._publications, topics, verdict, names, skew_us)
        self._messages = TopicMessages(self._history, self._publications, verdict, names)
        self._by_client: dict[str, CheckedDevice] = {}
        self._lost_at = 0
        """When a topic that holds sets was last lost; Unix time in microseconds, as all times here."""
        self._forgotten: dict[str, Forgotten] = {}

    def of(self, client: str) -> CheckedDevice:
        """The device of this name."""
        device = self._by_client.get(client)
        if device is None:
            device = self._by_client[client] = CheckedDevice(client)
        return device

    def on_event(self, event: Event) -> None:
        """The next event of the history, by time. What does not concern a device is ignored."""
        match event:
            case MqttConnect():
                self.of(event.client).on_connect(event)
            case MqttConnected():
                self._on_connected(event)
            case MqttDisconnected():
                self.of(event.client).end(event)
            case MqttSubscribe():
                self.of(event.client).ask(event.id, event.filters)
            case MqttSubscribed():
                self.of(event.client).grant(event.id, event.codes, event.t)
            case MqttUnsubscribe():
                for text in event.filters:
                    self.of(event.client).unsubscribe(text)
            case MqttTold():
                self._on_told(event)
            case MqttAcknowledge():
                device = self.of(event.client)
                told = device.connection.acknowledge(event) if device.connection is not None else None
                if told is not None:
                    device.acknowledge(told)
            case MqttPublished():
                self._verdict.statistics.count_mqtt(acknowledged=event.code < 0x80)
            case MqttPong():
                self._on_pong(event)
            case TopicLost():
                if event.topic in (self._names.registrations, self._names.sessions):
                    self._lost_at = event.t
                    for device in self._by_client.values():
                        if device.connection is not None:
                            device.connection.ask_again()
            case Forgotten():
                self._forgotten[event.client] = event
            case End():
                self._on_end(event)
            case _:
                pass

    def finish(self) -> None:
        """The history ends: judges M1, and how often things were published (M4)."""
        if self.any:
            judge_losses(self._history, self._publications, self._topics, self._verdict, self._names)

    # --- M5

    def _on_connected(self, event: MqttConnected) -> None:
        device = self.of(event.client)
        connect = device.connect
        if connect is None:
            return
        judge = self._cannot_be_there if event.present else self._must_be_there
        why = judge(device, connect)
        if why is not None:
            said = "is" if event.present else "is not"
            words_ = f"{device.client} was told that its session {said} present, {why}"
            self._verdict.add("M5", words_, (device.last_connect, device.ended, connect, event))
        device.begin(event)

    def _cannot_be_there(self, device: CheckedDevice, connect: MqttConnect) -> str | None:
        """Returns why it has no session; None: it may have one."""
        last = device.last_connect
        if connect.clean:
            return "and it had asked for a clean one"
        if device.unanswered is not None:
            return None
        if last is None:
            return "and it never had one"
        if device.ended is None or last.expiry_s == FOR_EVER_S:
            return None
        if device.ended.t + last.expiry_s * 1_000_000 + ENDED_UNNOTICED_US < connect.t:
            return "and it had expired"
        return None

    def _must_be_there(self, device: CheckedDevice, connect: MqttConnect) -> str | None:
        """Returns why it has one; None: it need not."""
        last = device.last_connect
        if connect.clean or last is None or not device.filters or device.unanswered is not None:
            return None
        if self._lost_at and self._lost_at + LOST_UNNOTICED_US > device.granted_at:
            return None
        forgotten = self._forgotten.get(device.client)
        if forgotten is not None and forgotten.t > device.granted_at:
            return None
        ended_at = device.ended.t if device.ended is not None else connect.t
        if last.expiry_s != FOR_EVER_S and ended_at + last.expiry_s * 1_000_000 <= connect.t + ENDED_UNNOTICED_US:
            return None
        return f"and nothing has lost it: it has {len(device.filters)} filters"

    # --- what is told

    def _on_told(self, told: MqttTold) -> None:
        self._verdict.statistics.count_mqtt(told=1)
        device = self.of(told.client)
        connection = device.connection
        if connection is None or not device.is_connected:
            return
        versions = self._publications.told_of(self._publications.versions, told, self._skew_us)
        messages = self._publications.told_of(self._publications.messages, told, self._skew_us)
        plain = told.version is None and told.offset is None
        is_version = told.version is not None or (plain and (told.retain or not messages))
        is_message = told.version is None and not is_version and (told.offset is not None or not versions)
        if not versions and not messages:
            self._verdict.add("M4", f"{told.client} was told {self._why_not(told)} of {told.topic}", (told,))
        elif is_version and not versions:
            self._verdict.add("M4", f"{told.client} was told a message of {told.topic} as a version", (told,))
        self._judge_again(device, told, versions if is_version else messages)
        if is_version:
            self._versions.on_told(device, told, versions)
        elif is_message:
            self._messages.on_told(device, told, messages)
        else:
            # Nobody knows which of both it is: it says nothing of an order, and counts as had.
            device.tell_version(told)
            device.have(told, next((one for one in messages if id(one) not in device.had), messages[0]))
        connection.take(told)

    def _why_not(self, told: MqttTold) -> str:
        name = topic_name(told)
        all_ = [*self._publications.versions.get(name, ()), *self._publications.messages.get(name, ())]
        if any(one.may_be(told) for one in all_):
            return "something before it was published"
        if any(content(told.payload) in one.contents for one in all_):
            return f"version {told.version} with the payload of another one"
        return "what nobody published"

    def _judge_again(self, device: CheckedDevice, told: MqttTold, possible: list[TopicPublish]) -> None:
        """M3: what was acknowledged in an earlier connection comes again only in answer to a SUBSCRIBE."""
        connection, name = device.connection, topic_name(told)
        assert connection is not None
        if told.retain and connection.allowed_answers(name) > 0:
            return
        for heard, before in device.kept:
            if topic_name(before) != name or self._publications.troubled(heard, connection.connected.t):
                continue
            if self._publications.period(name, before.t) != self._publications.period(name, told.t):
                continue
            if _is_again(told, before, possible):
                what = words(told) if told.version is not None else f"a message of {told.topic}"
                self._verdict.add(
                    "M3",
                    f"{device.client} was told {what} again, which it had acknowledged in an earlier connection",
                    (before, device.ended, connection.connected, told),
                )
                return

    # --- wakes, and the end

    def _on_pong(self, event: MqttPong) -> None:
        device = self.of(event.client)
        connection = device.connection
        if connection is None or not device.is_connected:
            return
        connection.on_pong(event)
        if connection.pongs > 1 or event.t - event.asked >= ANSWERED_US:
            return
        self._verdict.statistics.count_mqtt(wakes=1)
        since = connection.connect.t
        for judged in (self._versions, self._messages):
            judged.judge_owed(
                device,
                event,
                before=since - self._skew_us,
                held_at=since,
                promise="P7",
                when="when its first PINGREQ was answered",
            )

    def _on_end(self, event: End) -> None:
        for client in event.connected:
            device = self._by_client.get(client)
            if device is None or not device.is_connected:
                continue
            self._judge_set(device, event)
            self._versions.judge_owed(device, event, before=event.t, held_at=event.t, promise="M2", when="at the end")
            self._messages.judge_owed(device, event, before=event.t, held_at=event.t, promise="M8", when="at the end")

    def _judge_set(self, device: CheckedDevice, event: End) -> None:
        """M5: the filters that were granted are in the topic."""
        if self._names.registrations not in self._topics.dumped:
            return
        there = self._topics.filters.get(device.client, set())
        missing = [
            text
            for text, held in device.filters.items()
            if text not in there and held.since > self._lost_at + LOST_UNNOTICED_US
        ]
        if missing:
            words_ = f"{device.client} was granted filters that are not in the topic: {', '.join(missing[:5])}"
            self._verdict.add("M5", words_, (*self._topics.buckets.get(device.client, ()), event))


def _is_again(told: MqttTold, before: MqttTold, possible: list[TopicPublish]) -> bool:
    """Returns true if a device is surely told the same as before, or a version that is older."""
    if told.version is not None or before.version is not None:
        return told.version is not None and before.version is not None and told.version <= before.version
    if told.offset is not None and before.offset is not None:
        return told.offset == before.offset
    return len(possible) == 1 and content(told.payload) == content(before.payload)
