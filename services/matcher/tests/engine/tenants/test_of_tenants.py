import pytest
from coldnotify_matcher.engine.tenants import of_tenants
from coldnotify_matcher.engine.tenants.of_tenants import OfTenants

TENANTS = {"weather": "acme", "traffic": "acme", "lamps": "other"}


def test_domains_of_a_tenant_have_the_same_and_others_have_nothing() -> None:
    kept: OfTenants[list[int]] = OfTenants(lambda domain: TENANTS.get(domain, "default"))
    assert kept.of("weather") is None
    kept.keep_only({"acme"})
    acme = kept.get("acme", list)
    assert acme is kept.get("acme", list) is kept.of("weather") is kept.of("traffic")
    assert (kept.of("lamps"), kept.of("unknown"), len(kept)) == (None, None, 1)


def test_who_is_not_named_any_more_is_returned_and_its_domains_have_nothing() -> None:
    kept: OfTenants[str] = OfTenants()
    assert kept.keep_only({"a", "b"}) == []
    assert (kept.get("a", lambda: "of a"), kept.get("b", lambda: "of b")) == ("of a", "of b")
    assert kept.of("a") == "of a"
    assert kept.keep_only({"b"}) == ["of a"]
    assert (kept.of("a"), kept.of("b")) == (None, "of b")


def test_of_domains_so_many_are_known_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_tenants, "DOMAINS_KNOWN_MAX", 2)
    asked: list[str] = []

    def tenant_of(domain: str) -> str:
        asked.append(domain)
        return "acme"

    kept: OfTenants[str] = OfTenants(tenant_of)
    kept.get("acme", lambda: "of acme")
    for domain in ("a", "b", "a", "c", "a"):
        assert kept.of(domain) == "of acme"
    assert asked == ["a", "b", "c", "a"]
