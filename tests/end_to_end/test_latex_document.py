"""A paper with a table, figures and the methods of a sweep: LaTeX sets it as it is."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from published_sweeps import published_store

from crowdsweep.cli.commands import run_command_line

PICTURES = os.environ.get("CROWDSWEEP_PICTURES")
"""A folder for the page, where somebody wants to look at it."""
_DOCUMENT = r"""\documentclass{article}
\usepackage{booktabs}
\usepackage{graphicx}
\begin{document}
\section{Methods}
%(methods)s
\input{table}
%(figures)s
See Table~\ref{tab:made-up} and Figures~\ref{fig:means-birds} and~\ref{fig:ranks}.
\end{document}
"""


def environments(latex: str, *names: str) -> str:
    """Returns the figures of these names, as `figures.tex` has them."""
    every = re.findall(r"\\begin\{figure\}.*?\\end\{figure\}", latex, flags=re.DOTALL)
    return "\n".join(one for name in names for one in every if f"\\label{{fig:{name}}}" in one)


@pytest.mark.long
def test_a_document_with_a_table_and_two_figures_compiles(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("pdflatex") is None and os.environ.get("CI") != "true":
        pytest.skip("there is no LaTeX: apt-get install texlive-latex-recommended")
    store = published_store(tmp_path / "store")

    def printed(*words: str) -> str:
        assert run_command_line(list(words)) == 0
        return capsys.readouterr().out

    printed("report", str(store), "--figures", "pdf")
    table = printed("results", str(store), "--layout", "pivot", "--format", "latex")
    methods = printed("report", str(store), "--methods", "--latex")
    figures = environments((store / "figures" / "figures.tex").read_text(), "means-birds", "ranks")
    paper = tmp_path / "paper"
    shutil.copytree(store / "figures", paper / "figures")
    (paper / "table.tex").write_text(table, encoding="utf-8")
    document = _DOCUMENT % {"methods": methods, "figures": figures}
    (paper / "paper.tex").write_text(document, encoding="utf-8")
    for _ in range(2):  # the second time references are known
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "paper.tex"],
            cwd=paper,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout[-3000:]
    log = (paper / "paper.log").read_text(errors="replace")
    assert "LaTeX Warning" not in log, re.findall(r"LaTeX Warning.*", log)
    assert "Overfull" not in log, re.findall(r"Overfull.*", log)
    assert "Missing character" not in log
    assert (paper / "paper.pdf").read_bytes().startswith(b"%PDF-")
    if PICTURES:
        shutil.copy(paper / "paper.pdf", PICTURES)
