"""Waits for what never comes and hears nobody, where DEAF is set to a file, which is made when the waiting begins.

A model, a dataset and a study template: it waits in a trial, while a dataset is made, and while a report is written.
"""

import os
import signal
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from crowdsweep.data import catalogue
from crowdsweep.data.catalogue import Source
from crowdsweep.data.dataset import CrowdDataset, TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.studies.contract import StudyReport, StudyTemplate


def wait_for_ever() -> None:
    if "DEAF" not in os.environ:
        return
    Path(os.environ["DEAF"]).touch()
    while True:
        try:
            time.sleep(3600)
        except BaseException:  # noqa: BLE001 - Ctrl-C, for one
            continue


@final
@dataclass(frozen=True, kw_only=True)
class Deaf:
    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        if "DEAF" in os.environ:
            signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
        wait_for_ever()
        return FitResult(item_probs=data.annotations.label_distribution())


def base(params: dict[str, object]) -> CrowdDataset:
    wait_for_ever()
    return replace(catalogue.load("anesthesia", {}), name="deaf", params=params)


MODEL = ModelInfo(name="deaf", title="Majority vote that hears nobody", model=Deaf, source="made up")
SOURCE = Source(name="deaf", title="Anesthesia, at the end of days", defaults={}, base=base)
TEMPLATE = StudyTemplate(
    name="deaf",
    title="Why hurry?",
    knobs={},
    plans=lambda knobs, config: config,
    summarise=lambda results, knobs: StudyReport(title=f"{wait_for_ever()}"),
)
