"""The pure rule of who may publish to which names, and templates that would share names."""

import re
from itertools import product

import pytest
from coldnotify_common.security.publish_rights import (
    EVERY_NAME,
    NO_NAME,
    PLACE,
    InvalidTemplate,
    NotGranted,
    Owned,
    PublishRight,
    check_apart,
    check_template,
    fits,
)
from coldnotify_schemas.names import check_name, check_object
from hypothesis import example, given
from hypothesis import strategies as st

TEMPLATES = [
    "{client}/",
    "units/{client}/",
    "a-{client}-b/",
    "{client}x{client}/",
    "/{client}/{client}/",
    "ä/{client}/b/",
]
LETTERS = "ax-b/.*{}\nä"
CLIENTS = st.text("abx-.", min_size=1, max_size=4)
NAMES = st.text(LETTERS, min_size=1, max_size=14) | st.builds(
    lambda template, client, rest: template.replace(PLACE, client) + rest,
    st.sampled_from(TEMPLATES),
    CLIENTS,
    st.text(LETTERS, max_size=4),
)


def owned(client: str, template: str = "units/{client}/") -> PublishRight:
    return PublishRight(every=False, owned=(Owned(client, template),))


def granted(right: PublishRight, name: str, said: str | None) -> str | None:
    """The publisher; "": it is not granted."""
    try:
        return right.publisher("object", name, said)
    except NotGranted:
        return ""


@given(st.sampled_from(TEMPLATES), CLIENTS, NAMES)
@example("{client}x{client}/", "axa", "axaxaxa/1")
@example("units/{client}/", "a", "units/a/")
@example("units/{client}/", "a", "units/a/../b/1")
def test_a_client_owns_what_is_below_its_beginning_and_nothing_else(template: str, client: str, name: str) -> None:
    beginning = template.replace(PLACE, client)
    below = name.startswith(beginning) and name != beginning
    assert granted(owned(client, template), name, client) == (client if below else "")
    assert granted(owned(client, template), name, None) == (client if below else "")
    assert granted(owned("*", template), name, client) == (client if below else "")


@given(st.sampled_from(TEMPLATES), st.sampled_from(["*", "a*", "x", "ab"]), NAMES, CLIENTS)
def test_a_name_has_one_owner_that_the_pattern_fits(template: str, pattern: str, name: str, other: str) -> None:
    owner = granted(owned(pattern, template), name, None)
    if owner:
        assert fits(pattern, check_name("client", owner))
        assert granted(owned(pattern, template), name, other) == (owner if other == owner else "")
    else:
        assert granted(owned(pattern, template), name, other) == ""


@given(
    st.lists(st.sampled_from(TEMPLATES), min_size=2, max_size=2, unique=True),
    CLIENTS,
    CLIENTS,
    st.text("ab/x-", max_size=6),
)
def test_templates_that_stand_apart_give_no_name_to_two_clients(
    templates: list[str], one: str, other: str, rest: str
) -> None:
    try:
        check_apart(templates)
    except InvalidTemplate:
        return
    name = templates[0].replace(PLACE, one) + rest
    if one != other and rest:
        assert granted(owned(other, templates[1]), name, None) == ""


def test_templates_that_could_give_a_name_two_owners_are_named() -> None:
    with pytest.raises(InvalidTemplate, match=re.escape("'units/{client}/' and '{client}/': two clients")):
        check_apart(["{client}/", "units/{client}/", "units/{client}/"])
    for apart in (["units/{client}/", "cameras/{client}/"], ["u/{client}/a/", "u/{client}/"], ["u/{client}/"] * 2):
        check_apart(apart)
    for near in (["u-{client}/", "{client}-u/"], ["{client}/a/", "a/{client}/"], ["{client}/", "a-{client}/"]):
        with pytest.raises(InvalidTemplate):
            check_apart(near)


def test_without_limits_the_source_is_as_said_and_without_a_right_nothing_is_granted() -> None:
    for name, said in product(("a", "units/b/c"), (None, "c")):
        assert EVERY_NAME.publisher("object", name, said) == said
        assert granted(NO_NAME, name, said) == ""
    assert [right.nothing for right in (EVERY_NAME, NO_NAME, owned("a"))] == [False, True, False]


@pytest.mark.parametrize(
    ("right", "name", "said", "words"),
    [
        (owned("u-7"), "lamp", "u-7", "object: 'lamp' is not below units/u-7/, where alone this client may publish"),
        (owned("*"), "lamp", None, "object: 'lamp' is not below units/*/, where alone"),
        (owned("*"), "units/u-8/t", "u-7", "object: 'units/u-8/t' is not below units/u-7/, where alone"),
        (owned("u-7"), "units/u-7/t", "u-8", "source: 'u-8' may not publish here: it has to be u-7"),
        (owned("u-7"), "n" * 255, None, f"object: '{'n' * 80}' is not below units/u-7/"),
        (NO_NAME, "lamp", None, "object: there is no right to publish here"),
        (NO_NAME, "lamp", "u-7", "source: 'u-7' may not publish here"),
        (
            PublishRight(every=False, owned=tuple(Owned(f"u-{n}", "{client}/") for n in range(9))),
            *("lamp", None, "'lamp' is not below u-0/ or u-1/ or u-2/ or u-3/ ..., where alone"),
        ),
    ],
)
def test_a_refusal_lists_the_names_there_are(right: PublishRight, name: str, said: str | None, words: str) -> None:
    with pytest.raises(NotGranted, match=f"^(object: )?{re.escape(words)}"):
        right.publisher("object", name, said)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("units/{client}", "does not end in /"),
        ("", "does not end in /"),
        ("units/", "has no {client}: clients would share"),
        ("{domain}/{client}/", "another place than {client}"),
        ("{{client}}/", "another place"),
        ("a\0/{client}/", "cannot be printed"),
        ("{client}/{client}/{client}/{client}/", "260 bytes, a name has at most 255"),
    ],
)
def test_a_template_that_is_none_is_told(template: str, words: str) -> None:
    with pytest.raises(InvalidTemplate, match=re.escape(words)):
        check_template(template)


@pytest.mark.parametrize("template", [*TEMPLATES, f"{'n' * 189}{{client}}/"])
def test_every_client_has_room_for_a_name_below_a_template(template: str) -> None:
    check_object(check_template(template).replace(PLACE, "c" * 64) + "n")
