"""Any requests, a cut after any record of any step: the next matcher loads, settles, and owes nobody anything."""

from copy import deepcopy

import msgspec
from coldnotify_matcher.engine import Rules, Step
from coldnotify_matcher.engine.outputs import ProducedRecord
from coldnotify_schemas.digest import digest
from coldnotify_schemas.matcher_state import RegistrationsRecord
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import GATEWAY, PREFIX, EngineBench, answered, opened, pages
from coldnotify_testkit.examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

TOPICS = TopicNames()

OBJECTS = [f"o{i}" for i in range(6)]
CLIENTS = ["c0", "c1"]
BUCKET_OBJECTS = 2

_names = st.lists(st.sampled_from(OBJECTS), min_size=1, max_size=4, unique=True)
_requests = st.lists(
    st.tuples(st.sampled_from(CLIENTS), st.sampled_from(["register", "unregister", "sync", "leave", "open"]), _names),
    min_size=1,
    max_size=6,
)


class Clients:
    """What the clients want, as their requests say it, over a bench that keeps few registrations in a record."""

    def __init__(self) -> None:
        self.bench = EngineBench(rules=Rules(bucket_objects_max=BUCKET_OBJECTS))
        self.wanted: dict[str, list[str]] = {name: [] for name in CLIENTS}
        self.pending: dict[str, list[str]] = {name: [] for name in CLIENTS}
        """Registrations of Hellos that were not answered: the client's next Hello says them again."""
        self.session = dict.fromkeys(CLIENTS, 0)
        self.connected = dict.fromkeys(CLIENTS, False)
        self.sessions = 0
        for name in OBJECTS:
            self.bench.version(name, 1)
        for client in CLIENTS:
            self.wanted[client] = list(OBJECTS[:5])
            self.connect(client, register=OBJECTS[:5])
        self.bench.settle()
        self.pending = {name: [] for name in CLIENTS}

    def connect(self, client: str, register: list[str]) -> None:
        """A Hello."""
        self.sessions += 1
        self.session[client], self.connected[client] = self.sessions, True
        self.pending[client] += [name for name in register if name not in self.pending[client]]
        self.bench.open(self.wanted[client], register=self.pending[client], session=self.sessions, client=client)

    def say(self, client: str, kind: str, names: list[str]) -> None:
        """One request, if the client's session is there to say it."""
        wanted = self.wanted[client]
        if kind == "open":
            self.wanted[client] = list(dict.fromkeys([*wanted, *names]))
            self.connect(client, register=names)
        elif not self.connected[client]:
            return
        elif kind == "leave":
            self.bench.leave(session=self.session[client], client=client)
            self.connected[client] = False
        elif kind == "sync":
            self.wanted[client] = names
            self.pending[client] = [name for name in self.pending[client] if name in names]
            self.bench.sync(0, *names, last=True, session=self.session[client], client=client)
        elif kind == "register":
            self.wanted[client] = list(dict.fromkeys([*wanted, *names]))
            self.bench.register(*names, session=self.session[client], client=client)
        else:
            self.wanted[client] = [name for name in wanted if name not in names]
            self.pending[client] = [name for name in self.pending[client] if name not in names]
            self.bench.unregister(*names, session=self.session[client], client=client)

    def heal(self) -> None:
        """A session that the matcher doubts is announced anew; one whose digest is another says its whole set."""
        for client, connected in self.connected.items():
            known = self.bench.engine.state.clients.get(PREFIX + client)
            if connected and known is not None and known.session is not None and not known.session.objects.ask:
                self.bench.open(self.wanted[client], session=self.session[client], client=client, again=True)
        self.bench.settle()
        told = opened(self.bench.told[GATEWAY].items)
        for client, connected in self.connected.items():
            answers = [one.in_sync for one in told if one.session == self.session[client]]
            if connected and answers and not answers[-1]:
                self.bench.sync(0, *self.wanted[client], last=True, session=self.session[client], client=client)
        self.bench.settle()

    def check(self) -> None:
        """Raises AssertionError where something is owed: in memory, in the topic, or to a session."""
        for client, wanted in self.wanted.items():
            known = self.bench.engine.state.clients.get(PREFIX + client)
            assert known is not None
            assert {obj.name for obj in known.objects()} == set(wanted)
            assert known.digest == digest(wanted)
            assert sum(map(len, known.buckets)) == len(set(wanted)), "one place each"
            assert sorted(self.stored(client)) == sorted(wanted), "durably, and in one place each"
            if self.connected[client]:
                session = self.session[client]
                assert known.session is not None
                assert (known.session.number, known.session.indexed) == (session, True)
                items = self.bench.told[GATEWAY].items
                assert any(one.session == session and one.in_sync for one in opened(items)), "it was answered"
                said = [new for page in pages(items) if page.session == session for new in page.newest]
                said += [new for one in answered(items) if one.session == session for new in one.newest]
                assert {new.name for new in said} >= set(wanted), "and told the newest of all that it wants"

    def stored(self, client: str) -> list[str]:
        """What the registrations topic says of a client."""
        ours = [v for k, v in self.bench.latest(TOPICS.registrations).items() if k.startswith(f"{PREFIX}{client}/")]
        return [name for value in ours for name in msgspec.json.decode(value, type=RegistrationsRecord).objects]


def parts(step: Step) -> list[ProducedRecord]:
    """The records of topics, in their order."""
    return [*step.state, *step.seals, *step.tombstones]


def cut(bench: EngineBench, step: Step, durable: int) -> None:
    """The matcher dies when so many of the step's records are durable. Answers leave only behind them all."""
    writes = len(parts(step))
    bench.make_durable(step, writes - durable, len(step.inboxes))


@given(_requests, st.integers(0, 9))
@settings(max_examples=examples(1.0), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_next_matcher_settles_wherever_a_step_is_cut(
    requests: list[tuple[str, str, list[str]]], cut_again: int
) -> None:
    clients = Clients()
    for request in requests:
        clients.say(*request)
    writes = clients.bench.step()
    for durable in range(len(parts(writes)) + 1):
        after = deepcopy(clients)
        cut(after.bench, writes, durable)
        first = after.bench.take_over()
        cut(after.bench, first, min(cut_again, len(parts(first))))
        after.bench.load()
        after.heal()
        after.bench.load()
        after.check()


@given(_requests, st.sets(st.integers(0, 9), min_size=1))
@settings(max_examples=examples(0.5), deadline=None, suppress_health_check=list(HealthCheck))
def test_the_next_matcher_settles_after_any_failed_deliveries(
    requests: list[tuple[str, str, list[str]]], failed: set[int]
) -> None:
    """Records behind one that fails may be taken, but no part of a step is written behind one that failed."""
    clients = Clients()
    for request in requests:
        clients.say(*request)
    step = clients.bench.step()
    for part in range(3):
        after = deepcopy(clients)
        for before in (step.state, step.seals, step.tombstones)[:part]:
            after.bench.make_durable(Step(state=before))
        written = (step.state, step.seals, step.tombstones)[part]
        after.bench.make_durable(Step(state=[one for at, one in enumerate(written) if at not in failed]))
        after.bench.load()
        for client, connected in after.connected.items():
            if not connected:
                after.connect(client, register=[])  # an offline session may be durable, and what it said before not
        after.heal()
        after.bench.load()
        after.check()


def test_a_registration_that_moved_between_two_records_is_loaded_from_both() -> None:
    clients = Clients()
    clients.say("c0", "unregister", ["o0", "o4"])  # from the first record and the last one
    clients.say("c0", "register", ["o4"])  # into the first
    step = clients.bench.step()
    cut(clients.bench, step, 1)
    assert len([name for name in clients.stored("c0") if name == "o4"]) == 2
    clients.bench.load()
    clients.heal()
    clients.check()
