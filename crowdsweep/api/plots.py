"""The figures of a sweep's report from Python, as matplotlib's own objects."""

from collections.abc import Callable
from dataclasses import dataclass

from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.api.threads import one_thread
from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.views.figures import Figure, ReportFigure, figures_of

_MOST_NAMED = 20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plots:
    """Draws the figures of a sweep's report; `Results.plot` is one. What is drawn is a `matplotlib.figure.Figure`: a
    notebook shows it, `.axes` and `.savefig` are matplotlib's.

    Each method takes words of the figure's title, as `titles` lists them: of a model, of a dataset. They are needed
    where there are several such figures.

    Attributes:
        look: reads the sweep.
    """

    look: Callable[[], AnalysedSweep]

    @property
    def titles(self) -> list[str]:
        """What every figure of the report is."""
        with one_thread():
            return [figure.title for figure in figures_of(self.look())]

    def means(self, *words: str) -> Figure:
        """Draws what the models of a dataset reach, with 95 % intervals and the value of every seed."""
        return self._drawn("means", words)

    def ranks(self, *words: str) -> Figure:
        """Draws the models' ranks over several datasets."""
        return self._drawn("ranks", words)

    def curve(self, *words: str) -> Figure:
        """Draws a curve of the sweep's study."""
        return self._drawn("curve", words, "study")

    def training(self, *words: str) -> Figure:
        """Draws scores of dev items while models trained."""
        return self._drawn("training", words)

    def search(self, *words: str) -> Figure:
        """Draws every point of a search in its order, and the best so far."""
        return self._drawn("search", words)

    def front(self, *words: str) -> Figure:
        """Draws the points of a search by its first two objectives, with the Pareto front."""
        return self._drawn("front", words)

    def importances(self, *words: str) -> Figure:
        """Draws which hyper-parameters mattered in a search."""
        return self._drawn("importances", words)

    def cost(self, *words: str) -> Figure:
        """Draws score against seconds, with the Pareto front."""
        return self._drawn("cost", words)

    def confusion(self, *words: str) -> Figure:
        """Draws the crowd's confusion matrix."""
        return self._drawn("confusion", words)

    def figure(self, title: str) -> Figure:
        """Draws any figure of the report, by its whole title or by words of it."""
        return self._drawn("figure", (title,), "")

    def _drawn(self, called: str, words: tuple[str, ...], kind: str | None = None) -> Figure:
        """Draws the one figure of a kind whose title has all of these words.

        Args:
            called: how a person asked for it.
            words: of its title.
            kind: what its name begins with, where that is not how it is called; any where it is empty.

        Raises:
            BadInput: no figure, or several, have such a title.
        """
        wanted = called if kind is None else kind
        with one_thread():
            known = [one for one in figures_of(self.look()) if wanted in ("", one.name.partition("-")[0])]
            found = [figure for figure in known if all(one in figure.title for one in words)]
            exact = [figure for figure in found if figure.title in words]
            if len(exact or found) != 1:
                raise BadInput(_choose(called, found or known))
            return (exact or found)[0].draw()


def _choose(called: str, known: list[ReportFigure]) -> str:
    if not known:
        return f"plot.{called}: the report has no such figure (yet); `plot.titles` lists those that it has"
    titles = ", ".join(repr(plain(shortened(figure.title))) for figure in known[:_MOST_NAMED])
    return f"plot.{called}: expected words of the title of one figure; there are {titles}"
