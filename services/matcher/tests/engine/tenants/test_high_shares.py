"""How many of a tenant's publishes count as of high priority: a credit that all of them earn."""

import pytest
from coldnotify_matcher.engine.rules.rules import Rules
from coldnotify_matcher.engine.tenants.high_shares import CREDIT_MAX, HighAgreement, HighShares
from coldnotify_schemas.topics import TopicNames
from coldnotify_testkit.engine_bench import DOMAIN, GROUP, EngineBench

TOPICS = TopicNames()

ROW = int(CREDIT_MAX)


def shares(share: float, tenant: str = "acme") -> HighShares:
    made = HighShares(lambda domain: tenant if domain.startswith("acme") else domain)
    made.agree([HighAgreement(tenant, share)])
    return made


def test_a_row_of_them_passes_and_then_the_part_that_was_agreed():
    made = shares(0.25)
    assert [made.may_be_high("acme.de", high=True) for _ in range(100)][:ROW] == [True] * ROW
    passed = sum(made.may_be_high("acme.de", high=True) for _ in range(400))
    assert passed == 100


def test_normal_ones_earn_credit_for_all_domains_of_the_tenant_and_no_more_than_a_row():
    made = shares(0.5)
    while made.may_be_high("acme.de", high=True):
        pass
    for _ in range(1000):
        assert not made.may_be_high("acme.fr", high=False)
    passed = 0
    while made.may_be_high("acme.de", high=True):
        passed += 1
    assert ROW <= passed <= 2 * ROW + 1


@pytest.mark.parametrize(("share", "passed"), [(0.0, 0), (1.0, 500)])
def test_all_and_none(share, passed):
    made = shares(share)
    assert sum(made.may_be_high("acme.de", high=True) for _ in range(500)) == passed


def test_who_has_no_agreement_says_it_as_often_as_it_likes():
    made = shares(0.1)
    assert all(made.may_be_high("another", high=True) for _ in range(100))
    assert not made.may_be_high("another", high=False)
    made.agree([])
    assert all(made.may_be_high("acme.de", high=True) for _ in range(100))


def test_a_changed_share_holds_from_the_next_publish_on_and_keeps_what_was_used():
    made = shares(1.0)
    for _ in range(50):
        made.may_be_high("acme.de", high=True)
    made.agree([HighAgreement("acme", 0.0)])
    assert not made.may_be_high("acme.de", high=True)


def test_what_is_above_the_share_is_told_as_all_others_and_counted():
    high_shares = HighShares()
    high_shares.agree([HighAgreement(DOMAIN, 0.1)])
    bench = EngineBench(rules=Rules(high_shares=high_shares))
    bench.opened("o")
    bench.items()
    key = f"{DOMAIN}/{GROUP}/o".encode()
    for version in range(1, ROW + 6):
        value = b'{"version":%d}' % version
        bench.log.append(TOPICS.objects, key, value, headers=(("priority", b"high"),))
    # A repeat brings nothing newer, and takes nothing.
    bench.log.append(TOPICS.objects, key, b'{"version":1}', headers=(("priority", b"high"),))
    bench.settle()
    told = [item.fan_out for item in bench.items() if item.HasField("fan_out")]
    assert [one.newest.version for one in told] == list(range(1, ROW + 6)), "each is told"
    # Those above it have earned half of one more by then.
    assert [one.urgent for one in told].count(True) in (ROW, ROW + 1)
    assert bench.partition.take_use()[DOMAIN].high == ROW + 6, "usage has all that say so"
    counts = bench.partition.take_counts()
    assert counts["urgent"] + counts["urgent_above_share"] == ROW + 5
