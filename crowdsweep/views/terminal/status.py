"""How far a sweep is, for people."""

from typing import Any

from crowdsweep.analysis.standing import left_out_words
from crowdsweep.errors import plain
from crowdsweep.metrics.shown import number_words
from crowdsweep.metrics.wording import words
from crowdsweep.views.terminal.grid import Grid, render
from crowdsweep.views.terminal.live import BEST_COLUMNS
from crowdsweep.views.terminal.messages import wrapped


def describe_status(found: dict[str, Any], state: str, width: int | None) -> str:
    """Returns what `sweep_status` found as lines.

    Args:
        found: of `sweep_status`.
        state: in words.
        width: of the terminal; None where there is none.
    """
    left = found["total"] - found["done"] - found["failed"] - found["stopped"] - found["lost"]
    lost = f"{found['lost']} lost with their slots, " if found["lost"] else ""
    stopped = f"{found['stopped']} stopped early, " if found["stopped"] else ""
    lines = [
        f"{found['name']}: {state}",
        f"{found['done']} done, {found['failed']} failed, {lost}{stopped}{left} to go of {found['total']} trials",
    ]
    if state == "broken off":
        lines.append("its process is gone without a word; run the sweep again and it goes on, nothing is lost")
    if found["lost"]:
        lines.append("`crowdsweep run` tries those again that were lost: they say nothing of their models")
    if found["failed"]:
        lines.append("`crowdsweep run SWEEP --retry-failed` tries the failed trials again")
    if found["trials_lost_and_run_again"]:
        lines.append(f"{found['trials_lost_and_run_again']} times a trial's slot was lost and it ran again")
    if found["trials_gone_on_with"]:
        lines.append(f"{found['trials_gone_on_with']} trials went on from a checkpoint")
    lines += left_out_words(found["left_out"], found["data_changed"])
    lines += [
        f"failed: {failure['trial']} ({failure['key']}): {failure['kind']}: {failure['message']}"
        for failure in found["failures"]
    ]
    rows = [
        (
            best["dataset"],
            best["model"],
            number_words(best["mean"], best["metric"]),
            words(best["metric"]),
            f"{best['seeds']} seeds" + (" of a search" if best["phase"] == "search" else ""),
        )
        for best in found["best"]
    ]
    table = ["", render(Grid(columns=BEST_COLUMNS, groups={"": rows}), width)] if rows else []
    return "\n".join([wrapped(plain("\n".join(lines)), width), *table])
