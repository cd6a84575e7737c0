"""Untruncated help: commands are listed with their whole first sentence, on as many lines as needed."""

import click


class Commands(click.Group):
    """A group of commands whose list has whole first sentences, which click would truncate to one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the list of commands; click calls this method."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _first_sentence(command)) for name, command in found if command and not command.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _first_sentence(command: click.Command) -> str:
    return command.get_short_help_str(limit=10_000)
