"""Words in the names of columns: which role they tell, and which say that a column has none.

A name is split into words (`amt_worker_ids`: amt, worker, id), in singular, lower case and without accents. The words
of other languages are those that spreadsheets of German, French, Spanish, Italian, Portuguese, Dutch, Russian, Chinese
and Japanese annotators have.
"""

import re
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

WORDS: Mapping[str, tuple[str, ...]] = {  # the surest words first
    "item": (
        *("item", "task", "question", "example", "sample", "instance", "object", "record", "case", "document", "doc"),
        *("image", "picture", "photo", "img", "video", "clip", "audio", "sentence", "tweet", "post", "comment"),
        *("review", "product", "hit", "unit", "file", "filename", "url", "text", "id", "index", "idx", "row"),
        *("study", "scan", "slide", "patient", "pair", "prompt", "article", "page"),
        *("dokument", "bild", "satz", "aufgabe", "element", "phrase", "tache", "elemento", "documento", "imagen"),
        *("imagem", "immagine", "frase", "tarea", "afbeelding", "объект", "документ", "样本", "任务", "項目"),
    ),
    "annotator": (
        *("annotator", "worker", "rater", "labeler", "labeller", "coder", "grader", "judge", "turker", "assessor"),
        *("contributor", "volunteer", "participant", "respondent", "reviewer", "user", "username", "person", "player"),
        *("member", "student", "email", "who", "by"),
        *("reader", "observer", "evaluator", "scorer", "moderator", "radiologist", "pathologist", "physician"),
        *("bewerter", "annotateur", "evaluateur", "anotador", "evaluador", "avaliador", "annotatore", "valutatore"),
        *("beoordelaar", "аннотатор", "разметчик", "标注者", "标注员", "評価者"),
    ),
    "label": (
        *("label", "answer", "response", "class", "category", "annotation", "judgment", "judgement", "rating", "vote"),
        *("choice", "tag", "verdict", "opinion", "decision", "grade", "score", "said", "value", "output"),
        *("finding", "diagnosis", "preference", "preferred", "sentiment", "emotion", "stance"),
        *("urteil", "antwort", "bewertung", "kategorie", "klasse", "etiquette", "reponse", "categorie", "classe"),
        *("etiqueta", "respuesta", "resposta", "etichetta", "risposta", "categoria", "clase", "antwoord"),
        *("метка", "ответ", "класс", "标签", "类别", "ラベル"),
    ),
    "weight": ("weight", "weights"),
}
# The other words may also name a remark, a group or a row.
SURELY_ITEMS = WORDS["item"][: WORDS["item"].index("sentence")]
_GOLD = (
    *("gold", "truth", "groundtruth", "goldlabel", "labelgold", "goldstandard", "goldanswer", "truelabel", "labeltrue"),
    *("ytrue", "trueanswer", "gt", "labelgt", "gtlabel", "correctlabel", "correctanswer", "expertlabel"),
    *("richtigeantwort", "bonnereponse", "respuestacorrecta", "правильныйответ", "正确答案"),
)
SURELY_GOLD = ("gold", "golden", "truth", "groundtruth")
_PERHAPS_GOLD = ("correct", "expert", "target", "reference", "adjudicated", "adjudication", "true", "official")
_OF_VOTES = (
    "majority",
    "consensus",
    "aggregated",
    "predicted",
    "prediction",
    "model",
)  # made of the labels, or guessed
EXACTLY: tuple[Mapping[str, str], ...] = (
    {"item": "item", "annotator": "annotator", "label": "label"},
    {"item": "task", "annotator": "worker", "label": "label"},
)
SURELY_LABELS = (
    *("label", "answer", "response", "annotation", "judgment", "judgement", "rating", "vote", "choice", "verdict"),
    *("opinion", "decision", "said"),
)
TEXTS = (
    *("text", "sentence", "tweet", "post", "comment", "review", "headline", "title", "question", "document", "content"),
    *("body", "utterance", "passage", "snippet", "description", "message"),
)
OF_IDS = ("id", "name", "no", "nr", "code", "key")
OF_NOTHING = ("time", "date", "timestamp", "duration", "second", "minute", "hour", "confidence", "certainty", "note")
COUNTS = ("count", "number", "frequency", "freq", "vote", "total", "n")
_PART = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*|[^\W\d_a-zA-Z]+")


@lru_cache(maxsize=1 << 16)  # each role asks for the words of every column, and there may be thousands
def words_of(name: str) -> tuple[str, ...]:
    """Returns the words of a name, in singular, in lower case and without accents."""
    plain = "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))
    words = (part.lower() for part in _PART.findall(unicodedata.normalize("NFC", plain)))
    return tuple(word if word.endswith(("ss", "us", "is")) else word.removesuffix("s") for word in words)


def is_gold(name: str) -> bool:
    """Returns whether the name of a column says that it holds gold."""
    words = words_of(name)
    return "".join(word for word in words if word not in OF_IDS) in _GOLD or bool(set(SURELY_GOLD) & set(words))


def perhaps_gold(name: str) -> bool:
    """Returns whether a column may hold gold by its name, if it has no role and has the labels' classes."""
    words = {*words_of(name)}.difference(OF_IDS, WORDS["label"])
    return bool(words) and words <= {*_PERHAPS_GOLD}


def is_of_votes(name: str) -> bool:
    """Returns whether a column says that it was made of the labels, or by a model."""
    return bool({*_OF_VOTES} & {*words_of(name)})


def says(role: str, name: str) -> bool:
    """Returns whether a word of a column's name tells this role."""
    words = words_of(name)
    return not {*words, "".join(words)}.isdisjoint(WORDS[role])


def surely_annotators(name: str) -> bool:
    """Returns whether a column is named for annotators by a word that names nothing else."""
    sure = WORDS["annotator"][: WORDS["annotator"].index("reviewer")]
    return not set(sure).isdisjoint(words_of(name)) or words_of(name) == ("response", "id")  # the latter of Qualtrics
