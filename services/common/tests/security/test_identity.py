"""Rules, and what they grant."""

import pytest
from coldnotify_common.security.identity import ANYBODY, InvalidRule, identity_of, parse_rules
from coldnotify_common.security.publish_rights import EVERY_NAME, NO_NAME, NotGranted

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


def test_own_is_for_the_names_of_a_client_and_for_nothing_else() -> None:
    rules = parse_rules("s:{domain}/{group}/{client}=>own:units/{client}/ c:{client}")
    identity = identity_of("n", {"s": ["d/g/u-7", "e/*/cam-*", "d/g/u-7/x"]}, rules)
    assert (identity.clients, identity.publishes, identity.services) == ((), (), ())
    assert [identity.is_operator, identity.is_service, identity.may_publish("d")] == [False] * 3
    assert not identity.may_be("d", "g", "u-7")
    right = identity.publish_right("d", "g")
    assert right.publisher("object", "units/u-7/t", None) == "u-7"
    with pytest.raises(NotGranted, match="where alone"):
        right.publisher("object", "units/cam-1/t", None)
    assert identity.publish_right("e", "any").publisher("object", "units/cam-1/t", "cam-1") == "cam-1"
    for domain, group, client in (("d", "g2", None), ("d2", "g", None), ("d", "g", "u-8"), ("e", "g", "u-7")):
        assert identity.publish_right(domain, group, client) is NO_NAME
    assert identity.who != identity_of("n", {}, rules).who, "they have a share each"


def test_a_publisher_of_the_domain_needs_no_own() -> None:
    rules = parse_rules("p:{publish} s:{client}=>own:{client}/")
    identity = identity_of("n", {"p": ["d"], "s": ["c"]}, rules)
    assert identity.publish_right("d", "g") is EVERY_NAME
    assert identity.publish_right("e", "g").publisher("object", "c/1", None) == "c"
    assert ANYBODY.publish_right("d", "g", "c") is EVERY_NAME


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("cn:{client}=>own:units/{client}", "own: 'units/{client}' does not end in /"),
        ("cn:{client}=>own:units/", "own: 'units/' has no {client}"),
        ("cn:{client}=>own:", "own: '' does not end in /"),
        ("cn:{domain}/{group}=>own:units/{client}/", "own: needs {client} before =>"),
        ("cn:{client}/{publish}=>own:units/{client}/", "own: needs {client} before =>, besides"),
        ("cn:{client}=>own:units/{client}/ uri:{client}=>own:{client}/", "own: .* two clients could own"),
    ],
)
def test_a_rule_that_shares_names_among_strangers_is_refused(rule: str, words: str) -> None:
    with pytest.raises(InvalidRule, match=words):
        parse_rules(rule, ("cn", "uri"))
