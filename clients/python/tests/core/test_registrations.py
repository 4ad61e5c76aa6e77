"""Operations and their stages."""

from coldnotify._core.interests.registrations import OperationKind, OperationStage, Registrations
from coldnotify._core.journal import Journal
from coldnotify_schemas.digest import digest
from coldnotify_schemas.protocol import OBJECTS_PER_FRAME_MAX


def of(*wanted: str, durable: bool = True) -> tuple[Journal, Registrations]:
    journal = Journal()
    registrations = Registrations(journal)
    for name in wanted:
        registrations.register(name)
    if durable:
        journal.durable = journal.revision
    return journal, registrations


def test_the_digest_is_that_of_the_wanted_set():
    _, registrations = of("a", "b")
    registrations.unregister("a")
    registrations.register("c")
    assert registrations.digest == digest({"b", "c"})


def test_registering_again_is_no_operation():
    journal, registrations = of("a")
    registrations.confirm(registrations.begin_session())
    registrations.arrived("a")
    registrations.settle("a")
    revision = journal.revision
    assert not registrations.register("a")
    assert not registrations.pending
    assert journal.revision == revision


def test_a_registration_is_settled_by_what_arrives_after_its_confirmation():
    _, registrations = of("a")
    sent = registrations.begin_session()
    registrations.arrived("a")
    registrations.settle("a")
    assert "a" in registrations.pending, "that came before the confirmation"
    registrations.confirm(sent)
    registrations.settle("a")
    assert "a" in registrations.pending, "nothing has come since"
    registrations.arrived("a")
    registrations.settle("a")
    assert not registrations.pending


def test_requests_wait_until_they_are_durable():
    journal, registrations = of("a", durable=False)
    registrations.confirm(registrations.begin_session())
    registrations.register("b")
    assert registrations.next_request() is None
    journal.durable = journal.revision
    request = registrations.next_request()
    assert request is not None
    assert (request[0], list(request[1])) == (OperationKind.REGISTER, ["b"])
    assert registrations.next_request() is None


def test_a_first_registration_is_unknown_to_the_service_until_its_request():
    journal = Journal()
    registrations = Registrations(journal)
    registrations.register("a")
    assert not registrations.pending["a"].may_be_known
    journal.durable = journal.revision
    registrations.next_request()
    assert registrations.pending["a"].may_be_known
    registrations.unregister("a")
    registrations.register("a")
    assert registrations.pending["a"].may_be_known
    assert Registrations(journal, {"b"}, {"b": OperationKind.REGISTER}).pending["b"].may_be_known


def test_requests_hold_one_kind_and_at_most_64_objects():
    journal, registrations = of()
    registrations.begin_session()
    for i in range(100):
        registrations.register(f"o{i}")
    registrations.unregister("o0")
    journal.durable = journal.revision
    sizes = []
    while request := registrations.next_request():
        sizes.append((request[0], len(request[1])))
    assert sizes == [
        (OperationKind.REGISTER, OBJECTS_PER_FRAME_MAX),
        (OperationKind.REGISTER, 35),
        (OperationKind.UNREGISTER, 1),
    ]


def test_an_answer_to_a_replaced_operation_is_ignored():
    _, registrations = of("a")
    sent = registrations.begin_session()
    registrations.unregister("a")
    registrations.confirm(sent)
    operation = registrations.pending["a"]
    assert (operation.kind, operation.stage) == (OperationKind.UNREGISTER, OperationStage.UNSENT)
    assert not registrations.refuse("a", sent)
    registrations.resend(sent, OperationStage.SENT)
    assert registrations.unanswered(OperationStage.UNSENT) == {"a": operation}


def test_a_hello_carries_all_operations_or_none():
    _, registrations = of(*(f"o{i}" for i in range(64)))
    assert len(registrations.begin_session()) == 64
    _, registrations = of(*(f"o{i}" for i in range(65)))
    assert registrations.begin_session() == {}
    assert registrations.next_request() is not None, "they are sent as requests"


def test_a_delivery_that_cannot_be_made_is_owed_without_a_request_in_this_session():
    _, registrations = of("a")
    registrations.confirm(registrations.begin_session())
    registrations.arrived("a")
    registrations.settle("a")
    registrations.owe("a")
    assert registrations.is_owed("a")
    assert registrations.all_arrived
    assert registrations.next_request() is None
    assert list(registrations.begin_session()) == ["a"]


def test_an_unwanted_object_is_not_owed():
    _, registrations = of()
    registrations.owe("a")
    assert not registrations.pending


def test_a_reg_sync_makes_the_whole_wanted_set_pending():
    journal, registrations = of("a", "b")
    registrations.confirm(registrations.begin_session())
    for name in ("a", "b"):
        registrations.arrived(name)
        registrations.settle(name)
    operations = registrations.begin_sync()
    assert operations.keys() == {"a", "b"} == registrations.pending.keys()
    assert journal.urgent == journal.revision


def test_a_refused_object_is_wanted_no_more():
    _, registrations = of("a", "b")
    assert registrations.refuse("a", registrations.begin_session())
    assert registrations.wanted == {"b"}
    assert registrations.digest == digest({"b"})
