"""The engine of one partition: objects and requests in, notifications and state records out.

Theory of operation
-------------------
Everything about a domain/group is in one partition, and `partition_state.PartitionState` holds the state of one:
objects (newest version and its offset), clients (interests, cursor, current session) and gateways. Records of the
objects topic come in through `on_object` (`intake`), in offset order; requests through `on_requests` (`requests`), in
offset order; time through `on_tick` (`upkeep`, `forgetting`, `retention`, `conflation`). Each may add outputs to the
one `outbox`, and `take_step` returns those since the last step. The shell makes them durable in the order that Step
names, and only then commits the offsets of both inputs. Inputs that it had not committed it reads again after a
failure: every handler gives the same result when it sees an input twice.

A client lacks an object that it is interested in if the newest offset is above its cursor, unless it published that
version itself (`clients.RegisteredClient.lacks`). A session receives missing versions in pages; at the instant its last
page is computed it joins the fan-out index (`index.Index`), and from then on a publish reaches it as one number in a
packed array. It stays in the index while a gateway has it caught up again: the gateway drops live frames for a session
that waits for a page, and the page, which comes later in the same inbox, contains them.

Replay: `registrations_applied` of a client is the offset of a request whose writes, and those of all before it, are
durable. Of several buckets that a step changes only the last one carries the step's offset, and it is written once the
others are durable (`Step.seals`); those still carry the former one. So a request below it changes nothing when it comes
again, and a step that was done in part is done again as a whole, in order.
"""

from collections.abc import Sequence

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.matcher_state import is_wills_key
from coldnotify_schemas.names import REGISTRATIONS_MAX
from coldnotify_streams.core.partition_turns import Spent, never

from coldnotify_matcher.engine.channels.channel_paging import CatchingUp
from coldnotify_matcher.engine.channels.channel_requests import ChannelRequests
from coldnotify_matcher.engine.handing.share_steps import ShareSteps
from coldnotify_matcher.engine.inputs.arrivals import Door
from coldnotify_matcher.engine.inputs.evaluated_ahead import EvaluatedAhead
from coldnotify_matcher.engine.inputs.followed_logs import FollowedLogs
from coldnotify_matcher.engine.inputs.intake import Intake
from coldnotify_matcher.engine.inputs.loading import Loading
from coldnotify_matcher.engine.inputs.operating import Operating
from coldnotify_matcher.engine.inputs.patch_requests import PatchRequests
from coldnotify_matcher.engine.inputs.removal_intake import RemovalIntake
from coldnotify_matcher.engine.inputs.requests import RequestHandler
from coldnotify_matcher.engine.objects.history import History
from coldnotify_matcher.engine.objects.object_records import ObjectRecord
from coldnotify_matcher.engine.outputs import Step
from coldnotify_matcher.engine.partition_state import PartitionState
from coldnotify_matcher.engine.telling.conflation import Conflation
from coldnotify_matcher.engine.telling.index import Index
from coldnotify_matcher.engine.telling.paging import Paging
from coldnotify_matcher.engine.upkeep.forgetting import Forgetting
from coldnotify_matcher.engine.upkeep.inventory import Inventory
from coldnotify_matcher.engine.upkeep.retention import RetentionTurns as ObjectRetention
from coldnotify_matcher.engine.upkeep.upkeep import Upkeep
from coldnotify_matcher.engine.writing.client_records import ClientRecords
from coldnotify_matcher.engine.writing.outbox import EngineOutbox
from coldnotify_matcher.engine.writing.repairs import Repairs
from coldnotify_matcher.engine.writing.strays import Strays
from coldnotify_matcher.engine.writing.will_records import WillRecords


class Engine:
    """Connects the parts, and hands each input to the one that handles it."""

    def __init__(
        self, partition: int, partitions: int, epoch: int, *, registrations_max: int = REGISTRATIONS_MAX
    ) -> None:
        self.state = PartitionState(partition, partitions, epoch, registrations_max=registrations_max)
        self.history = History()
        self._outbox = EngineOutbox(self.state)
        self._repairs = Repairs(self.state, self._outbox)
        self._strays = Strays(self.state, self._outbox)
        self._records = ClientRecords(self.state, self._outbox)
        self._wills = WillRecords(self.state, self._outbox)
        index = Index(self.state)
        self.conflation = Conflation(self.state, index)
        self.retention = ObjectRetention(self.state, self._outbox)
        removals = RemovalIntake(self.state, self.conflation, self._repairs, self.retention)
        catching_up = CatchingUp(self.state)
        door = Door(self.state, self._outbox, self.history, self._strays)
        self.channels = FollowedLogs(self.state, self._outbox, door, catching_up)
        self.intake = Intake(self.state, door, self.history, self.conflation, self._repairs, removals)
        self.loading = Loading(self.state, self._outbox, index, self.conflation, self._repairs, self._strays)
        self._paging = Paging(self.state, index)
        self.ahead = EvaluatedAhead(self.state)
        self._forgetting = Forgetting(self.state, self._outbox)
        self.shares = ShareSteps(self.state, self._outbox)
        self.operating = Operating(self.state, self._forgetting, self.shares)
        self._describing = PatchRequests(self.state)
        self._requests = RequestHandler(
            self.state,
            index,
            self._paging,
            self.conflation,
            ChannelRequests(self.state, catching_up),
            self.operating,
            self.history,
            self._describing,
        )
        self._upkeep = Upkeep(self.state)
        self.inventory = Inventory(self.state)

    # ---- loading -------------------------------------------------------------------------------------------------

    def finish_load(
        self,
        generation: int,
        inboxes: int,
        now_ms: int,
        *,
        objects_committed: int | None,
        requests_start: int | None = None,
    ) -> None:
        """Take the partition over: tell all gateways, and fan out versions that the predecessor may not have sent.

        `requests_start`: the offset from which requests are handled; None: from the end on.
        """
        self.retention.start(now_ms)
        self.intake.decide_rest(now_ms)
        self.intake.checkpoints.clear()
        self.loading.finish(
            generation, inboxes, now_ms, objects_committed=objects_committed, requests_start=requests_start
        )

    # ---- inputs --------------------------------------------------------------------------------------------------

    def on_object(self, record: ObjectRecord, now_ms: int) -> None:
        """Handle one record of the objects topic's partition."""
        self.intake.on_object(record, now_ms)

    def on_requests(
        self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int, spent: Spent = never
    ) -> int:
        """Handle a batch of (offset, request), in order. The objects topic has been read up to its end as of now.

        Of several Opens of one client in a row only the last is answered: it contains all that the earlier ones do.
        Returns the number of handled requests: at least one, and all unless the turn is `spent`. The others come again.
        """
        self.state.spent = spent
        self.state.wills.at(now_ms)
        handled = self._requests.on_requests(requests, now_ms, spent)
        self._paging.settle(now_ms)
        return handled

    def rewrite(self, topic: str, key: str, *, was_null: bool) -> None:
        """Write our record of this key again: a null or a record with a lower generation was seen in a state topic."""
        if topic == self.state.rules.topics.channels_state:
            self.channels.rewrite(key)
            return
        if topic == self.state.rules.topics.shares:
            self.shares.rewrite(key, was_null=was_null)
            return
        if topic == self.state.rules.topics.registrations and is_wills_key(key):
            self._wills.rewrite(key.rpartition("/")[0], was_null=was_null)
            return
        self._records.rewrite(topic, key, was_null=was_null)

    def pass_fence(self) -> None:
        """Note that the claim of `Step.fence` has come back from the log: no other one has come before it."""
        self.state.wills.pass_fence()

    def on_tick(self, now_ms: int) -> None:
        """Handle silent gateways, cursors to be stored, clients and objects to be forgotten, as time passes."""
        self.state.at = None
        self.state.wills.at(now_ms)
        self._upkeep.on_tick(now_ms)
        self.state.members.on_tick(now_ms)
        self.state.filtered.on_tick()
        self._forgetting.on_tick(now_ms)
        self.retention.on_tick(now_ms)
        self.conflation.on_tick(now_ms)
        self.channels.on_tick(now_ms)
        self.shares.on_tick(now_ms)

    def flush(self, now_ms: int, spent: Spent = never) -> None:
        """Fan out publishes that were held until now; go on with pages of channels and with sets that sessions wait
        for. These go on until the turn is `spent`; then `unfinished` is true if there are more."""
        self.state.spent = spent
        self._describing.flush(now_ms)
        self.conflation.flush(now_ms)
        self.channels.flush(now_ms)
        self._paging.settle(now_ms)

    # ---- outputs -------------------------------------------------------------------------------------------------

    def take_step(self, now_ms: int) -> Step:
        """Returns all outputs since the last step."""
        self._repairs.write()
        for record in self.state.patches.take_records(self.state.rules.topics.objects, self.state.partition):
            self._outbox.write(record)
        self._forgetting.forget_expired()
        self._wills.write(now_ms)
        self.shares.write(now_ms)
        self._records.write_changed(now_ms)
        self._forgetting.write_sessions()
        self._strays.write()
        self.channels.write(now_ms)
        return self._outbox.take(now_ms)

    @property
    def objects_done(self) -> int:
        """The offset up to which the objects topic may be committed: everything below is done."""
        return self.conflation.floor

    @property
    def unfinished(self) -> bool:
        """True if `flush` has something to do at once: sets are to be computed, pages to be made, or publishes to be
        told."""
        return self.state.members.unsettled or self.channels.unfinished or self.conflation.due_at_once

    @property
    def steps_on(self) -> bool:
        """True if the next step has something to do at once: dead letters, which are durable now, are settled."""
        return self.state.shares.served and bool(self.state.shares.due)

    @property
    def removals_held(self) -> tuple[int, int]:
        """Numbers of clients and objects whose removal waits until the clock is known to be right."""
        return self._forgetting.brake.held, self.retention.brake.held

    def confirm_removals(self, now_ms: int) -> None:
        """Confirm, for an operator, that the clock is right: for an hour any number may be removed, unless clocks are
        apart."""
        self._forgetting.brake.confirm(now_ms)
        self.retention.brake.confirm(now_ms)

    def next_due_ms(self) -> int | None:
        """Returns the time at which `flush` has something to do (Unix time); None: never, at present."""
        if self.unfinished or self.steps_on:
            return 0
        due = (self.conflation.next_due_ms(), self.channels.next_due_ms())
        return min((one for one in due if one is not None), default=None)
