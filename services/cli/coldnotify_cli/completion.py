"""Names for the shell's completion: domains, groups, clients, objects and channels, as the HTTP service knows them."""

import os
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click
from click.shell_completion import CompletionItem
from coldnotify_common.plurals import number_of
from coldnotify_common.settings import describe, load

from coldnotify_cli.contexts import read_contexts, variables_of
from coldnotify_cli.http_node import HttpNode
from coldnotify_cli.settings import HttpNodeSettings

_TIMEOUT_S = 1.0
"""Somebody has pressed a key and waits."""
_SHOWN_MAX = 100
_LISTS = {
    **dict.fromkeys(("client", "client_id"), "clients"),
    **dict.fromkeys(("object_id", "objects"), "objects"),
    **dict.fromkeys(("channel", "channels"), "channels"),
}
"""The list of a group with the names for a parameter."""


class KnownName(click.types.StringParamType):
    """A text that the HTTP service may know."""

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Returns the known names that begin so; none if the service does not answer within a second."""
        try:
            return list(islice(_known(ctx, str(param.name), incomplete), _SHOWN_MAX))
        except Exception:  # a traceback in the middle of a line that is being typed would help nobody
            return []


def complete_names(command: click.Command) -> None:
    """Has the command's parameters, and those of its subcommands, complete the names that are known."""
    for param in command.params:
        if param.name in ("domain", "group", *_LISTS) and isinstance(param.type, click.types.StringParamType):
            param.type = KnownName()
    if isinstance(command, click.Group):
        for one in command.commands.values():
            complete_names(one)


def context_names(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the contexts that begin so."""
    return [
        CompletionItem(name, help=said.get("http"))
        for name, said in read_contexts().items()
        if name.startswith(incomplete)
    ]


def _known(ctx: click.Context, kind: str, incomplete: str) -> Iterator[CompletionItem]:
    node = HttpNode(_settings(ctx))
    # Behind an option without its value, click has not taken the arguments yet.
    typed = dict(zip(("domain", "group"), ctx.args, strict=False)) | {n: v for n, v in ctx.params.items() if v}
    if kind in _LISTS:
        path = ("domains", typed["domain"], "groups", typed["group"], _LISTS[kind])
        # A name itself comes before all that begin with it.
        rows = node.get(*path, limit=_SHOWN_MAX, after=incomplete[:-1] or None)["items"]
        found = {str(row[_LISTS[kind][:-1]]): _words(row) for row in rows}
    else:
        groups = node.get("overview")["groups"]
        if kind == "domain":
            found = {str(one["domain"]): "" for one in groups}
        else:
            found = {
                one["group"]: number_of(one["clients"], "client") for one in groups if one["domain"] == typed["domain"]
            }
    yield from (CompletionItem(name, help=words) for name, words in found.items() if name.startswith(incomplete))


def _words(row: dict[str, Any]) -> str:
    if "version" in row:
        return f"version {row['version']}"
    if "subscribers" in row:
        return number_of(row["subscribers"], "subscriber")
    return "online" if row["online"] else "asleep"


def _settings(ctx: click.Context) -> HttpNodeSettings:
    """Returns the settings by the flags typed so far: no command runs, so no group has passed its flags on."""
    names = {info.name for info in describe(HttpNodeSettings)}
    given: dict[str, object] = {}
    context: click.Context | None = ctx
    while context is not None:
        given = {name: value for name, value in context.params.items() if name in names and value is not None} | given
        root, context = context, context.parent
    chosen = root.params.get("name") or os.environ.get("COLDNOTIFY_CONTEXT")
    variables = variables_of(chosen) if chosen else {}
    return load(HttpNodeSettings, {**variables, **os.environ}, **{**given, "http_timeout_s": _TIMEOUT_S})
