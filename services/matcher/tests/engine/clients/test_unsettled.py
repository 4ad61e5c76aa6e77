"""What an entry that is unsettled says of a query's members."""

from coldnotify_matcher.engine.clients.unsettled import UnsettledRegistration


def test_without_members_any_member_may_not_have_been_taken() -> None:
    assert UnsettledRegistration(0).concerns("a")


def test_of_members_that_are_named_only_these_were_not_taken() -> None:
    named = UnsettledRegistration(0, members=("a", "b"))
    assert [name for name in ("a", "b", "c") if named.concerns(name)] == ["a", "b"]
