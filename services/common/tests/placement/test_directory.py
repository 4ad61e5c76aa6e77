"""The addresses that clients are given follow the weights, and the latest hand-outs."""

from collections import Counter
from random import Random

from coldnotify_common.placement.directory import Directory, Offer
from coldnotify_common.placement.fair_shares import GatewayShare

ASKED = 10_000
SECONDS = 5.0


def asked(weights: dict[str, float], *, counts_again_at: float | None = None) -> Counter[str]:
    """Asks 10,000 times within 5 s. The gateways count their connections again meanwhile, if a time is given."""
    directory, given = Directory(Random(7)), Counter[str]()
    counted: Counter[str] = Counter()
    at_s = 0.0
    for step in range(ASKED):
        now_s = step * SECONDS / ASKED
        if counts_again_at is not None and now_s >= counts_again_at > at_s:
            counted, at_s = Counter(given), now_s
        offers = [Offer(name, GatewayShare(counted[name], 0, weight), at_s) for name, weight in weights.items()]
        answer = directory.give(now_s, offers)
        assert answer is not None
        given[answer.address] += 1
    return given


def test_eight_gateways_have_their_shares_within_three_percent() -> None:
    for again in (None, 2.5):
        given = asked({f"gw{n}:55000": 1.0 for n in range(8)}, counts_again_at=again)
        share = ASKED / 8
        worst = max(abs(count - share) / share for count in given.values())
        assert worst < 0.03


def test_three_to_one_within_two_percentage_points() -> None:
    given = asked({"large:55000": 3.0, "small:55000": 1.0})
    assert abs(given["large:55000"] / ASKED - 0.75) < 0.02


def test_home_is_given_until_its_limit_and_others_below_theirs() -> None:
    directory = Directory(Random(1))
    home = Offer("home:1", GatewayShare(98, 100), 0.0)
    other = Offer("other:1", GatewayShare(10, 100), 0.0)
    answers = [directory.give(1.0, [home, other], "home:1") for _ in range(4)]
    assert [answer is not None and answer.home_ready for answer in answers] == [True, True, False, False]
    assert {answer.address for answer in answers[2:] if answer is not None} == {"other:1"}


def test_full_gateways_are_given_only_where_none_has_room() -> None:
    directory = Directory(Random(1))
    full, room = Offer("full:1", GatewayShare(90, 100), 0.0), Offer("room:1", GatewayShare(79, 100), 0.0)
    first = directory.give(0.0, [full, room])
    assert first is not None
    assert first.address == "room:1"
    second = directory.give(0.0, [full])
    assert second is not None
    assert second.address == "full:1"
    assert directory.give(0.0, [Offer("off:1", GatewayShare(0, 100, 0.0), 0.0)]) is None
    assert directory.give(0.0, []) is None


def test_hand_outs_are_forgotten_once_they_would_have_come() -> None:
    directory = Directory(Random(1))
    offers = [Offer("a:1", GatewayShare(0, 2), 0.0)]
    assert [directory.give(at_s, offers) is not None for at_s in (0.0, 0.0, 1.0, 60.0)] == [True, True, False, True]
    directory.forget(["b:1"])
    assert [directory.give(61.0, offers) is not None for _ in range(3)] == [True, True, False]
