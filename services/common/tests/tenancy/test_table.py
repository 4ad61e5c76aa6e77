"""The table of tenants: whose a domain is, whatever the order of the records, and what may not be set."""

import random

import pytest
from coldnotify_common.tenancy import table as tables
from coldnotify_common.tenancy.table import TableFull, TenantTable
from coldnotify_schemas.tenants import Agreement, Tenant
from hypothesis import given
from hypothesis import strategies as st

RECORDS = st.lists(
    st.tuples(st.sampled_from("abc"), st.none() | st.lists(st.sampled_from("wxyz"), min_size=1, unique=True)),
    max_size=12,
)


def test_a_domain_belongs_to_its_tenant_or_to_the_default() -> None:
    table = TenantTable()
    assert table.of("x") == Tenant("default")
    acme = Tenant("acme", ("x", "y"))
    table.put(acme)
    assert (table.of("x"), table.of("y"), table.of("z").name) == (acme, acme, "default")
    table.put(Tenant("default", (), Agreement(in_per_s=5)))
    assert table.of("z").agreement.in_per_s == 5
    table.put(Tenant("acme", ("y",)))
    assert table.of("x").name == "default"
    assert table.remove("acme")
    assert not table.remove("acme")
    assert table.of("y").name == "default"
    table.remove("default")
    assert table.of("y") == Tenant("default")
    assert len(table) == 0


@given(RECORDS, st.randoms(use_true_random=False))
def test_whatever_the_order_all_say_the_same(records: list[tuple[str, list[str] | None]], draw: random.Random) -> None:
    one = TenantTable()
    for name, domains in records:
        if domains is None:
            one.remove(name)
        else:
            one.put(Tenant(name, tuple(domains)))
    newest = dict(records)
    shuffled = [(name, domains) for name, domains in newest.items() if domains is not None]
    draw.shuffle(shuffled)
    other = TenantTable()
    for name, domains in shuffled:
        other.put(Tenant(name, tuple(domains)))
    assert one.all() == other.all()
    assert one.conflicts() == other.conflicts()
    for domain in "wxyz":
        claimants = sorted(name for name, domains in shuffled if domain in domains)
        assert one.of(domain).name == other.of(domain).name == (claimants[0] if claimants else "default")
        assert one.conflicts().get(domain) == (tuple(claimants) if len(claimants) > 1 else None)


def test_what_belongs_to_another_tenant_clashes_with_it() -> None:
    table = TenantTable()
    table.put(Tenant("acme", ("x",), principal="user-7"))
    assert table.clashes(Tenant("acme", ("x", "y"), principal="user-7")) is None
    assert table.clashes(Tenant("other", ("y", "x"))) == "domains: x belongs to tenant acme"
    assert table.clashes(Tenant("other", ("y",), principal="user-7")) == "principal: user-7 is that of tenant acme"
    assert table.clashes(Tenant("other", ("y",), principal="user-8")) is None


def test_it_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "TENANTS_MAX", 2)
    monkeypatch.setattr(tables, "DOMAINS_IN_ALL_MAX", 3)
    table = TenantTable()
    table.put(Tenant("a", ("1", "2")))
    table.put(Tenant("b", ("3",)))
    with pytest.raises(TableFull, match="tenants"):
        table.put(Tenant("c", ("1",)))
    with pytest.raises(TableFull, match="domains"):
        table.put(Tenant("b", ("4", "5")))
    assert table.of("3").name == "b"
    table.put(Tenant("b", ("3",), Agreement(in_per_s=1)))
