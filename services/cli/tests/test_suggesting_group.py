"""Misspelt commands of a group."""

import click
import pytest
from click.testing import CliRunner
from coldnotify_cli.suggesting_group import SuggestingGroup


@click.group(cls=SuggestingGroup)
def fruit() -> None:
    """A group."""


@fruit.command()
def apple() -> None:
    """Says that it was called."""
    click.echo("apple it is")


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("aple", "Error: there is no command 'aple'; did you mean 'apple'?"),
        ("pear", "Error: there is no command 'pear'\n"),
    ],
)
def test_a_misspelt_command_suggests_similar_ones(typed: str, said: str) -> None:
    done = CliRunner().invoke(fruit, [typed])
    assert done.exit_code == 2
    assert said in done.output


def test_an_existing_command_is_called() -> None:
    assert CliRunner().invoke(fruit, ["apple"]).output == "apple it is\n"


def test_a_flag_that_is_not_there_stays_a_flag() -> None:
    assert "No such option: --aple" in CliRunner().invoke(fruit, ["--aple"]).output
