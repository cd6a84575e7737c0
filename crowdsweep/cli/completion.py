"""Shell completion of commands, options, models, datasets and sweeps; `crowdsweep completion` prints its script.

Names come from listings of files, without importing what they name, so that a completion is as fast as `--help`.
"""

from collections.abc import Iterable

import click
from click.shell_completion import BashComplete, CompletionItem, FishComplete, ZshComplete

from crowdsweep.record.stores import stores_in

_SHELLS = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
VARIABLE = "_CROWDSWEEP_COMPLETE"
"""Environment variable with which a shell asks the command for completions."""


def models_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the models whose names begin with the incomplete word."""
    from crowdsweep.registry.discovery import names

    return _beginning(incomplete, names("model"))


def datasets_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the datasets whose names begin with the incomplete word, and folders."""
    return [*_beginning(incomplete, dataset_names()), CompletionItem(incomplete, type="dir")]


def public_datasets_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the public datasets (of `crowdsweep fetch`) whose names begin with the incomplete word."""
    from crowdsweep.data.public import PUBLIC_DATASETS

    return _beginning(incomplete, PUBLIC_DATASETS)


def sweeps_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the built-in sweeps whose names begin with the incomplete word."""
    from crowdsweep.sweepfile.named import sweep_names

    return _beginning(incomplete, sweep_names())


def sweeps_or_files_named(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns completions for `run`: built-in sweeps, and files."""
    return [*sweeps_named(context, parameter, incomplete), CompletionItem(incomplete, type="file")]


def stores_named(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Returns the recorded sweeps here whose names begin with the incomplete word, and folders."""
    known = _beginning(incomplete, (store.name for store in stores_in()))
    return [*known, CompletionItem(incomplete, type="dir")]


def stores_or_datasets_named(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Returns completions for `label`: stores of sweeps, and datasets."""
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
    """Returns the names of `data.catalogue.names`, but without its slow imports, as a shell waits for the result."""
    from crowdsweep.data.search_path import search_path
    from crowdsweep.registry.discovery import names

    found = set(names("dataset"))
    for place in search_path():
        kinds = [f"*/{stem}.{kind}" for stem in ("annotations", "votes") for kind in ("csv", "csv.gz", "parquet")]
        found.update(file.parent.name for kind in kinds for file in place.glob(kind))
    return sorted(found)


def _beginning(incomplete: str, known: Iterable[str]) -> list[CompletionItem]:
    return [CompletionItem(name) for name in known if name.startswith(incomplete)]
