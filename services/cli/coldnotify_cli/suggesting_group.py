"""A group of commands that suggests the nearest command for an unknown one."""

import difflib

import click


class SuggestingGroup(click.Group):
    """For `click.group(cls=...)`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Does the same as click's; raises UsageError with the nearest command's name."""
        name, known = args[0], self.list_commands(ctx)
        if name not in known and not name.startswith("-"):
            near = difflib.get_close_matches(name, known, n=1)
            meant = f"; is {near[0]!r} meant?" if near else ""
            raise click.UsageError(f"there is no command {name!r}{meant}", ctx)
        return super().resolve_command(ctx, args)
