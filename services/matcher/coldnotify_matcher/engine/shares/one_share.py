"""One share of a channel as its partition's owner sees it: its definition, its members, and what is to be sent.

Stands for: known_shares
"""

from __future__ import annotations

from typing import NamedTuple

from coldnotify_schemas.share_state import SHARE_FORMAT, ShareRecord

from coldnotify_matcher.engine.channel_logs.channel_log import BlockWaiter
from coldnotify_matcher.engine.clients.sessions import EngineSession
from coldnotify_matcher.engine.interests.by_channel import channel_mark
from coldnotify_matcher.engine.shares.share_rule import ShareRule
from coldnotify_matcher.engine.shares.share_values import HandOut

NUMBERS_OF_A_LOG = 1_000_000
"""Another log begins with so much higher numbers of hand-outs: what is held of the former one has lower ones."""
_BELOW_ALL = -1


class Definition(NamedTuple):
    """The definition of a share, as its first member has said it."""

    attributes: tuple[str, ...]
    since: int
    """As in `wire.Since`."""
    at: int
    """An offset, which has a meaning with SINCE_POSITION only."""


class Present(NamedTuple):
    """A member whose session has said all that it holds."""

    session: EngineSession
    hash: int
    """The hash of its registration."""
    hold: int
    """Number of its last Hold that was handled."""
    prefetch: int
    lease_s: int


class UnsentHandOut(NamedTuple):
    """A hand-out that is not sent, because its message has to be read first."""

    handed: HandOut
    to: Present


class KnownShare(BlockWaiter):
    """The state of one share."""

    def __init__(
        self,
        key: str,
        definition: Definition | None,
        epoch: int,
        rule: ShareRule,
        attributes: frozenset[str] = frozenset(),
    ) -> None:
        """`definition` None: its record is lost, and only members' registrations are known, with these attributes."""
        self.key = key
        domain, group, self.name, channel = key.split("/", 3)
        self.group_key = f"{domain}/{group}"
        self.domain = domain
        self.channel = f"{self.group_key}/{channel}"
        """domain/group/channel."""
        self.channel_name = channel
        self.mark = channel_mark(self.channel)
        self.definition = definition
        self.attributes: frozenset[str] = attributes if definition is None else frozenset(definition.attributes)
        self.epoch = epoch
        self.rule = rule
        self.numbers_from = 0
        self.applied = -1
        """The offset of the newest request whose effects are in its state."""
        self.members: set[str] = set()
        """Names of the clients that are registered for it."""
        self.present: dict[str, Present] = {}
        self.sends: dict[int, UnsentHandOut] = {}
        """By offset."""
        self.letters: list[int] = []
        """Offsets of messages whose dead letters the last step has written."""
        self.waits_for: int | None = None
        """The offset whose block it waits for."""
        self.empty_since_ms = 0
        self.stored_base = rule.base
        self.dirty = True
        """True if its record is to be written with the next step, whatever the rule says."""

    def define(self, definition: Definition) -> None:
        """Note what a member says of it, as its record is lost."""
        self.definition = definition
        self.attributes = frozenset(definition.attributes)
        self.dirty = True

    def change(self) -> None:
        """Have its record written with the next step."""
        self.dirty = True

    def stored(self) -> None:
        """Note that its record is written in this step."""
        self.dirty = False
        self.stored_base = self.rule.base

    def is_empty(self, since_ms: int) -> None:
        """Note that it has no members since this time (Unix ms); 0: it has some."""
        self.empty_since_ms, self.dirty = since_ms, True

    def applies(self, offset: int) -> None:
        """Note that the request at this offset is handled."""
        self.applied = max(self.applied, offset)

    def served(self) -> None:
        """Note that the block that it waits for has come."""
        self.waits_for = None

    def begin_anew(self, epoch: int) -> None:
        """Begin with another log, below its first offset: what is in hands belongs to the former one."""
        self.epoch = epoch
        self.numbers_from += NUMBERS_OF_A_LOG
        self.rule = ShareRule(_BELOW_ALL, numbers_from=self.numbers_from)
        for name, one in self.present.items():
            self.rule.join(name, one.prefetch, one.lease_s * 1_000)
        self.sends.clear()
        self.letters.clear()
        self.dirty = True

    def record(self, generation: int, steady_ms: int) -> ShareRecord:
        """Returns its record."""
        said = self.definition or Definition(tuple(sorted(self.attributes)), 0, 0)
        return ShareRecord(
            SHARE_FORMAT,
            generation,
            self.applied,
            self.epoch,
            *self.rule.table(steady_ms),
            since=said.since,
            at=said.at,
            attributes=list(said.attributes),
            empty_since=self.empty_since_ms,
            numbers_from=self.numbers_from,
            undefined=self.definition is None,
        )

    @classmethod
    def load(cls, key: str, record: ShareRecord, steady_ms: int, *, applied_counts: bool) -> KnownShare:
        """Returns the share in a record. Every lease begins whole at `steady_ms`."""
        definition = None if record.undefined else Definition(tuple(record.attributes), record.since, record.at)
        rule = ShareRule.load(record.table, steady_ms, numbers_from=record.numbers_from)
        share = cls(key, definition, record.epoch, rule, frozenset(record.attributes))
        share.numbers_from = record.numbers_from
        share.empty_since_ms = record.empty_since
        share.applied = record.applied if applied_counts else -1
        share.dirty = False
        return share
