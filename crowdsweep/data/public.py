"""Public datasets that `crowdsweep fetch` downloads: addresses, licence, citation and expected contents of each.

No dataset is part of crowdsweep: whoever fetches one gets its files from the address given here. Addresses on GitHub
name a commit, so that their content never changes. Files without a published checksum are checked by their contents:
every number of `Counts` must match.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

_CUBAM = "https://raw.githubusercontent.com/welinder/cubam/fe5ba700f1adbb489c69af311558d64370d73d36/demo/bluebirds"
_CROWD_TRUTH = "https://raw.githubusercontent.com/CrowdTruth/CrowdTruth-core/33008aa0a9c0d7d7b5e796fbf819f0318be4809e"
_LEARNING_CROWDS = (
    "https://raw.githubusercontent.com/fmenat/PyLearningCrowds/0edf617d0357a43b48dc53f10f4181ec0163d4db/data"
)
_TRUTH_INFERENCE = (
    "https://raw.githubusercontent.com/zhydhkcws/crowd_truth_infer/8d216471071f09b9e474ee19f8d692447f982f88/datasets"
)


@dataclass(frozen=True, kw_only=True)
class PublicFile:
    """A file to download.

    Attributes:
        checksum: `sha256:…` or `md5:…`, as published; None if no checksum is published.
        members: members to extract from an archive (zip, tar.gz): maps each member's local name to the end of its path
            in the archive.
    """

    name: str
    url: str
    checksum: str | None = None
    members: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of items, annotators and annotations in a dataset.

    Attributes:
        items: number of all items.
        annotated: number of items with an annotation.
        annotators: number of annotators with an annotation.
        annotations: number of rows.
        gold: number of items with gold.
    """

    items: int
    annotated: int
    annotators: int
    annotations: int
    gold: int


@dataclass(frozen=True, kw_only=True)
class PublicDataset:
    """A dataset that can be fetched.

    Attributes:
        name: name of the dataset in a sweep file.
        converter: key in `fetching.converters.CONVERTERS` of the function that makes the folder from the files; empty
            if the folder holds the files as they are, for the built-in dataset of that name to read.
        classes: maps each label in the folder, in order, to the name of its class.
        home: web page about the dataset.
        licence: the licence as stated at its source, in a sentence.
        citation: the paper to cite.
    """

    name: str
    title: str
    files: tuple[PublicFile, ...]
    converter: str
    classes: Mapping[str, str]
    home: str
    licence: str
    citation: str
    counts: Counts


def _coded(*names: str) -> dict[str, str]:
    return {str(code): name for code, name in enumerate(names)}


def _named(*names: str) -> dict[str, str]:
    return {name: name for name in names}


_CIFAR_FILES = (*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin", "batches.meta.txt")
_KRIZHEVSKY_2009 = "Krizhevsky, Learning multiple layers of features from tiny images, University of Toronto, 2009"
_RODRIGUES_2013 = (
    "Rodrigues, Pereira and Ribeiro, Learning from multiple annotators: distinguishing good from random labelers, "
    "Pattern Recognition Letters 34(12), 2013"
)

PUBLIC_DATASETS: Mapping[str, PublicDataset] = {
    dataset.name: dataset
    for dataset in (
        PublicDataset(
            name="bluebirds",
            title="Blue birds: Indigo Bunting or not; 39 annotators saw every one of 108 pictures",
            files=(
                PublicFile(name="labels.yaml", url=f"{_CUBAM}/labels.yaml"),
                PublicFile(name="gt.yaml", url=f"{_CUBAM}/gt.yaml"),
            ),
            converter="yes-or-no-yaml",
            classes=_coded("false", "true"),
            home="https://github.com/welinder/cubam",
            licence="Clear BSD, of the repository that it lies in",
            citation="Welinder, Branson, Perona and Belongie, The multidimensional wisdom of crowds, NIPS 2010",
            counts=Counts(items=108, annotated=108, annotators=39, annotations=4212, gold=108),
        ),
        PublicDataset(
            name="cifar-10",
            title="60,000 small pictures of ten kinds of things, for crowds that are simulated; 170 MB",
            files=(
                PublicFile(
                    name="cifar-10-binary.tar.gz",
                    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                    checksum="md5:c32a1d4ab5d03f1284b67883e8d87530",
                    members={name: f"cifar-10-batches-bin/{name}" for name in _CIFAR_FILES},
                ),
            ),
            converter="",
            classes={},
            home="https://www.cs.toronto.edu/~kriz/cifar.html",
            licence="none is stated",
            citation=_KRIZHEVSKY_2009,
            counts=Counts(items=60000, annotated=0, annotators=0, annotations=0, gold=60000),
        ),
        PublicDataset(
            name="dog",
            title="Dogs of four breeds on 807 pictures, 109 annotators",
            files=(
                PublicFile(name="answer.csv", url=f"{_TRUTH_INFERENCE}/s4_Dog%20data/answer.csv"),
                PublicFile(name="truth.csv", url=f"{_TRUTH_INFERENCE}/s4_Dog%20data/truth.csv"),
            ),
            converter="truth-inference-csv",
            classes=_coded("class 0", "class 1", "class 2", "class 3"),
            home="https://github.com/zhydhkcws/crowd_truth_infer",
            licence="none is stated",
            citation="Zhou, Platt, Basu and Mao, Learning from the wisdom of crowds by minimax entropy, NIPS 2012",
            counts=Counts(items=807, annotated=807, annotators=109, annotations=8070, gold=807),
        ),
        PublicDataset(
            name="labelme",
            title="Scenes of eight kinds on 2,688 pictures, 1,000 of them labelled by 59 annotators; VGG-16 features",
            files=(
                PublicFile(name="answers.txt", url=f"{_LEARNING_CROWDS}/LabelMe/answers.txt"),
                *(
                    PublicFile(name=name, url=f"{_LEARNING_CROWDS}/LabelMe/LabelMe_{name}")
                    for split in ("train", "valid", "test")
                    for name in (f"Z_{split}.txt", f"VGG_avg_{split}.npy")
                ),
            ),
            converter="labelme-matrix",
            classes=_coded(
                "highway", "inside city", "tall building", "street", "forest", "coast", "mountain", "open country"
            ),
            home="http://fprodrigues.com/publications/deep-crowds/",
            licence="GPL-3 for the code of the repository that it lies in; nothing is said of the data",
            citation="Rodrigues and Pereira, Deep learning from crowds, AAAI 2018",
            counts=Counts(items=2688, annotated=1000, annotators=59, annotations=2547, gold=2688),
        ),
        PublicDataset(
            name="music-genre",
            title="Songs of ten genres, 700 of 1,000 labelled by 44 annotators; Marsyas features",
            files=(
                PublicFile(
                    name="mturk-datasets.tar.gz",
                    url="http://fprodrigues.com/mturk-datasets.tar.gz",
                    members={
                        "answers.csv": "music_genre_classification/mturk_answers.csv",
                        "gold.csv": "music_genre_classification/music_genre_gold.csv",
                        "test.csv": "music_genre_classification/music_genre_test.csv",
                    },
                ),
            ),
            converter="music-csv",
            classes=_named(
                "blues", "classical", "country", "disco", "hiphop", "jazz", "metal", "pop", "reggae", "rock"
            ),
            home="http://fprodrigues.com",
            licence="none is stated",
            citation=_RODRIGUES_2013,
            counts=Counts(items=1000, annotated=700, annotators=44, annotations=2945, gold=1000),
        ),
        PublicDataset(
            name="relevance-2",
            title="Does a page answer a query; 99,319 pairs, 7,138 annotators of Toloka",
            files=(
                PublicFile(
                    name="relevance-2.zip",
                    url="https://tlk.s3.yandex.net/dataset/crowd-kit/relevance-2.zip",
                    checksum="md5:a39c3c30d9e946eeb80ca39954c96e95",
                    members={"answers.csv": "crowd_labels.csv", "gold.csv": "gt.csv"},
                ),
            ),
            converter="crowd-kit-csv",
            classes=_coded("not relevant", "relevant"),
            home="https://github.com/Toloka/crowd-kit",
            licence="none is stated",
            citation="Ustalov, Pavlichenko and Tseitlin, Learning from crowds with Crowd-Kit, JOSS 9(96), 2024",
            counts=Counts(items=99319, annotated=99319, annotators=7138, annotations=475536, gold=10079),
        ),
        PublicDataset(
            name="rte",
            title="Does one sentence follow from another; 800 pairs with their texts, 164 annotators",
            files=(PublicFile(name="rte.csv", url=f"{_CROWD_TRUTH}/tutorial/data/rte.standardized.csv"),),
            converter="rte-csv",
            classes=_coded("not entailed", "entailed"),
            home="https://sites.google.com/site/nlpannotations/",
            licence="MIT, of the repository that it lies in; the first release states none",
            citation="Snow, O'Connor, Jurafsky and Ng, Cheap and fast - but is it good?, EMNLP 2008",
            counts=Counts(items=800, annotated=800, annotators=164, annotations=8000, gold=800),
        ),
        PublicDataset(
            name="sentiment-polarity",
            title="Sentences of film reviews, good or bad, with their texts; 4,999 labelled by 203 annotators",
            files=tuple(
                PublicFile(name=name, url=f"{_LEARNING_CROWDS}/Sentiment/{place}{name}")
                for place, name in (
                    ("", "answers.txt"),
                    *(("Sentiment_", f"{what}_{split}.txt") for split in ("train", "test") for what in ("Z", "text")),
                )
            ),
            converter="sentences-matrix",
            classes=_coded("negative", "positive"),
            home="http://fprodrigues.com",
            licence="GPL-3 for the code of the repository that it lies in; nothing is said of the data",
            citation=_RODRIGUES_2013,
            counts=Counts(items=8998, annotated=4999, annotators=203, annotations=27746, gold=8998),
        ),
    )
}
