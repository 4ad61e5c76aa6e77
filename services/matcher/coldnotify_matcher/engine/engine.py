"""The engine of one partition: objects and requests in, notifications and state records out.

Theory of operation
-------------------
Everything that concerns a domain/group is in one partition, and `state.State` holds what is known of one: objects
(newest version and its offset), clients (interests, cursor, current session) and gateways. Records of the objects topic
come in through `on_object` (`intake`), in offset order; requests through `on_requests` (`requests`), in offset order;
time through `on_tick` (`upkeep`, `forgetting`, `conflation`). Each may add outputs to the one `outbox`, and `take_step`
hands out what has come together. The shell makes them durable in the order that Step names, and only then commits the
offsets of both inputs. Whatever it had not committed it reads again after a failure: every handler gives the same
result when it sees an input twice.

A client lacks what it is interested in and has a newest offset above its cursor, unless it published that version
itself (`clients.Client.lacks`). A session is sent that in pages; at the instant its last page is computed it joins the
fan-out index (`index.Index`), and from then on a publish reaches it as one number in a packed array. It stays in the
index while a gateway has it caught up once more: the gateway drops what is live for a session that waits for a page,
and the page, which comes later in the same inbox, contains it.

Replay: `registrations_applied` of a client is the offset of a request whose writes, and those of all before it, are
durable. A client's buckets are in one partition, written in order by an idempotent producer, so a crash loses only
the last of a step's records: the last one alone says the step's offset, those before it still say the former one. So a
request below it changes nothing when it comes again, and what was done in part is done again as a whole, in order.
"""

from collections.abc import Mapping, Sequence

from coldnotify_schemas import internal_pb2
from coldnotify_schemas.matcher_state import RegistrationsRecord, SessionRecord
from coldnotify_schemas.names import REGISTRATIONS_MAX

from coldnotify_matcher.engine.client_records import ClientRecords
from coldnotify_matcher.engine.clients import Client
from coldnotify_matcher.engine.conflation import Conflation
from coldnotify_matcher.engine.forgetting import Forgetting
from coldnotify_matcher.engine.gateways import GatewayView
from coldnotify_matcher.engine.history import History
from coldnotify_matcher.engine.index import Index
from coldnotify_matcher.engine.intake import Intake
from coldnotify_matcher.engine.loading import Loading
from coldnotify_matcher.engine.object_map import ObjectMap
from coldnotify_matcher.engine.object_records import ObjectRecord
from coldnotify_matcher.engine.objects import Obj
from coldnotify_matcher.engine.outbox import Outbox
from coldnotify_matcher.engine.outputs import Step
from coldnotify_matcher.engine.paging import Paging
from coldnotify_matcher.engine.partition_state import At, State
from coldnotify_matcher.engine.repairs import Repairs
from coldnotify_matcher.engine.requests import Requests
from coldnotify_matcher.engine.rules import Rules
from coldnotify_matcher.engine.strays import Strays
from coldnotify_matcher.engine.upkeep import Upkeep


class Engine:
    """Puts the parts together, and hands each input to the one that handles it."""

    def __init__(
        self, partition: int, partitions: int, epoch: int, *, registrations_max: int = REGISTRATIONS_MAX
    ) -> None:
        self.state = State(partition, partitions, epoch, registrations_max=registrations_max)
        self.history = History()
        self._outbox = Outbox(self.state)
        self._repairs = Repairs(self.state, self._outbox)
        self._strays = Strays(self.state, self._outbox)
        self._records = ClientRecords(self.state, self._outbox)
        index = Index(self.state)
        self._conflation = Conflation(self.state, index)
        self._intake = Intake(self.state, self._outbox, self.history, self._conflation, self._repairs, self._strays)
        self._loading = Loading(self.state, self._outbox, index, self._conflation, self._repairs, self._strays)
        self._paging = Paging(self.state, index)
        self._requests = Requests(self.state, index, self._paging, self._conflation)
        self._upkeep = Upkeep(self.state)
        self._forgetting = Forgetting(self.state, self._outbox)

    # ---- loading -------------------------------------------------------------------------------------------------

    def start_load(self, objects_committed: int | None) -> None:
        """`objects_committed`: the offset up to which a predecessor handled the objects topic; None: nobody did.

        Feed the compacted topics then: `load_registrations`, `load_session`, and `on_object` for the objects. Objects
        may have been fed before, while another owned the partition: feed those from `objects_committed` on again.
        """
        self._loading.start(objects_committed)

    def load_registrations(self, key: str, record: RegistrationsRecord, *, applied_counts: bool) -> None:
        """One bucket, the winner among its key's records. `applied_counts`: it is of today's requests topic."""
        self._loading.load_registrations(key, record, applied_counts=applied_counts)

    def load_session(self, key: str, record: SessionRecord, now_ms: int, *, applied_counts: bool) -> None:
        """A client's session record, the winner among its key's records. Its registrations are loaded before."""
        self._loading.load_session(key, record, now_ms, applied_counts=applied_counts)

    def finish_load(
        self,
        generation: int,
        inboxes: int,
        now_ms: int,
        *,
        objects_committed: int | None,
        requests_start: int | None = None,
    ) -> None:
        """Take the partition over: tell all gateways, and fan out what the predecessor may not have.

        `requests_start`: the offset from which requests are handled; None: from the end on.
        """
        self._loading.finish(
            generation, inboxes, now_ms, objects_committed=objects_committed, requests_start=requests_start
        )

    # ---- inputs --------------------------------------------------------------------------------------------------

    def on_object(self, record: ObjectRecord, now_ms: int) -> None:
        """One record of the objects topic's partition."""
        self._intake.on_object(record, now_ms)

    def skip_object(self, key: bytes | None, offset: int) -> None:
        """The record at this offset is set aside: its object's newest version is to stand behind it again."""
        self._intake.skip_object(key, offset)

    def on_objects_end(self, offset: int) -> None:
        """The objects topic has been read up to `offset`, also where its last offsets hold no records."""
        self._intake.on_end(offset)

    def on_requests(self, requests: Sequence[tuple[int, internal_pb2.Request]], now_ms: int) -> None:
        """A batch of (offset, request), in order. The objects topic has been read up to its end as of now.

        Of several Opens of one client in a row only the last is answered: it says all that the earlier ones said.
        """
        self._requests.on_requests(requests, now_ms)
        self._paging.settle(now_ms)

    def rewrite(self, topic: str, key: str, *, was_null: bool) -> None:
        """A null or a record with a lower generation was seen in a state topic: ours is written again after it."""
        self._records.rewrite(topic, key, was_null=was_null)

    def on_tick(self, now_ms: int) -> None:
        """Time passes: gateways that fell silent, cursors to be stored, clients to be forgotten."""
        self.state.at = None
        self._upkeep.on_tick(now_ms)
        self.state.members.on_tick(now_ms)
        self._forgetting.on_tick(now_ms)
        self._conflation.on_tick(now_ms)

    def flush(self, now_ms: int) -> None:
        """Fan out what was held back until now, and go on with the sets that sessions wait for."""
        self._conflation.flush(now_ms)
        self._paging.settle(now_ms)

    # ---- outputs -------------------------------------------------------------------------------------------------

    def take_step(self, now_ms: int) -> Step:
        """All outputs since the last step."""
        self._repairs.write()
        self._records.write_changed(now_ms)
        self._forgetting.write_sessions()
        self._strays.write()
        return self._outbox.take(now_ms)

    @property
    def objects_done(self) -> int:
        """Up to which offset of the objects topic nothing is left to be done: what may be committed."""
        return self._conflation.floor

    @property
    def first_not_stored(self) -> int | None:
        """The first request whose outcome is not written yet, nor will be by this step; None: there is none."""
        return self.state.brief.first_offset

    @property
    def queries(self) -> int:
        """How many have a set, by canonical form."""
        return self.state.members.sets.queries

    @property
    def query_members(self) -> int:
        """Of all these sets."""
        return self.state.members.sets.members

    @property
    def computing(self) -> bool:
        """Whether there are sets of queries to be computed, or to be forgotten, by `flush`."""
        return self.state.members.sets.computing

    def next_due_ms(self) -> int | None:
        """When `flush` has something to do (Unix time); None: never, as things are."""
        return 0 if self.computing else self._conflation.next_due_ms()

    # ---- for the shell, and for those who look in ------------------------------------------------------------------

    def held_since(self, obj: Obj) -> int | None:
        """The offset of the first publish of this object that is held back now; None: none is."""
        return self._conflation.held_since(obj)

    def wants(self, client: Client, obj: Obj) -> bool:
        """Whether the client is to be told the object's newest version, by its name or by a query."""
        return client.interested(obj) or self.state.members.has(client, obj.name)

    def why_queries(self, client: Client, name: str) -> list[tuple[str, bool, str]]:
        """Of each of the client's queries: its text, whether it has the object, and which conditions decide that."""
        return self.state.members.why(client, name)

    def conflation_interval_ms(self, entry: str) -> int:
        """The present interval of a domain, or of `*`, as the rules name it."""
        return self._conflation.interval_ms(entry)

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self.state.partitions

    @property
    def position(self) -> int:
        """The next offset of the objects topic."""
        return self.state.position

    @property
    def generation(self) -> int:
        """The one that this partition was taken over with."""
        return self.state.generation

    @property
    def generation_heard(self) -> int:
        """The highest that a gateway has seen."""
        return self.state.generation_heard

    @property
    def outdone(self) -> bool:
        """That has been higher than ours for some time: gateways drop all that we say."""
        return self.state.outdone

    @property
    def objects(self) -> ObjectMap:
        """By key."""
        return self.state.objects

    @property
    def clients(self) -> Mapping[str, Client]:
        """By key."""
        return self.state.clients

    @property
    def gateways(self) -> Mapping[int, GatewayView]:
        """By id."""
        return self.state.gateways

    @property
    def rules(self) -> Rules:
        """What the operator says. The shell sets them before the partition is taken over."""
        return self.state.rules

    @rules.setter
    def rules(self, rules: Rules) -> None:
        self.state.rules = rules

    @property
    def counts(self) -> dict[str, int]:
        """Events since the last step, by name; the shell takes them, and turns them into metrics."""
        return self.state.counts

    @counts.setter
    def counts(self, counts: dict[str, int]) -> None:
        self.state.counts = counts

    @property
    def at(self) -> At:
        """What is being handled. Should that raise, this is what to set aside."""
        return self.state.at

    @at.setter
    def at(self, at: At) -> None:
        self.state.at = at

    def count(self, name: str) -> None:
        """Something happened in the shell that is counted with the engine's events."""
        self.state.count(name)
