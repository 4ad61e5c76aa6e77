"""acls.yaml: what it grants, and to whom nothing. With a real Kafka: services/cli/tests/test_secured_kafka.py."""

import json
from importlib.resources import files

import pytest
from coldnotify_kafka import acls
from coldnotify_kafka.errors import AclsFileError
from coldnotify_kafka.yaml_text import read_yaml
from coldnotify_schemas.topics import TopicNames

TOPICS = TopicNames()


def allowed(role: str, operation: str) -> set[str]:
    principal = f"User:coldnotify-{role}"
    """The topics."""
    granted = [acl for acl in acls.load() if (acl.principal, acl.operation) == (principal, operation)]
    return {acl.name for acl in granted if acl.resource == "TOPIC"}


def test_back_ends_write_objects_and_channels_and_nothing_else() -> None:
    def allowances(role: str) -> list[str]:
        """All of them, without whose they are."""
        whose = f"User:{role}"
        return [str(acl).removeprefix(f"{whose}: ") for acl in acls.load("User:{role}") if acl.principal == whose]

    written = {f"write topic {topic}" for topic in (TOPICS.objects, *TOPICS.channels)}
    assert sorted(allowances("publisher")) == sorted(written)
    of_agreements = {
        f"read topic {TOPICS.tenants}",
        f"write topic {TOPICS.tenants}",
        f"read topic {TOPICS.verdicts}",
        f"read topic {TOPICS.usage_history}",
        f"write topic {TOPICS.usage}",
        "read group coldnotify-tenancy*",
    }
    of_nodes = {f"read topic {TOPICS.nodes}", f"write topic {TOPICS.nodes}", "read group coldnotify-nodes*"}
    of_histories = {f"read topic {TOPICS.objects}", "read group coldnotify-history*"}
    of_hooks = {f"read topic {TOPICS.hooks}", f"write topic {TOPICS.hooks}", "read group coldnotify-hooks-look*"}
    assert sorted(allowances("http")) == sorted(written | of_agreements | of_nodes | of_histories | of_hooks)


def test_operators_write_agreements_and_counting_services_write_usage() -> None:
    roles = ("publisher", "http", "gateway", "matcher", "usage", "operator")
    written = {role: allowed(role, "WRITE") & set(TOPICS.of_tenants) for role in roles}
    assert written == {
        "publisher": set(),
        "http": {TOPICS.tenants, TOPICS.usage},
        "gateway": {TOPICS.usage},
        "matcher": {TOPICS.usage},
        "usage": {TOPICS.verdicts, TOPICS.usage_history, TOPICS.usage_state},
        "operator": {TOPICS.tenants},
    }
    for role in ("http", "gateway", "matcher"):
        assert {TOPICS.tenants, TOPICS.verdicts} <= allowed(role, "READ")
    assert allowed("usage", "READ") == set(TOPICS.of_tenants)
    # Objects, for their histories: what they hold, it can ask the matchers for anyway.
    assert TOPICS.objects in allowed("http", "READ")
    assert allowed("http", "READ").isdisjoint({TOPICS.requests, TOPICS.sessions, TOPICS.registrations})


def test_state_is_written_by_the_matcher_alone() -> None:
    state = (TOPICS.registrations, TOPICS.sessions, TOPICS.channels_state, TOPICS.shares)
    for topic in (*state, TOPICS.notifications):
        writers = {acl.principal for acl in acls.load() if acl.name == topic and acl.operation == "WRITE"}
        assert writers == {"User:coldnotify-matcher"}
    assert allowed("gateway", "READ") - set(TOPICS.of_tenants) == {TOPICS.notifications, TOPICS.nodes}
    written = {TOPICS.requests, TOPICS.rejected, TOPICS.objects, TOPICS.nodes, *TOPICS.channels}
    assert allowed("gateway", "WRITE") - set(TOPICS.of_tenants) == written


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("roles: {x: {topics: {coldnotify.object: [read]}}}", "x: coldnotify.object is no topic"),
        ("roles: {x: {topics: {coldnotify.objects: [raed]}}}", "x: raed is no operation"),
        ("roles: {x: {topic: {coldnotify.objects: [read]}}}", "x: topic is none of"),
        ("roles: [x]", "not as it should be"),
        ("{", "not as it should be"),
    ],
)
def test_a_mistake_in_the_file_is_named(text: str, words: str) -> None:
    with pytest.raises(AclsFileError, match=words):
        acls.load(text=text)


def test_a_principal_without_the_role_in_it_is_refused() -> None:
    with pytest.raises(AclsFileError, match="principal"):
        acls.load("User:everybody")


def test_a_plan_lists_the_changes_it_would_make() -> None:
    one, other = acls.load()[0], acls.load()[-1]
    assert str(acls.AclPlan((one,), (other,))) == f"+ {one}\n- {other}"
    assert str(acls.AclPlan((), ())) == "nothing to change"


def test_a_part_may_have_a_role_that_the_file_has_in_the_same_words() -> None:
    usage = read_yaml(files("coldnotify_kafka").joinpath("acls.yaml").read_text())["roles"]["usage"]
    assert acls.load(more={"usage": json.dumps(usage)}) == acls.load()
    with pytest.raises(AclsFileError, match="usage: is not the same as in the row of its part"):
        acls.load(more={"usage": json.dumps({**usage, "groups": {}})})
