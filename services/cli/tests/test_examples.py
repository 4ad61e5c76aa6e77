"""Every command has an example in its help that it would take, and says its result as JSON."""

import shlex
from collections.abc import Iterator

import click
import pytest
from coldnotify_cli.examples import EXAMPLES as IN_TABLE
from coldnotify_cli.main import cli
from coldnotify_parts.registry import PARTS

SERVICES = {row.name for row in PARTS}
WITHOUT_JSON = {"up", "broker", "auto", "link", "kafka-tool"}
"""They run until they are stopped, or what they run has flags of its own."""


def commands(group: click.Group, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """All commands that do something, by their words; without services."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not words and name in SERVICES:
            continue
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command


ALL = dict(commands(cli))
EXAMPLES = {**IN_TABLE, "find": ("animal.observer region-1 --query 'Kind = configuration AND fps > 5'",)}


def test_every_command_has_an_example_and_every_example_a_command() -> None:
    assert set(EXAMPLES) == set(ALL)


@pytest.mark.parametrize("words", ALL)
def test_an_example_is_taken_and_shown(words: str) -> None:
    said = [line.strip() for line in ALL[words].get_help(click.Context(ALL[words])).split("\n")]
    for arguments in EXAMPLES[words]:
        ALL[words].make_context(words, shlex.split(arguments))
        assert f"coldnotify {words} {arguments}".rstrip() in said


@pytest.mark.parametrize("words", sorted(set(ALL) - WITHOUT_JSON))
def test_a_command_says_its_result_as_json(words: str) -> None:
    assert "as_json" in {param.name for param in ALL[words].params}
