"""Questions about an installation from Python: its built-in sweeps, what a name means, whether a sweep would run."""

from crowdsweep.health.examination import examination
from crowdsweep.health.finding import Finding
from crowdsweep.sweep import explain as explained
from crowdsweep.sweepfile.named import named_sweeps


def sweeps() -> dict[str, str]:
    """Returns name → title of the built-in sweeps, which `run` takes by name."""
    return {one.name: one.title for one in named_sweeps()}


def explain(name: str, /) -> str:
    """Returns a description of a key of sweep files (`budget.points`), a metric or a model, as `crowdsweep explain`.

    Raises:
        BadInput: nothing has this name; the message suggests similar names.
    """
    return explained.explain(name)


def doctor() -> list[Finding]:
    """Checks whether a sweep would run here, and what is missing for which purpose, as `crowdsweep doctor` does.

    Returns:
        The findings; a sweep runs where no `verdict` is `problem`.
    """
    return examination()
