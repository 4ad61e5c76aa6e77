"""Registrations of channels: their fields, their positions, and the reasons to refuse them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from coldnotify_schemas import wire_pb2
from coldnotify_schemas.interests import channel_hash, channel_of, channel_text, expression_of
from coldnotify_schemas.names import InvalidName
from coldnotify_schemas.protocol import PATTERNS_MAX

from coldnotify_matcher.engine.channel_logs.channel_log import ChannelLog
from coldnotify_matcher.engine.clients.clients import RegisteredClient
from coldnotify_matcher.engine.interests.by_channel import ClientChannel, key_of
from coldnotify_matcher.engine.interests.kinds import ALL_KINDS, channel_text_of
from coldnotify_matcher.engine.partition_state import PartitionState

_SAYS_WHERE = (wire_pb2.SINCE_POSITION, wire_pb2.SINCE_BEGINNING)
BEGINNING = -1


@dataclass(slots=True)
class RegisteredChannels:
    """The outcome of a request."""

    refused: list[wire_pb2.Refusal] = field(default_factory=list)
    begins: dict[ClientChannel, int] = field(default_factory=dict)
    """By channel that the client is registered for now: the offset after which it is sent."""
    gone: list[ClientChannel] = field(default_factory=list)
    """Registrations that others replaced."""
    lost: list[ClientChannel] = field(default_factory=list)
    """Channels whose client has to hear that messages of another log may be missing."""

    def positions(self) -> list[wire_pb2.Position]:
        """Returns the positions for the client."""
        return [
            wire_pb2.Position(interest=channel.hash, position=None if begin == BEGINNING else begin)
            for channel, begin in self.begins.items()
        ]


class Registering:
    """Registers clients for channels."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    def register(
        self,
        log: ChannelLog,
        client: RegisteredClient,
        said: Iterable[wire_pb2.Interest],
        *,
        replayed: bool,
        void: bool,
        void_begins: bool = False,
    ) -> RegisteredChannels:
        """Register the client. `replayed`: later requests of it are handled already, so that nothing is changed.

        `void`: the offsets that it names are those of another log. `void_begins`: they were until it heard so in this
        session, and it names the beginning instead; its former registrations are unknown here.
        """
        outcome = RegisteredChannels()
        for one in said:
            text = channel_text_of(one)
            hash_ = channel_hash(text)
            channel = client.channels.get(hash_)
            says_where = one.since in _SAYS_WHERE
            begin = begin_of(log, client, one)
            lost = says_where and (void or begin >= log.position)
            lost |= void_begins and one.since == wire_pb2.SINCE_BEGINNING
            if lost:
                begin = log.log_start - 1
            if channel is None:
                if replayed:
                    continue
                reason = self._why_not(log, client, text)
                if reason:
                    outcome.refused.append(wire_pb2.Refusal(interest=hash_, reason=reason))
                    self._state.count("channels_refused")
                    continue
                channel = self._add(log, client, text, begin, outcome)
            elif channel.epoch != log.epoch:
                lost, begin = True, log.log_start - 1
                self._move(log, client, channel, begin, replayed=replayed)
            elif not says_where:
                begin = channel.position
            elif begin < channel.position:
                self._move(log, client, channel, begin, replayed=replayed)
            outcome.begins[channel] = begin
            if lost:
                outcome.lost.append(channel)
        return outcome

    def begin_anew(
        self, log: ChannelLog, client: RegisteredClient, outcome: RegisteredChannels, *, replayed: bool, void: bool
    ) -> None:
        """Begin unnamed channels that are registered in another log with the oldest message of this one."""
        for channel in client.channels.values():
            if channel in outcome.begins or not (void or channel.epoch != log.epoch):
                continue
            if channel.epoch != log.epoch:
                self._move(log, client, channel, log.log_start - 1, replayed=replayed)
            outcome.begins[channel] = log.log_start - 1
            outcome.lost.append(channel)

    def _add(
        self, log: ChannelLog, client: RegisteredClient, text: str, position: int, outcome: RegisteredChannels
    ) -> ClientChannel:
        key = key_of(client.group_key, channel_of(text)[0])
        other = client.channels.by_key.get(key)
        if other is not None:
            client.unregister_channel(other)
            outcome.gone.append(other)
            outcome.begins.pop(other, None)
            if other in outcome.lost:
                outcome.lost.remove(other)
        channel = client.register_channel(text, position, log.epoch, self._state.rules.bucket_objects_max)
        self._state.count("channels_registered")
        return channel

    def _move(
        self, log: ChannelLog, client: RegisteredClient, channel: ClientChannel, begin: int, *, replayed: bool
    ) -> None:
        if not replayed:
            channel.position, channel.epoch = begin, log.epoch
            client.changed.add(channel.bucket)

    def _why_not(self, log: ChannelLog, client: RegisteredClient, text: str) -> str:
        """Returns the reason why the client cannot be registered for this; "": it can."""
        name, attributes = channel_of(text)
        try:
            if channel_text(name, attributes) != text:
                return "attributes: are not sorted, or one is there twice"
        except InvalidName as error:
            return str(error).replace("object:", "channel:", 1)
        if key_of(client.group_key, name) in client.channels.by_key:
            return ""
        expression = expression_of(name)
        if expression is not None and (reason := _why_no_pattern(log, client, expression)):
            return reason
        full = self._state.why_full(client, ALL_KINDS)
        return f"channel: {full}" if full else ""


def _why_no_pattern(log: ChannelLog, client: RegisteredClient, expression: str) -> str:
    """Returns the reason why the client cannot have one more pattern, which is this; "": it can."""
    if client.channels.patterns >= PATTERNS_MAX:
        return f"pattern: the client has {client.channels.patterns} (at most {PATTERNS_MAX} are allowed)"
    return log.names.why_not(client.group_key, expression)


def begin_of(log: ChannelLog, client: RegisteredClient, said: wire_pb2.Interest) -> int:
    """Returns the offset after which it begins, if it is not registered yet."""
    now = log.position - 1
    if said.since == wire_pb2.SINCE_POSITION:
        return said.at
    if said.since == wire_pb2.SINCE_BEGINNING:
        return BEGINNING
    if said.since == wire_pb2.SINCE_OLDEST:
        return min(log.log_start - 1, now)
    if said.since == wire_pb2.SINCE_TIME:
        return min(max(said.at, log.log_start) - 1, now)
    if said.since == wire_pb2.SINCE_NEWEST:
        newest = _newest(log, client, said)
        if newest is not None and newest >= log.oldest:
            return newest - 1
    return now


def _newest(log: ChannelLog, client: RegisteredClient, said: wire_pb2.Interest) -> int | None:
    """Returns the offset of the newest message that is known."""
    if said.kind == wire_pb2.INTEREST_PATTERN:
        if log.names.why_not(client.group_key, said.text):
            return None
        return log.names.of_pattern(client.group_key, said.text).known
    return log.last.known(f"{client.group_key}/{said.text}")
