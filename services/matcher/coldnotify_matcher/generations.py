"""Generations: each owner of a partition claims a higher one than all before it, as a record of the sessions topic.

An owner whose claim is outdone gives up. A claim that was overwritten is written again.
"""

from dataclasses import replace

import msgspec
from coldnotify_schemas.matcher_state import FORMAT, GENERATION_KEY, GenerationRecord
from coldnotify_streams.core.partition_progress import OwningPhase
from coldnotify_streams.errors import TakenOver

from coldnotify_matcher.engine import ProducedRecord
from coldnotify_matcher.run_topics import Cluster
from coldnotify_matcher.state_records import UnreadableState, parse_generation


class Generations:
    """The generations of one partition, as one matcher's run sees them. `owner` tells the run from all others."""

    def __init__(self, partition: int, topic: str, cluster: Cluster, owner: str) -> None:
        """`topic` holds the claims, beside sessions."""
        self._partition = partition
        self._topic = topic
        self._cluster = cluster
        self._owner = owner
        self.highest = 0
        """The highest generation that is known to be claimed, or to have written."""
        self.claimed = 0
        """This run's claim; 0: it has claimed none."""
        self.last: GenerationRecord | None = None
        """The claim before this run's."""
        self._lost = False
        """True if this run's claim was overwritten by a record that is not a claim."""
        self._claimed_higher = False

    @property
    def is_read_back(self) -> bool:
        """True if this run's claim has come back from the log, and no higher one."""
        return self.claimed > 0 and self.highest == self.claimed

    @property
    def is_outdone(self) -> bool:
        """True if another run's claim came first."""
        return self.highest > self.claimed

    def claim(self, requests_topic_changed: bool) -> ProducedRecord:
        """Returns the record that claims the next one."""
        self.claimed = self.highest + 1
        return self._record(self.claimed, requests_topic_changed)

    def requests_since(self, requests_topic_changed: bool) -> int:
        """Returns the first generation under the present requests topic; `applied` of older records refers to a former
        topic.

        A claim carries it for its successors: its owner may have failed before it wrote any record again.
        """
        if requests_topic_changed:
            return self.claimed
        return self.last.requests_since if self.last is not None else 0

    def saw(self, generation: int) -> None:
        """Note that a record of this generation was read. It counts if the claims themselves are lost: gateways would
        drop all records of a lower generation."""
        self.highest = max(self.highest, generation)

    def is_claim_again(self, value: bytes | None, now_ms: int) -> bool:
        """Returns true if a record under the claims' key is this run's claim, and no higher one has come before. Raises
        UnreadableState."""
        if value is None or not self.is_read_back:
            return False
        record = parse_generation(value, now_ms)
        return record.owner == self._owner and record.generation == self.claimed

    def claim_again(self, requests_topic_changed: bool) -> ProducedRecord:
        """Returns the record that states this run's claim again."""
        return self._record(self.claimed, requests_topic_changed)

    def marker(self, topic: str, requests_topic_changed: bool) -> ProducedRecord:
        """Returns this run's claim, as a record of another topic: once that is read back, so is all before it."""
        return replace(self._record(self.claimed, requests_topic_changed), topic=topic)

    def on_record(self, value: bytes | None, now_ms: int, phase: OwningPhase) -> None:
        """Handle a record under the claims' key. Raises TakenOver, and UnreadableState."""
        if value is None:
            self._lost = True
            return
        try:
            record = parse_generation(value, now_ms)
        except UnreadableState:
            self._lost = True
            raise
        ours = record.owner == self._owner
        if phase is OwningPhase.OWNED:
            if record.generation > self.claimed and ours:
                raise TakenOver(f"partition {self._partition}: claims were lost, gateways go by a higher generation")
            if record.generation >= self.claimed and not ours:
                raise TakenOver(
                    f"partition {self._partition}: {record.owner} took it over (generation {record.generation})"
                )
            self._lost = not ours
            return
        self._lost = False
        if ours and record.generation == self.claimed > self.highest:
            self.highest = record.generation
            return
        if record.generation >= self.highest:
            # Another's claim of the same number, seen first, wins: ours counts as not made.
            self.highest = max(record.generation, self.claimed + 1 if phase is OwningPhase.CLAIMING else 0)
            self.last = record

    def take_repairs(self, heard: int | None, requests_topic_changed: bool) -> list[ProducedRecord]:
        """Returns the claim again, if it was overwritten. `heard`: gateways follow this higher generation."""
        repairs = [self._record(self.claimed, requests_topic_changed)] if self._lost else []
        if heard is not None and not self._claimed_higher:
            # The claims were lost, with their topic. When it reads this one back, the matcher loads again, with a
            # higher one.
            self._claimed_higher = True
            repairs.append(self._record(heard, requests_topic_changed))
        self._lost = False
        return repairs

    def _record(self, generation: int, requests_topic_changed: bool) -> ProducedRecord:
        topic_id, epoch = self._cluster.requests_topic_id, self._cluster.epoch
        since = self.requests_since(requests_topic_changed)
        record = GenerationRecord(FORMAT, generation, self._owner, topic_id, epoch, since)
        return ProducedRecord(self._topic, self._partition, GENERATION_KEY.encode(), msgspec.json.encode(record))
