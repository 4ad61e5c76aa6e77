"""`coldnotify context add|list|remove`: addresses and an identity under a name, for --context."""

import json
from pathlib import Path

import click
from coldnotify_common.kafka.kafka_options import read_options
from coldnotify_common.settings import flags_of, load
from coldnotify_schemas.names import check_name

from coldnotify_cli.contexts import contexts_file, read_contexts, write_contexts
from coldnotify_cli.credentials import http_context, read_token
from coldnotify_cli.http_node import NotKnown
from coldnotify_cli.printing import echo
from coldnotify_cli.settings import OperatorSettings
from coldnotify_cli.suggesting_group import SuggestingGroup
from coldnotify_cli.tables import print_list

_FILES = ("ca_cert", "cert", "key", "token_file", "kafka_config")
_json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group("context", cls=SuggestingGroup)
def command_context() -> None:
    """Name installations: `coldnotify --context prod ...` knows prod's addresses, and who you are there.

    What a context says gives way to variables of the environment, and these to flags.
    """


@command_context.command("add", params=list(flags_of(OperatorSettings)))
@click.argument("name")
@_json_option
def add(name: str, as_json: bool, **given: str | None) -> int:
    """Add, or replace, the context NAME. It refers to files by their paths, and contains no key or token."""
    check_name("context", name)
    said = {setting: value for setting, value in given.items() if value is not None}
    if not said:
        raise click.UsageError("a context needs at least one setting: --http, --cert ... (see --help)")
    settings = load(OperatorSettings, {}, **said)
    http_context(settings)
    read_token(settings)
    read_options(settings.kafka_config)
    said |= {file: str(Path(said[file]).absolute()) for file in _FILES if said.get(file)}
    contexts = read_contexts()
    word = "replaced" if name in contexts else "added"
    write_contexts({**contexts, name: said})
    if as_json:
        echo(json.dumps({"context": name, **said}))
    else:
        echo(f"{name}: {word} in {contexts_file()}", f"try it: coldnotify --context {name} doctor")
    return 0


@command_context.command("list")
@_json_option
def list_contexts(as_json: bool) -> int:
    """List all contexts."""
    contexts = sorted(read_contexts().items())
    if as_json:
        return print_list(({"context": name, **said} for name, said in contexts), as_json)
    columns = ("http", "gateway", "kafka", "cert", "token_file")
    return print_list(
        ({"context": name, **{one: said.get(one) for one in columns}} for name, said in contexts), as_json
    )


@command_context.command("remove")
@click.argument("name")
@_json_option
def remove(name: str, as_json: bool) -> int:
    """Remove the context NAME. Files that it refers to stay."""
    contexts = read_contexts()
    if contexts.pop(name, None) is None:
        raise NotKnown(f"context {name!r} is not known")
    write_contexts(contexts)
    echo(json.dumps({"context": name, "removed": True}) if as_json else f"{name}: removed")
    return 0
