"""Rules, and what they grant."""

import pytest
from coldnotify_common.security.identity import ANYBODY, InvalidRule, identity_of, parse_rules

URI = "uri:cold://{domain}/{group}/{client}"


def test_a_text_that_fits_grants_what_it_names_and_nothing_else() -> None:
    identity = identity_of("n", {"uri": ["cold://d/g/c", "other://x/y/z"]}, parse_rules(URI))
    assert identity.may_be("d", "g", "c")
    assert not identity.may_be("d", "g", "c2")
    assert not identity.may_be("x", "y", "z")
    assert not identity.may_publish("d")


def test_a_star_is_any_name_or_the_rest_of_one() -> None:
    identity = identity_of("n", {"uri": ["cold://d/region-*/*", "cold://e/g/c"]}, parse_rules(URI))
    assert identity.may_be("d", "region-1", "whoever")
    assert not identity.may_be("d", "other", "whoever")
    assert identity.may_be("e", "g", "c")
    assert not identity.may_be("e", "region-1", "c")  # what two texts grant is not mixed


@pytest.mark.parametrize("text", ["cold://d/g", "cold://d/g/", "cold://d/g/c/x", "cold://d/g/a*b", "cold://d/g/c\n"])
def test_what_does_not_fit_grants_nothing(text: str) -> None:
    assert identity_of("n", {"uri": [text]}, parse_rules(URI)).clients == ()


def test_a_text_can_be_read_in_one_way_only() -> None:
    rules = parse_rules("cn:{domain}.{group}.{client}")
    assert identity_of("n", {"cn": ["d.g.c"]}, rules).may_be("d", "g", "c")
    assert identity_of("n", {"cn": ["d.g.c.evil"]}, rules).clients == ()


def test_publishers_and_places_that_are_left_out() -> None:
    identity = identity_of("n", {"cn": ["station-7"], "p": ["lamps", "cam*"]}, parse_rules("cn:{client} p:{publish}"))
    assert identity.may_be("any", "group", "station-7")
    assert [identity.may_publish(domain) for domain in ("lamps", "cameras", "lamp")] == [True, True, False]


def test_anybody_may_everything() -> None:
    assert ANYBODY.may_be("d", "g", "c")
    assert ANYBODY.may_publish("d")


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("", "is empty"),
        ("cn", "is not SOURCE:TEMPLATE"),
        ("dn:{client}", "none of cn, uri"),
        ("cn:client", "there is none of"),
        ("cn:{domian}", "{domian} is none of"),
        ("cn:{domain}{group}", "tells them apart"),
        ("cn:{domain}/{domain}", "twice"),
    ],
)
def test_what_is_no_rule_is_told(rule: str, words: str) -> None:
    with pytest.raises(InvalidRule, match=words):
        parse_rules(rule, ("cn", "uri"))
