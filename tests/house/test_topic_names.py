"""Names in Kafka come from the TopicNames that is handed down: a name written out would be another installation's."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from coldnotify_schemas.topics import TopicNames

ROOT = Path(__file__).parents[2]
WRITTEN_OUT = {
    ("services/http/coldnotify_http/publishing.py", "coldnotify.objects"),  # an attribute of a span
    ("testkit/coldnotify_testkit/hostile_records/values.py", "coldnotify.objects"),  # what a stranger may write
}
GROUPS = tuple(
    TopicNames().group(name) for name in ("matcher", "gateway", "http", "usage", "tenancy", "history", "dump")
)
PRODUCT = ("clients/python/coldnotify/", "services/")
MAKE_DEFAULT_NAMES = {
    "services/cli/coldnotify_cli/parts_in_kafka.py",  # rows name topics as topics.yaml does
    "services/gateway/coldnotify_gateway/core/gateway.py",  # the core by itself, without settings
    "services/matcher/coldnotify_matcher/engine/rules/rules.py",  # the same
    "services/matcher/coldnotify_matcher/run_topics.py",  # the same
}


def modules() -> Iterator[tuple[str, ast.Module]]:
    listed = subprocess.run(["git", "ls-files", "*.py"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if "/tests/" not in name and not name.startswith("tests/"):
            yield name, ast.parse((ROOT / name).read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def trees() -> dict[str, ast.Module]:
    return dict(modules())


def test_no_name_is_written_out(trees: dict[str, ast.Module]) -> None:
    names = set(TopicNames().all) | set(GROUPS)
    found = {
        (path, node.value)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in names
    }
    assert found == WRITTEN_OUT


def test_the_product_makes_names_of_its_settings_prefix_alone(trees: dict[str, ast.Module]) -> None:
    found = {
        path
        for path, tree in trees.items()
        if path.startswith(PRODUCT)
        for node in ast.walk(tree)
        if (isinstance(node, ast.Call) and _is_names(node.func) and not node.args and not node.keywords)
        or (isinstance(node, ast.keyword) and node.arg == "default_factory" and _is_names(node.value))
    }
    assert found == MAKE_DEFAULT_NAMES


def _is_names(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == TopicNames.__name__
