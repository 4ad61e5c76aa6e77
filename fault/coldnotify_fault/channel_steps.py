"""Draws a campaign's channels: subscriptions, messages and their senders, retention. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

from coldnotify_schemas.priority import HIGH

CHANNELS = ("orders", "alarms")
FILM = "film"
"""A channel that nobody subscribes to. Its messages displace others from the matchers' memory: clients that are behind
then catch up from parts of the log that are read again.
"""
FILM_MESSAGES = 20
FILM_BYTES = 60_000
"""Size of each. Together they exceed what matchers keep in memory (`TAIL_BYTES_MAX`)."""
TAIL_BYTES_MAX = 1024 * 1024
ATTRIBUTES = ("camera", "solar")
SENDERS = ("library-1", "http-1", "raw-1")
"""The ways in which publishers of objects send. Besides, clients send on their sessions."""
SENDS_PER_S = 6.0
_BY_CLIENTS = 0.3
_AGAIN = 0.15
_EXPIRES = 0.15
_EXPIRES_IN_MS = (300, 1_000, 3_000)
_HIGH_EVERY = 5
"""So often a message is of high priority."""
_FILM_EVERY_S = 6.0
_TRIM_EVERY_S = 6.0
_FILM_BEFORE_TRIM_S = 0.7
"""Matchers still deliver what they have in memory, even if retention has removed it."""
_LOG_LOST = (0.35, 0.65)
"""The part of the time after which one of the topics is recreated: this leaves time for the rest
before and after it.
"""
_LAST_FILMS_S = 3.0
"""Before the end: then retention takes everything, and who wakes at the end has missed that."""

Drawn = tuple[float, str, str, dict[str, Any]]
"""The fields of a `schedule.Step`: time, kind, target, and its arguments."""


class Followed(NamedTuple):
    """A channel that a client follows from its first start on."""

    channel: str
    since: str
    attributes: tuple[str, ...]


def draw_followed(random: Random, clients: Sequence[str]) -> dict[str, tuple[Followed, ...]]:
    """One client of each group follows channels: half of all, and each retention has some."""
    by_group: dict[str, list[str]] = {}
    for client in clients:
        by_group.setdefault(client.rpartition("/")[0], []).append(client)
    followers: dict[str, tuple[Followed, ...]] = {}
    for of_group in by_group.values():
        for client in random.sample(of_group, (len(of_group) + 1) // 2):
            names = random.sample(CHANNELS, random.randint(1, len(CHANNELS)))
            followers[client] = tuple(
                Followed(name, random.choice(("oldest", "oldest", "now")), _attributes(random)) for name in names
            )
    return followers


def draw_steps(random: Random, seconds: float, followed: Mapping[str, tuple[Followed, ...]]) -> Iterator[Drawn]:
    """Everything else. Not in order of time."""
    groups = sorted({client.rpartition("/")[0] for client in followed})
    for client, at_first in followed.items():
        names = {one.channel for one in at_first}
        at_s = 1.0
        while (at_s := at_s + random.expovariate(1 / 15.0)) < seconds:
            name = random.choice(CHANNELS)
            if name in names:
                yield at_s, "unsubscribe", client, {"channel": name}
            else:
                # Whoever follows anew says "now": of what was before, a service that has not heard of the end between
                # the two may tell more, and none tells less.
                followed_anew = Followed(name, "now", _attributes(random))
                yield at_s, "subscribe", client, followed_anew._asdict()
            names ^= {name}
    yield from _draw_messages(random, seconds, groups, sorted(followed))
    at_s = 0.0
    while (at_s := at_s + random.expovariate(1 / _FILM_EVERY_S)) < seconds:
        yield at_s, "film", random.choice(groups), {}
    at_s = _FILM_BEFORE_TRIM_S
    while (at_s := at_s + random.expovariate(1 / _TRIM_EVERY_S)) < seconds - _LAST_FILMS_S:
        group = random.choice(groups)
        yield at_s - _FILM_BEFORE_TRIM_S, "film", group, {}
        yield at_s, "trim", group, {"all": random.random() < 0.7}
    yield random.uniform(*_LOG_LOST) * seconds, "lose_log", random.choice(groups), {}
    for group in groups:
        at_s = max(0.0, seconds - _LAST_FILMS_S)
        yield at_s, "film", group, {}
        yield at_s + _FILM_BEFORE_TRIM_S, "trim", group, {"all": True}


def _attributes(random: Random) -> tuple[str, ...]:
    return random.choice(((), ("camera",), ("solar",), ATTRIBUTES))


def _draw_messages(random: Random, seconds: float, groups: list[str], clients: list[str]) -> Iterator[Drawn]:
    """Draws bursts and single messages; a sender without an answer repeats its message."""
    sent: dict[str, list[dict[str, Any]]] = {}
    number = 0
    at_s = 0.0
    while (at_s := at_s + random.expovariate(SENDS_PER_S / 2)) < seconds:
        group = random.choice(groups)
        for _ in range(random.choice((1, 1, 1, 5))):
            channel = f"{group}/{random.choice(CHANNELS)}"
            if random.random() < _AGAIN and sent.get(channel):
                message = random.choice(sent[channel][-8:])
            else:
                number += 1
                to = sorted(random.sample(ATTRIBUTES, random.randint(1, 2))) if random.random() < 0.3 else []
                priority = None if number % _HIGH_EVERY else HIGH
                message = {
                    "channel": channel, "message": f"m{number}", "payload": {"number": number}, "to": to,
                    "priority": priority,
                }  # fmt: skip
                if random.random() < _EXPIRES:
                    # Sent once: a repeat would have to say the same time.
                    message["expires_in_ms"] = random.choice(_EXPIRES_IN_MS)
                else:
                    sent.setdefault(channel, []).append(message)
            if random.random() < _BY_CLIENTS:
                by = random.choice([client for client in clients if client.startswith(f"{group}/")])
                yield at_s, "send_by_client", by, message
            else:
                yield at_s, "send", random.choice(SENDERS), {**message, "stray": random.random() < 0.5}
