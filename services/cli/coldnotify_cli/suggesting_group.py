"""A group of commands that suggests the nearest command for an unknown one, and takes their common flags before it."""

import difflib
from collections import ChainMap
from typing import Any

import click
from coldnotify_common.settings import PREFIX, environment, flags_of, put_environment

from coldnotify_cli.settings import OperatorSettings


class SuggestingGroup(click.Group):
    """For `click.group(cls=...)`."""

    def __init__(self, *args: Any, flags_hidden: bool = True, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._flags = flags_of(OperatorSettings, hidden=flags_hidden)
        self.params += self._flags

    def invoke(self, ctx: click.Context) -> Any:
        """Does the same as click's; commands find the group's flags in their environment."""
        given = {str(flag.name): ctx.params.pop(str(flag.name)) for flag in self._flags}
        variables = {PREFIX + name.upper(): value for name, value in given.items() if value is not None}
        put_environment(ctx, ChainMap(variables, dict(environment())))
        return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Does the same as click's; raises UsageError with the nearest command's name."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]!r}?" if near else ""
            raise click.UsageError(f"there is no command {name!r}{meant}", ctx)
        return super().resolve_command(ctx, args)
