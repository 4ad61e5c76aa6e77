"""Docstrings and errors are plain English: a sentence has a subject, a verb and an object."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_testkit import english
from coldnotify_testkit.house_numbers import shipped

KEPT = (
    "is no topic of ColdNotify's",
    "is no operation of Kafka's",
    "is none of topics, groups, cluster",
    "kafka-tool: there is no ",
    "NAME: there is no tool ",
    "COLDNOTIFY_TLS / --tls: there is no ",
    " is none of ",
    "there is no command ",
)
"""Errors whose words do not change, because tests match them (most of them the tests of release 0.1.0)."""

FINDS = (english.module_clauses, english.of_fields)

HTTP_ERRORS = (
    "services/http/",
    "services/gateway/coldnotify_gateway/listeners/web/",
    "services/matcher/coldnotify_matcher/looking/",
    "services/common/coldnotify_common/http/json_items.py",
    "services/common/coldnotify_common/security/authentication.py",
    "schemas/coldnotify_schemas/interests.py",
    "schemas/coldnotify_schemas/tenants.py",
)
"""The words of HTTP errors do not change."""


def modules() -> Iterator[tuple[Path, ast.Module]]:
    for path, text in shipped().items():
        yield path, ast.parse(text)


@pytest.mark.parametrize("find", FINDS, ids=["a clause", "Of"])
def test_no_docstring_begins_with(find: english.Find) -> None:
    found = [f"{path}:{one.line}: {one.words[:80]}" for path, tree in modules() for one in find(tree)]
    assert found == []


def test_errors_say_what_is_wrong_without_is_no_or_is_none() -> None:
    found = [
        f"{path}:{one.line}: {one.words}"
        for path, tree in modules()
        if not path.as_posix().startswith(HTTP_ERRORS)
        for one in english.is_none(tree)
        if not any(words in one.words for words in KEPT)
    ]
    assert found == []
