"""What a client claims to be registered for: the table beside the three flags that it stands for."""

from dataclasses import dataclass

import pytest
from coldnotify_gateway.core.claim import TABLE, Claim, ClaimEvent, PendingOperations, Standing
from coldnotify_testkit.examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

DIGESTS = st.integers(0, 3)


def test_every_standing_is_in_the_table_and_is_reached():
    assert set(TABLE) == set(Standing)
    found, new = set(), {Standing.OPEN}
    while new:
        found |= new
        new = {after for standing in new for after in TABLE[standing].values()} - found
    assert found == set(Standing)


def test_only_a_digest_that_the_matcher_said_ends_a_doubt():
    doubted = {Standing.DOUBTED, Standing.DOUBTED_AND_SAID}
    ends = {event for standing in doubted for event, after in TABLE[standing].items() if after not in doubted}
    assert ends == {ClaimEvent.OPENED, ClaimEvent.CHECKED}


def test_before_anything_is_agreed_a_ping_says_nothing_and_nothing_is_checked():
    claim = Claim(1)
    claim.say(2)
    assert (claim.said, claim.to_check) == (1, False)
    with pytest.raises(KeyError):
        claim.checked(2)


def test_the_operations_of_a_hello_are_kept_until_the_opened():
    for opened in (lambda claim: claim.opened(1), lambda claim: claim.not_in_sync()):
        claim = Claim(1, PendingOperations(("a",), ("b",)))
        assert claim.pending == PendingOperations(("a",), ("b",))
        opened(claim)
        assert claim.pending == PendingOperations()


def test_an_announced_session_is_opened_with_what_was_agreed_unless_its_client_disputes_it():
    claim = Claim(1)
    claim.opened(1)
    claim.answered(2)
    assert (claim.digest(announced=True), claim.digest(announced=False)) == (2, 1)
    claim.say(3)
    assert claim.digest(announced=True) == 3


def test_what_another_matcher_has_found_is_not_what_the_session_is_opened_with() -> None:
    claim = Claim(5)
    claim.opened(5)
    claim.other_matcher()
    claim.outdated()
    claim.answered(7)
    assert claim.digest(announced=True) == 5, "else that matcher would be asked whether it agrees with itself"
    claim.opened(5)
    claim.answered(12)
    assert claim.digest(announced=True) == 12


@dataclass
class Flags:
    """A claim as three flags, each with rules of its own: what the table must come to."""

    said: int
    agreed: int | None = None
    doubted: bool = False
    wanted: bool = False


class AnyClaim(RuleBasedStateMachine):
    """Whatever a client and its matchers say, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.claim, self.flags = Claim(0), Flags(0)

    @rule(digest=DIGESTS)
    def say(self, digest: int) -> None:
        self.claim.say(digest)
        if self.flags.agreed is not None:
            self.flags.wanted = self.flags.doubted or digest != self.flags.agreed
            self.flags.said = digest

    @rule(digest=DIGESTS)
    def opened(self, digest: int) -> None:
        self.claim.opened(digest)
        self.flags.agreed, self.flags.doubted = digest, False

    @rule()
    def not_in_sync(self) -> None:
        self.claim.not_in_sync()
        self.flags.wanted = False

    @rule(digest=DIGESTS)
    def answered(self, digest: int) -> None:
        self.claim.answered(digest)
        if not self.flags.doubted:
            self.flags.agreed = digest

    @rule(digest=DIGESTS)
    def checked(self, digest: int) -> None:
        if self.flags.agreed is None:
            return
        self.claim.checked(digest)
        self.flags.agreed, self.flags.doubted, self.flags.wanted = digest, False, False

    @rule()
    def outdated(self) -> None:
        self.claim.outdated()
        self.flags.wanted = False

    @rule()
    def other_matcher(self) -> None:
        self.claim.other_matcher()
        self.flags.doubted = self.flags.agreed is not None

    @rule()
    def review(self) -> None:
        flags = self.flags
        flags.wanted = flags.wanted and (flags.doubted or flags.said != flags.agreed)
        assert self.claim.review() == flags.wanted

    @invariant()
    def the_same(self) -> None:
        claim, flags = self.claim, self.flags
        assert (claim.said, claim.agreed, claim.doubted, claim.to_check) == (
            flags.said,
            flags.agreed,
            flags.doubted,
            flags.wanted,
        )


TestAnyClaim = AnyClaim.TestCase
TestAnyClaim.settings = settings(max_examples=examples(0.5), stateful_step_count=30, deadline=None)
