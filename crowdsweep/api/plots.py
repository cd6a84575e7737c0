"""The figures of a sweep's report from Python, as matplotlib figures."""

from collections.abc import Callable
from dataclasses import dataclass

from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.api.threads import one_thread
from crowdsweep.errors import BadInput, plain, shortened
from crowdsweep.views.figures.drawing import Figure
from crowdsweep.views.figures.of_report import ReportFigure, figures_of

_MOST_NAMED = 20


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Plots:
    """Figures of a sweep's report; `Results.plot` is an instance.

    Each method returns a `matplotlib.figure.Figure`, which a notebook shows and which has matplotlib's `.axes` and
    `.savefig`. Its arguments are words of the figure's title, such as the name of a model or a dataset; `titles` lists
    all titles. Words are only needed where the report has several figures of that kind.

    Attributes:
        look: reads the sweep.
    """

    look: Callable[[], AnalysedSweep]

    @property
    def titles(self) -> list[str]:
        """Titles of all figures of the report."""
        with one_thread():
            return [figure.title for figure in figures_of(self.look())]

    def means(self, *words: str) -> Figure:
        """Draws the mean scores of the models on a dataset, with 95 % intervals and the score of every seed."""
        return self._drawn("means", words)

    def ranks(self, *words: str) -> Figure:
        """Draws the models' ranks over several datasets."""
        return self._drawn("ranks", words)

    def curve(self, *words: str) -> Figure:
        """Draws a curve of the sweep's study."""
        return self._drawn("curve", words, "study")

    def training(self, *words: str) -> Figure:
        """Draws the learning curves of models on dev items."""
        return self._drawn("training", words)

    def search(self, *words: str) -> Figure:
        """Draws the value of every point of a search, in the order of the points, and the best value so far."""
        return self._drawn("search", words)

    def front(self, *words: str) -> Figure:
        """Draws the points of a search by its first two objectives, with the Pareto front."""
        return self._drawn("front", words)

    def importances(self, *words: str) -> Figure:
        """Draws the importances of hyper-parameters in a search."""
        return self._drawn("importances", words)

    def cost(self, *words: str) -> Figure:
        """Draws score against seconds, with the Pareto front."""
        return self._drawn("cost", words)

    def confusion(self, *words: str) -> Figure:
        """Draws the crowd's confusion matrix."""
        return self._drawn("confusion", words)

    def figure(self, title: str) -> Figure:
        """Draws any figure of the report, by its title or a part of it."""
        return self._drawn("figure", (title,), "")

    def _drawn(self, called: str, words: tuple[str, ...], kind: str | None = None) -> Figure:
        """Draws the only figure of a kind whose title contains all of these words.

        Args:
            called: name of the method that was called, for messages.
            words: parts of the title; a word that equals a title selects that figure alone.
            kind: first part of the figure's name; `called` where it is None, any figure where it is empty.

        Raises:
            BadInput: no figure matches, or several do.
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
