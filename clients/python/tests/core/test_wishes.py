"""What was asked for while there was no driver."""

from random import Random

from coldnotify._core.document.document import ClientIdentity, Document
from coldnotify._core.driver import Driver
from coldnotify._core.interests.registrations import OperationKind
from coldnotify._core.session.reconnect import Address
from coldnotify._core.settings import ClientSettings
from coldnotify._core.wishes import Wishes


def test_wishes_from_before_the_start_are_applied_to_the_document():
    document = Document(
        identity=ClientIdentity("d", "g", "c"), wanted=frozenset("abc"), applied={"a": (0, 1), "b": (0, 1)}
    )
    wishes = Wishes()
    wishes.unregister("a")
    wishes.register("a")
    wishes.register("b")
    wishes.unregister("c")
    wishes.register("new")
    driver = Driver(document, [Address("h", 1)], ClientSettings(), Random(0), 0.0)
    wishes.apply(driver.application)
    after = driver._client._document()
    assert after.wanted == set("ab") | {"new"}
    assert after.pending == {"a": OperationKind.REGISTER, "c": OperationKind.UNREGISTER, "new": OperationKind.REGISTER}
    assert after.applied == {"b": (0, 1)}, "a is to be told again, b is not"


def test_register_only_before_the_start_forgets_what_was_asked_before():
    wishes = Wishes()
    wishes.register("x")
    wishes.register("a")
    wishes.unregister("b")
    wishes.register_only({"a", "b"})
    wishes.register("later")
    driver = Driver(
        Document(identity=ClientIdentity("d", "g", "c"), wanted=frozenset("bz")),
        [Address("h", 1)],
        ClientSettings(),
        Random(0),
        0.0,
    )
    wishes.apply(driver.application)
    assert driver._client._document().wanted == {"a", "b", "later"}
