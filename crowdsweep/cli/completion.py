"""What the shell completes: commands, options, models, datasets and sweeps; `crowdsweep completion` sets it up.

Names come from listings of files that import nothing of what they name, so that a completion takes no longer than
`--help`.
"""

from collections.abc import Iterable

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from crowdsweep.record.stores import stores_in

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
VARIABLE = "_CROWDSWEEP_COMPLETE"
"""By which a shell asks the command for completions."""


def models_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the models whose names begin so."""
    from crowdsweep.registry.discovery import names

    return _beginning(incomplete, names("model"))


def datasets_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the datasets whose names begin so; a folder will do as well."""
    return [*_beginning(incomplete, dataset_names()), CompletionItem(incomplete, type="dir")]


def public_datasets_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the datasets that can be fetched whose names begin so."""
    from crowdsweep.data.public import PUBLIC_DATASETS

    return _beginning(incomplete, PUBLIC_DATASETS)


def sweeps_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the sweeps that come along whose names begin so."""
    from crowdsweep.sweepfile.named import sweep_names

    return _beginning(incomplete, sweep_names())


def sweeps_or_files_named(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns what `run` takes: sweeps that come along, and files."""
    return [*sweeps_named(context, parameter, incomplete), CompletionItem(incomplete, type="file")]


def stores_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the sweeps here whose names begin so; a folder will do as well."""
    known = _beginning(incomplete, (store.name for store in stores_in()))
    return [*known, CompletionItem(incomplete, type="dir")]


def stores_or_datasets_named(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns what `label` takes: folders of sweeps, and datasets."""
    known = _beginning(incomplete, map(str, stores_in()))
    return [*known, *datasets_named(context, parameter, incomplete)]


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
def completion(shell: str) -> None:
    """Print the completion script of a shell: for commands, options, models, datasets and sweeps.

    \b
    bash, in ~/.bashrc:  eval "$(crowdsweep completion bash)"
    zsh, in ~/.zshrc:    eval "$(crowdsweep completion zsh)"
    fish, once:          crowdsweep completion fish > ~/.config/fish/completions/crowdsweep.fish
    """
    root = click.get_current_context().find_root().command
    click.echo(_SHELLS[shell](root, {}, "crowdsweep", VARIABLE).source())


def dataset_names() -> list[str]:
    """Returns what `data.catalogue.names` does, without what it imports: a shell waits for it."""
    from crowdsweep.data.search_path import search_path
    from crowdsweep.registry.discovery import names

    found = set(names("dataset"))
    for place in search_path():
        kinds = [f"*/{stem}.{kind}" for stem in ("annotations", "votes") for kind in ("csv", "csv.gz", "parquet")]
        found.update(file.parent.name for kind in kinds for file in place.glob(kind))
    return sorted(found)


def _beginning(incomplete: str, known: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]
