"""Help that is not cut: a command is listed with its whole first sentence, on as many lines as that takes."""

import click


class Commands(click.Group):
    """A group of commands; click cuts what it says of each of them to the rest of one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Called by click: writes the list of commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _first_sentence(command)) for name, command in found if command and not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_sentence(command: click.Command) -> str:
    return command.get_short_help_str(limit=10_000)
