"""What Python can ask of an installation: which sweeps come along, what a name means, whether a sweep would run."""

from crowdsweep.health.examination import examination
from crowdsweep.health.finding import Finding
from crowdsweep.sweep import explain as explained
from crowdsweep.sweepfile.named import named_sweeps


def sweeps() -> dict[str, str]:
    """Returns the sweeps that come along, which `run` takes by name, each with its title."""
    return {one.name: one.title for one in named_sweeps()}


def explain(name: str, /) -> str:
    """Returns what a key of sweep files (`budget.points`), a metric or a model is, as `crowdsweep explain` prints it.

    Raises:
        BadInput: nothing is called so; the message offers what is called nearly so.
    """
    return explained.explain(name)


def doctor() -> list[Finding]:
    """Looks whether a sweep would run here and what is missing for what, as `crowdsweep doctor` does.

    Returns:
        What was found; a sweep runs where no `verdict` is `problem`.
    """
    return examination()
