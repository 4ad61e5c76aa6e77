"""The outputs of a step until it is taken: records to write, and items for gateways."""

from coldnotify_schemas import internal_pb2

from coldnotify_matcher.engine.outputs import ProducedRecord, Step
from coldnotify_matcher.engine.partition_state import PartitionState


class EngineOutbox:
    """The one place that a step is taken from. Items for a gateway wait in its `GatewayView`, in order."""

    def __init__(self, state: PartitionState) -> None:
        self._state = state
        self._step = Step()

    def write(self, write: ProducedRecord) -> None:
        """Add a state record, or a record that depends on nothing else in this step."""
        self._step.state.append(write)

    def write_seal(self, write: ProducedRecord) -> None:
        """Add a state record that says that the step's other state records are durable."""
        self._step.seals.append(write)

    def write_fence(self) -> None:
        """Have the partition's claim written again, once the step's state is durable."""
        self._step.claim_again()

    def write_last(self, write: ProducedRecord) -> None:
        """Add a tombstone that must follow the step's other records."""
        self._step.tombstones.append(write)

    def tell_all(self, inboxes: int) -> None:
        """Announce our generation to every inbox, before anything else, at a takeover."""
        state = self._state
        self._step.inboxes = [
            (inbox, internal_pb2.Inbox(format=1, partition=state.partition, generation=state.generation))
            for inbox in range(inboxes)
        ]

    def take(self, now_ms: int) -> Step:
        """Returns the step, and begins the next one."""
        step, self._step = self._step, Step()
        state = self._state
        for gateway in state.gateways.values():
            records = gateway.take_records(state.partition, state.generation)
            if records and state.rules.conflation.auto:
                gateway.lag.made(records[0][1].number, now_ms)
            step.inboxes += records
        return step
