"""All checks, in the order in which people read the findings."""

from crowdsweep.health.finding import Finding
from crowdsweep.health.hardware import hardware
from crowdsweep.health.installation import installation
from crowdsweep.health.places import places
from crowdsweep.health.surroundings import surroundings


def examination() -> list[Finding]:
    """Checks everything that sweeps need, and changes nothing; takes seconds, as torch is asked for its GPUs."""
    return [*installation(), *hardware(), *places(), *surroundings()]


def would_run(findings: list[Finding]) -> bool:
    """Whether a default sweep would run: no finding is a problem."""
    return all(finding.verdict != "problem" for finding in findings)
