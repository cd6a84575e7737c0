"""PC-GP: personal classifiers on a Gaussian kernel, by random Fourier features.

As in `pc`, each annotator has a classifier of their own around the crowd's, but not one linear in the features:
classifiers are functions with a Gaussian process prior, whose kernel exp(-|x - x'|² / 2 l²) is approximated by products
of random cosines.

The name stands in a table of Atarashi, Oyama and Kurihara (2018), which Chen et al. (2020) copy, without a definition,
and we know no source of one. This is our reading: Kajino et al. (2012) with the feature map of Rahimi and Recht (2007).

    phi(x)   sqrt(2 / M) cos(x Omega / l + b), Omega ~ N(0, 1), b ~ U(0, 2 pi)     FourierFeatures
    M        number of cosines                                                     fourier_features
    l        length-scale, times sqrt(D), as distances grow with features          length_scale

Features are standardised first, and a one stands beside the cosines. Everything else is `pc`'s.
"""

from dataclasses import dataclass
from typing import Annotated, final

import numpy as np
from annotated_types import Ge, Gt
from jaxtyping import Float64

from crowdsweep.data.dataset import Items, TrainingData
from crowdsweep.models.contract import FitContext, FitResult, ModelInfo
from crowdsweep.models.joint._personal_classifiers import PersonalClassifiers, personal_cost
from crowdsweep.models.joint._softmax_regression import Inputs
from crowdsweep.models.networks.contract import features_of
from crowdsweep.models.scaling import Scale
from crowdsweep.seeds import SeedStream


@final
@dataclass(frozen=True, kw_only=True)
class PCGP:
    """Hyper-parameters of personal classifiers on a Gaussian kernel.

    Attributes:
        fourier_features: random cosines that stand for the kernel.
        length_scale: length scale of the kernel, in units of the square root of the number of features.
        personal: how the classifiers are fitted.
    """

    fourier_features: Annotated[int, Ge(1)] = 256
    length_scale: Annotated[float, Gt(0)] = 1.0
    personal: PersonalClassifiers = PersonalClassifiers(crowd_penalty=0.1, personal_penalty=1.0)

    def fit(self, data: TrainingData, context: FitContext) -> FitResult:
        scale = Scale.of(features_of(data.items))
        features = FourierFeatures.drawn(scale, self.fourier_features, self.length_scale, context.seeds)
        return self.personal.fit(data, context, features)


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class FourierFeatures:
    """Random cosines of standardised features: their products approximate a Gaussian kernel."""

    scale: Scale
    frequencies: Float64[np.ndarray, "features cosines"]
    phases: Float64[np.ndarray, " cosines"]

    @classmethod
    def drawn(cls, scale: Scale, number: int, length_scale: float, seeds: SeedStream) -> "FourierFeatures":
        """Draws frequencies and phases."""
        random, n_features = seeds.numpy("fourier features"), len(scale.mean)
        frequencies = random.standard_normal((n_features, number)) / (length_scale * np.sqrt(max(n_features, 1)))
        return cls(scale=scale, frequencies=frequencies, phases=random.uniform(0.0, 2.0 * np.pi, number))

    def inputs(self, items: Items) -> Inputs:
        """Returns the cosines, and a column of ones."""
        standardised = self.scale.applied(features_of(items))
        number = len(self.phases)
        cosines = np.sqrt(2.0 / number) * np.cos(standardised @ self.frequencies + self.phases)
        return np.concatenate([cosines, np.ones((len(cosines), 1))], axis=1)


MODEL = ModelInfo(
    name="pc-gp",
    title="PC-GP: a classifier for each annotator on a Gaussian kernel, around the crowd's",
    model=PCGP,
    steps="iterations",
    predicts_labels=True,
    source="Kajino et al. 2012 on the features of Rahimi and Recht 2007; the name in Atarashi et al. 2018",
    needs=frozenset({"features"}),
    supports=frozenset({"votes", "soft_answers"}),
    space={
        "fourier_features": {"values": [64, 256, 1024]},
        "length_scale": {"values": [0.5, 1, 2, 4]},
        "crowd_penalty": {"values": [0.01, 0.1, 1]},
        "personal_penalty": {"values": [0.1, 1, 10]},
    },
    cost=lambda shape, params: personal_cost(shape, params, params["fourier_features"] + 1),
    monotone_objective=True,
)
