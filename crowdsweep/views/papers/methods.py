"""The methods paragraph, for pasting into a paper."""

from crowdsweep.analysis.methods import methods_of
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.errors import plain
from crowdsweep.views.tables.texts import as_latex


def methods_paragraph(found: AnalysedSweep, *, latex: bool = False) -> str:
    """Returns a description of how a sweep was done, in one paragraph.

    Args:
        latex: whether to escape every character that LaTeX takes for a command.
    """
    text = " ".join(methods_of(found))
    return as_latex(text) if latex else plain(text)
