"""The page of the HTTP APIs."""

import re

import pytest
from coldnotify_common.http.openapi import PORTS, document
from coldnotify_tools.http_api_doc import generate


@pytest.fixture(scope="module")
def page() -> str:
    return generate()


def test_every_operation_is_on_the_page(page: str) -> None:
    for kind in PORTS:
        for path, operations in document(kind, kind)["paths"].items():
            for method in operations:
                assert f"`{method.upper()} {path}`" in page


def test_every_schema_is_on_the_page_once(page: str) -> None:
    headings = re.findall(r"^### (\w+)$", page, re.MULTILINE)
    assert sorted(set(headings)) == sorted(headings)
    for kind in PORTS:
        assert set(document(kind, kind)["components"]["schemas"]) <= set(headings)


def test_every_link_within_the_page_leads_to_a_heading(page: str) -> None:
    anchors = {heading.lower() for heading in re.findall(r"^#+ (\w+)$", page, re.MULTILINE)}
    assert set(re.findall(r"\]\(#([^)]+)\)", page)) <= anchors
    assert "[Record](#record)" in page


def test_what_is_the_same_at_two_ports_is_described_once(page: str) -> None:
    assert page.count("#### `GET /v1/domains/{domain}/groups/{group}/matrix`") == 1
    assert page.count("#### `GET /v1/overview`") == 2
