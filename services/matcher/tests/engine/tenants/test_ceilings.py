"""How many sessions and registrations a tenant may have: who comes on top is refused, who is there stays."""

import pytest
from coldnotify_matcher.engine import Rules
from coldnotify_matcher.engine.tenants.ceilings import REFUSED_KNOWN_MAX, Ceilings, HeldAgreement, RefusedClients
from coldnotify_schemas import wire_pb2
from coldnotify_schemas.close_codes import CloseCode
from coldnotify_schemas.tenant_usage import partition_node
from coldnotify_testkit.engine_bench import DOMAIN, GATEWAY, GROUP, EngineBench, query_interest

CLIENTS_WORDS = f"tenant {DOMAIN} is above its agreement: clients_max is "
REGISTRATIONS_WORDS = f"tenant {DOMAIN} is above its agreement: registrations_max is "


class HeldBench(EngineBench):
    """A bench whose domain may have so much; `elsewhere`: sessions and registrations at other matchers."""

    def __init__(self) -> None:
        self.ceilings = Ceilings()
        super().__init__(rules=Rules(ceilings=self.ceilings))

    def agree(
        self, clients_max: int | None = None, registrations_max: int | None = None, elsewhere: tuple[int, int] = (0, 0)
    ) -> None:
        """As the shell does it once a second."""
        stock = self.engine.inventory.look().get(DOMAIN, (0, 0, 0))
        held = HeldAgreement(DOMAIN, clients_max, registrations_max, stock[1] + elsewhere[0], stock[2] + elsewhere[1])
        self.ceilings.agree([held])

    def come(self, *names: str, session: int, client: str) -> None:
        """A client that registers for these objects; what the gateway is told is kept."""
        self.open(names, register=names, session=session, client=client)
        self.settle()

    def closed(self) -> list[tuple[int, int, str]]:
        """(session, code, reason) of all that were closed."""
        self.settle()
        items = [item.closed for item in self.told[GATEWAY].items if item.HasField("closed")]
        return [(one.session, one.code, one.reason) for one in items]

    def refused(self) -> list[tuple[str, str]]:
        """(object, reason) of all registrations that were refused."""
        self.settle()
        found: list[wire_pb2.Refusal] = []
        for item in self.told[GATEWAY].items:
            found += item.opened.refused
            found += item.answered.refused
        return [(one.object, one.reason) for one in found]


@pytest.fixture
def bench() -> HeldBench:
    return HeldBench()


def test_one_client_more_is_sent_away_and_told_why(bench: HeldBench) -> None:
    bench.agree(clients_max=2)
    bench.come("a", session=1, client="client-1")
    bench.come("a", session=2, client="client-2")
    bench.come("a", session=3, client="client-3")
    assert bench.closed() == [(3, CloseCode.ABOVE_AGREEMENT, f"{CLIENTS_WORDS}2")]
    assert f"{DOMAIN}/{GROUP}/client-3" not in bench.engine.state.clients, "nothing is kept of it"
    assert bench.engine.state.take_refusals() == {(DOMAIN, "clients_max"): 1}
    assert bench.engine.state.take_refusals() == {}


def test_who_leaves_makes_room_at_once(bench: HeldBench) -> None:
    bench.agree(clients_max=1)
    bench.come("a", session=1, client="client-1")
    bench.leave(session=1, client="client-1")
    bench.come("a", session=2, client="client-2")
    assert bench.closed() == []


def test_a_client_that_comes_again_takes_its_own_place(bench: HeldBench) -> None:
    bench.agree(clients_max=1)
    bench.come("a", session=1, client="client-1")
    bench.come("a", session=2, client="client-1")
    assert [(session, code) for session, code, _ in bench.closed()] == [(1, CloseCode.DISPLACED)]


def test_a_raised_agreement_lets_them_in(bench: HeldBench) -> None:
    bench.agree(clients_max=1)
    bench.come("a", session=1, client="client-1")
    bench.come("a", session=2, client="client-2")
    key = f"{DOMAIN}/{GROUP}/client-2"
    assert bench.engine.state.refused_clients.of(key) == (bench.now_ms, f"{CLIENTS_WORDS}1")
    bench.agree(clients_max=2)
    bench.come("a", session=3, client="client-2")
    assert len(bench.closed()) == 1
    assert bench.engine.state.refused_clients.of(key) is None


def test_a_lowered_agreement_ends_nobodys_session_and_takes_nobodys_registration(bench: HeldBench) -> None:
    for number in (1, 2, 3):
        bench.come("a", "b", session=number, client=f"client-{number}")
    bench.agree(clients_max=1, registrations_max=1)
    bench.tick(2_000)
    assert bench.closed() == []
    assert bench.engine.inventory.look()[DOMAIN][1:] == (3, 6)
    # Known registrations are answered, as ever, and a matcher that takes over has them.
    bench.register("a", session=1, client="client-1")
    bench.load()
    bench.agree(clients_max=1, registrations_max=1)
    assert bench.engine.inventory.look()[DOMAIN][1:] == (3, 6)
    assert (bench.closed(), bench.refused()) == ([], [])
    # One for one: still too many are there.
    bench.leave(session=3, client="client-3")
    bench.come("a", session=4, client="client-3")
    assert [code for _, code, _ in bench.closed()] == [CloseCode.ABOVE_AGREEMENT]
    bench.unregister("b", session=2, client="client-2")
    bench.register("c", session=2, client="client-2")
    assert bench.refused() == [("c", f"{REGISTRATIONS_WORDS}1")]


def test_who_is_announced_again_was_let_in(bench: HeldBench) -> None:
    """A gateway announces its sessions to a matcher that does not know them."""
    bench.agree(clients_max=1)
    bench.come("a", session=1, client="client-1")
    bench.open("a", session=2, client="client-2", again=True)
    bench.settle()
    assert bench.closed() == []


def test_who_was_never_let_in_may_be_refused_however_often_its_gateway_asks(bench: HeldBench) -> None:
    """Its first Open had no answer in time, and was asked again; the matcher gets both, together or one by one."""
    bench.agree(clients_max=1)
    bench.come("a", session=1, client="client-1")
    bench.open("b", session=2, client="client-2")
    bench.open("b", session=2, client="client-2", again=True, never_opened=True)
    bench.settle()
    bench.open("b", session=2, client="client-2", again=True, never_opened=True)
    bench.settle()
    assert {(session, code) for session, code, _ in bench.closed()} == {(2, CloseCode.ABOVE_AGREEMENT)}
    assert bench.engine.inventory.look()[DOMAIN][1] == 1


def test_who_was_in_and_is_refused_by_a_successor_is_let_in_once_its_gateway_says_so(bench: HeldBench) -> None:
    """The record of a brief session is not written yet: its Open is handled again, and there are too many by then."""
    bench.agree(clients_max=1)
    bench.opened("a", session=1, client="client-1")
    bench.leave(session=1, client="client-1")
    bench.settle()
    first = bench.committed
    bench.open("a", session=2, client="client-1")
    bench.settle()
    assert bench.committed[0] == first[0], "it is handled again"
    assert bench.closed() == []
    bench.agree(clients_max=1, elsewhere=(1, 0))
    bench.load()
    assert [code for _, code, _ in bench.closed()] == [CloseCode.ABOVE_AGREEMENT]
    bench.open("a", session=2, client="client-1", again=True)
    bench.settle()
    assert bench.engine.inventory.look()[DOMAIN][1] == 1


def test_registrations_of_every_kind_count_together(bench: HeldBench) -> None:
    bench.agree(registrations_max=2)
    bench.come("a", session=1, client="client-1")
    query = wire_pb2.Register(request=7, interests=[query_interest('kind = "lamp"')])
    bench.request(1, "client-1", register=query)
    bench.settle()
    assert bench.engine.inventory.look()[DOMAIN][2] == 2
    bench.register("b", session=1, client="client-1")
    assert bench.refused() == [("b", f"{REGISTRATIONS_WORDS}2")]
    other = wire_pb2.Register(request=8, interests=[query_interest('kind = "door"')])
    bench.request(1, "client-1", register=other)
    bench.settle()
    assert bench.refused()[-1] == ("", f"query: {REGISTRATIONS_WORDS}2")
    assert bench.engine.state.take_refusals() == {(DOMAIN, "registrations_max"): 2}


def test_what_is_unregistered_makes_room_at_once(bench: HeldBench) -> None:
    bench.agree(registrations_max=1)
    bench.come("a", session=1, client="client-1")
    bench.unregister("a", session=1, client="client-1")
    bench.register("b", session=1, client="client-1")
    assert bench.refused() == []
    assert bench.engine.inventory.look()[DOMAIN][2] == 1


def test_what_others_have_counts(bench: HeldBench) -> None:
    bench.agree(clients_max=5, registrations_max=5, elsewhere=(4, 4))
    bench.come("a", "b", session=1, client="client-1")
    assert bench.refused() == [("b", f"{REGISTRATIONS_WORDS}5")]
    bench.come(session=2, client="client-2")
    assert [code for _, code, _ in bench.closed()] == [CloseCode.ABOVE_AGREEMENT]
    bench.agree(clients_max=5, registrations_max=5, elsewhere=(3, 3))
    bench.register("b", session=1, client="client-1")
    assert len(bench.refused()) == 1


def test_a_partition_that_is_only_followed_adds_to_no_ceiling() -> None:
    ceilings = Ceilings()
    ceilings.agree([HeldAgreement(DOMAIN, 5, 5, 1, 1)])
    bench = EngineBench(rules=Rules(ceilings=ceilings))
    bench.opened("a", session=1, client="client-1")
    ceiling = ceilings.of(DOMAIN)
    assert ceiling is not None
    assert (ceiling.clients, ceiling.registrations) == (2, 2)
    bench.load()
    assert (ceiling.clients, ceiling.registrations) == (2, 2), "what is loaded was counted by whoever had it"


@pytest.mark.parametrize("former", [(9, 2, 3), (9, 0, 0)])
def test_a_partition_that_is_taken_over_counts_by_what_it_has(former: tuple[int, int, int]) -> None:
    """Of what its former matcher said, Kafka may have lost some, which is registered again."""
    ceilings = Ceilings()
    bench = EngineBench(rules=Rules(ceilings=ceilings))
    node, another = partition_node(bench.engine.state.partition), (0, 1, 1)
    elsewhere = {node: former, "another": another}
    lost = HeldAgreement("another.domain", 5, 9, 1, 4, {node: (1, 1, 4)})
    ceilings.agree([HeldAgreement(DOMAIN, 5, 9, 1 + former[1], 1 + former[2], elsewhere), lost])
    ceiling, of_lost = ceilings.of(DOMAIN), ceilings.of("another.domain")
    assert ceiling is not None
    assert of_lost is not None
    bench.load()
    assert (ceiling.clients, ceiling.registrations) == (1, 1), "it has nothing, the other partition counts on"
    assert (of_lost.clients, of_lost.registrations) == (0, 0)
    bench.opened("a", session=1, client="client-1")
    assert (ceiling.clients, ceiling.registrations) == (2, 2)
    ceilings.agree([HeldAgreement(DOMAIN, 5, 9, 2, 5, {node: (0, 1, 4), "another": another})])
    bench.load()
    assert (ceiling.clients, ceiling.registrations) == (2, 2)


def test_ceilings_are_shared_by_a_tenants_domains_and_end_with_the_agreement() -> None:
    ceilings = Ceilings(lambda domain: domain.partition(".")[0])
    assert ceilings.of("acme.a") is None
    ceilings.agree([HeldAgreement("acme", 1, None, 0, 0), HeldAgreement("other", None, 1, 0, 1)])
    ceiling = ceilings.of("acme.a")
    assert ceiling is not None
    assert ceiling is ceilings.of("acme.b")
    assert ceiling.why_no_client() == ceiling.why_no_registration() == ""
    other = ceilings.of("other.a")
    assert other is not None
    assert other.why_no_registration() == "tenant other is above its agreement: registrations_max is 1"
    assert ceilings.of("nobody.a") is None
    ceilings.agree([])
    assert ceilings.of("acme.a") is None


def test_as_many_refused_clients_are_remembered_as_there_is_room_for() -> None:
    refused = RefusedClients()
    for number in range(REFUSED_KNOWN_MAX + 1):
        refused.refuse(f"d/g/c{number}", number, "full")
    assert refused.of("d/g/c0") is None
    assert refused.of("d/g/c1") == (1, "full")
    refused.let_in("d/g/c1")
    assert refused.of("d/g/c1") is None
