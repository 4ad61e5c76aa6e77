"""Docstrings and errors are plain English: a sentence has a subject, a verb and an object."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_testkit import english
from coldnotify_testkit.house_numbers import shipped

NOT_YET = ("services/common/",)
"""Packages that are not rewritten yet. The list may only shrink."""

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
    "schemas/coldnotify_schemas/interests.py",
    "schemas/coldnotify_schemas/tenants.py",
)
"""The words of HTTP errors do not change."""


def done() -> Iterator[tuple[Path, ast.Module]]:
    for path, text in shipped().items():
        if not path.as_posix().startswith(NOT_YET):
            yield path, ast.parse(text)


@pytest.mark.parametrize("find", FINDS, ids=["a clause", "Of"])
def test_no_docstring_begins_with(find: english.Find) -> None:
    found = [f"{path}:{one.line}: {one.words[:80]}" for path, tree in done() for one in find(tree)]
    assert found == []


def test_errors_say_what_is_wrong_without_is_no_or_is_none() -> None:
    found = [
        f"{path}:{one.line}: {one.words}"
        for path, tree in done()
        if not path.as_posix().startswith(HTTP_ERRORS)
        for one in english.is_none(tree)
        if not any(words in one.words for words in KEPT)
    ]
    assert found == []


@pytest.mark.parametrize("package", NOT_YET)
def test_a_package_without_faults_is_done(package: str) -> None:
    trees = [ast.parse(text) for path, text in shipped().items() if path.as_posix().startswith(package)]
    assert any(True for tree in trees for find in FINDS for _ in find(tree)), f"take {package} off the list"
