"""The report of a sweep as one self-contained HTML page.

While the sweep still runs, the page shows what has finished, and says so.
"""

import base64
import hashlib
import json
import re
import shlex
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import jinja2
import yaml
from markupsafe import Markup, escape

from crowdsweep.analysis import phrases
from crowdsweep.analysis.methods import methods_of
from crowdsweep.analysis.sweep import AnalysedSweep
from crowdsweep.metrics.wording import readable
from crowdsweep.record.events import SweepStatus
from crowdsweep.record.naming import show_point, told_words
from crowdsweep.views.figures.drawing import to_svg
from crowdsweep.views.figures.of_report import ReportFigure, figures_of
from crowdsweep.views.page import sections
from crowdsweep.views.page import tables as page_tables
from crowdsweep.views.page.tables import one_below_another as below
from crowdsweep.views.page.underway import Underway, search_so_far

_MAX_SHOWN_FAILURES = 200
_MOST_SEARCHES_DRAWN = 24  # a page with hundreds of figures takes minutes to draw, and long to load
_LATEST_FAILURES = 3
_SCRIPTS = ("state", "tables", "figures")


@dataclass(kw_only=True)
class _Drawing:
    """Writes figures into the page; counts them, so that their ids differ."""

    count: int = field(default=0)

    def __call__(self, figure: ReportFigure) -> Markup:
        self.count += 1
        return Markup(to_svg(figure.draw(), f"f{self.count}", figure.title))  # noqa: S704 - our own drawing


def render_page(found: AnalysedSweep, running: Underway | None = None) -> str:
    """Returns the page's HTML.

    Args:
        found: the sweep; commands on the page name its store.
        running: what the page has besides while the sweep runs.
    """
    folder = Path(__file__).parent
    script = _script(folder / "script")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    cast(dict[str, Any], environment.filters).update(_FILTERS)
    template = environment.from_string((folder / "page.html.j2").read_text(encoding="utf-8"))
    return template.render(
        style=Markup((folder / "page.css").read_text(encoding="utf-8")),  # noqa: S704 - our own
        script=Markup(script),  # noqa: S704 - our own
        script_digest=_digest(script),
        underway=running,
        found=found,
        draw=_Drawing(),
        drawn=figures_of(found),
        **_FUNCTIONS,
        **_about_the_sweep(found),
        **_made_of(found),
    )


def _script(folder: Path) -> str:
    """Returns the script that makes the page interactive; the page is complete without it."""
    return "\n".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)


def _digest(script: str) -> str:
    """Returns the digest that names a script in the page's security policy, which allows no other script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}"


def _about_the_sweep(found: AnalysedSweep) -> dict[str, Any]:
    """Returns what the page says of the sweep as a whole: its progress, what failed, how to run it again."""
    state = found.state
    return {
        "written": datetime.now(tz=UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "unfinished": state.status is not SweepStatus.DONE,
        "failed": found.failed[:_MAX_SHOWN_FAILURES],
        "latest_failed": found.failed[-_LATEST_FAILURES:],
        "n_failed": len(found.failed),
        "quoted_store": shlex.quote(str(found.store)),
        "a_key": next((trial.spec.key for trial in found.trials if trial.spec.key in state.results), ""),
        "methods": " ".join(methods_of(found)),
        "sweep_file": yaml.safe_dump(json.loads(json.dumps(dict(state.config))), sort_keys=False, allow_unicode=True),
    }


def _made_of(found: AnalysedSweep) -> dict[str, Any]:
    """Returns what the page shows of parts of the sweep that are not shown as they are: the first screen, then the
    sections below it."""
    return {
        "study_tables": below(map(page_tables.study_table, found.study.tables)) if found.study else [],
        "first_notes": phrases.worth_of_heldout(found.comparison),
        "searches_drawn": _searches_drawn(found),
        "so_far": None if found.state.status is SweepStatus.DONE else search_so_far(found.searches),
        "baselines": {place: below([sections.baseline_table(one)]) for place, one in found.baselines.items()},
        "guidance": below(sections.guidance_tables(found.guidance)),
        "soft_labels": below(sections.soft_label_tables(found.soft_labels)),
        "unseen": {place: below([sections.unseen_table(models)]) for place, models in found.unseen_annotators.items()},
        "printed_values": page_tables.printed_table(found.comparison),
        "cost": page_tables.cost_table(found.comparison),
        "table_name": (found.state.config.get("published") or {}).get("table") or "the paper",
    }


def _searches_drawn(found: AnalysedSweep) -> frozenset[str]:
    """Returns the keys of the searches whose figures are on the page; those of the best models come first."""
    best = {(answer.block.place, answer.block.ranked[0].model) for answer in found.answers if answer.block.ranked}
    order = sorted(found.searches, key=lambda search: (search.place, search.model) not in best)
    return frozenset(search.key for search in order[:_MOST_SEARCHES_DRAWN])


def _ticks(text: str) -> Markup:
    """Returns a sentence in which `words in backticks` are code."""
    parts = re.split(r"`([^`]*)`", text)
    code = Markup("<code>{}</code>")
    return Markup("").join(code.format(part) if place % 2 else escape(part) for place, part in enumerate(parts))


_FILTERS: dict[str, Any] = {
    "point": show_point,
    "collapse": phrases.collapse,
    "readable": readable,
    "objectives": phrases.objectives_words,
    "told_words": told_words,
    "ticks": _ticks,
}
_FUNCTIONS: dict[str, Any] = {
    "verdict": phrases.verdict,
    "tests_used": phrases.tests_used,
    "optimism": phrases.optimism,
    "intervals_over": phrases.intervals_over,
    "friedman": phrases.friedman_words,
    "scores": page_tables.scores_table,
    "certainty": page_tables.certainty_table,
    "every_metric": page_tables.metrics_tables,
    "selected": page_tables.selected_table,
    "every_point": page_tables.points_table,
    "front": page_tables.front_table,
}
