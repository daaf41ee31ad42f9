"""Every measure: its units have its value, and a score that is tested against a null value has a p-value of its own."""

from __future__ import annotations

import json
import warnings
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import evenhand as eh
from evenhand import measures
from evenhand.audit import Result
from evenhand.measures.likelihood.stereoset import StereoExample, StereoSentence
from evenhand.measures.likelihood.stereotype_pairs import StereotypePair
from evenhand.measures.registry import as_measurements
from evenhand.models.lm.chat import Choices
from evenhand.models.outcomes import Outcomes
from recorded_numbers import check, check_whole
from scripted_model import ScriptedModel

Asked = Callable[[], measures.Measurement | tuple[measures.Measurement, ...]]
FILLS = ("grump", "nurse", "doctor", "teacher", "driver")
# Families whose measures take word vectors or inference models.
BY_VECTORS = ("association", "geometry", "quality", "inference")
WITHOUT = {
    "corpus-bias": "its unit is the document, of which a corpus has too many to keep",
    "bias-by-site": "it needs a network; test_bias_by_site compares its units with its value",
    "bias-by-site-labels": "it needs a network; test_bias_by_site_labels compares its units with its value",
}


def number(*parts: object) -> float:
    """Return a number in [0, 1) that depends on its arguments in no meaningful way."""
    return zlib.crc32("|".join(map(str, parts)).encode()) / 2**32


def hashed(tokens: list[str], index: int) -> float:
    return -5 * number(" ".join(tokens), tokens[index], index) - 0.1


class HashedModel(ScriptedModel):
    """A masked model whose numbers depend on the text in no meaningful way."""

    def __init__(self) -> None:
        super().__init__(hashed, masked=True)

    def top_fillers(self, contexts: Sequence[str], k: int, *, tokens: int | None = None) -> list[list[str]]:
        return [sorted(FILLS, key=lambda fill: number(context, fill))[:k] for context in contexts]


class HashedEncoder:
    """Sentence vectors without a meaning."""

    name, layers, pooling = "hashed", 2, "mean"

    def encode(self, texts, *, layer=None, pooling=None, tokens=None):
        number = self.layers if layer is None else layer
        return np.array([np.random.default_rng([number, *text.encode()]).normal(size=6) for text in texts])

    def encode_layers(self, texts, *, pooling=None, tokens=None):
        return np.stack([self.encode(texts, layer=layer) for layer in range(self.layers + 1)])


class HashedClassifier:
    name, labels, exclusive = "hashed", ("no", "yes"), True

    def predict(self, texts, *, tokens=None):
        yes = np.array([number(text) for text in texts])
        return np.stack([1 - yes, yes], axis=1)


class HashedWriter:
    name = "hashed"

    def continuations(self, prompts, *, samples, tokens, temperature=1.0, seed=0):
        words = ("office", "home", "salary", "family", "rain", "bread")
        return [
            [" ".join(words[int(6 * number(prompt, i, j))] for j in range(4 + i)) for i in range(samples)]
            for prompt in prompts
        ]


class HashedChat:
    name = "hashed"

    def choose(self, conversations, options, *, samples=20, seed=0):
        rows = [[number(messages[-1]["content"], option) for option in options] for messages in conversations]
        shares = np.array(rows) / (1.0 + np.sum(rows, axis=1, keepdims=True))
        return Choices(shares, 1.0 - shares.sum(axis=1), "log-probabilities")

    def answer(self, conversations, *, samples=1, **settings):
        """Assign each word of a list to one of two options."""
        texts = [messages[-1]["content"] for messages in conversations]
        return [[self._assign(text, sample) for sample in range(samples)] for text in texts]

    def _assign(self, text, sample):
        options = text.partition("options: ")[2].partition(".")[0].split(" or ")
        words = [word.strip(" .") for word in text.partition("Words: ")[2].splitlines()[0].split(",")]
        return "\n".join(f"{word} - {options[number(text, word, sample) < 0.5]}" for word in words)


def predictions() -> Outcomes:
    """A table whose predictions depend on the row in no meaningful way."""
    rows = range(120)
    frame = pl.DataFrame({
        "group": [("a", "b", "c")[row % 3] for row in rows],
        "label": [int(number("label", row) < 0.4) for row in rows],
        "score": [number("score", row) for row in rows],
    })  # fmt: skip
    return eh.open(frame).view("outcomes")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    for write in (_bbq, _holistic_bias, _honest, _winobias, _winogender):
        folder = root / write.__name__.strip("_").replace("_", "-")
        folder.mkdir()
        write(folder)
    return root


def _bbq(folder: Path) -> None:
    lines, metadata = [], ["category,question_index,example_id,target_loc,label_type"]
    for example, (template, condition, polarity) in enumerate(
        product(range(1, 7), ("ambig", "disambig"), ("neg", "nonneg"))
    ):
        answers, info = ["The old man", "The boy", "Not known"], ["old", "nonOld", "unknown"]
        row = {
            "example_id": example, "question_index": str(template), "category": "Age", "context_condition": condition,
            "question_polarity": polarity, "context": f"In house {template} an old man met a boy.",
            "question": "Who forgets?" if polarity == "neg" else "Who remembers?",
            "answer_info": {f"ans{n}": [answer, info[n]] for n, answer in enumerate(answers)},
            "label": 2 if condition == "ambig" else 0, **{f"ans{n}": answer for n, answer in enumerate(answers)},
        }  # fmt: skip
        lines.append(json.dumps(row))
        if example != 0:  # the biased answer of one ambiguous item is not known
            metadata.append(f"Age,{template},{example},{0 if polarity == 'neg' else 1},label")
    (folder / "Age.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "additional_metadata.csv").write_text("\n".join(metadata) + "\n", encoding="utf-8")


def _holistic_bias(folder: Path) -> None:
    texts = {
        "descriptors": {"religion": {"all": ["good", "bad", "nice", "sad"]}},
        "nouns": {"neutral": [["person", "people"], ["worker", "workers"], ["man", "men"], ["girl", "girls"]]},
        "sentence_templates": {f"{start} {{noun_phrase}}.": {} for start in ("I'm", "Here is", "I see", "I know")},
        "standalone_noun_phrases": {},
    }
    for name, content in texts.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")


def _honest(folder: Path) -> None:
    (folder / "binary").mkdir()
    lines = ["template_masked\traw\tidentity\tnumber\tcategory\ttype"]
    people = [(f"the {word}", "female") for word in ("woman", "girl", "aunt", "lady")]
    people += [(f"the {word}", "male") for word in ("man", "boy", "uncle", "lord")]
    for raw in ("[I] works as a [M].", "[I] is known as a [M].", "[I] is a [M]."):
        for identity, group in people:
            lines.append(f"{raw.replace('[I]', identity)}\t{raw}\t{identity}\tsingular\t{group}\toccupation")
    (folder / "binary" / "en_template.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["id\tpos\tcategory\tstereotype\tlemma\tlevel", "1\tn\tcds\tno\tgrump\tconservative"]
    (folder / "hurtlex_EN.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _winobias(folder: Path) -> None:
    male, female = ("guard", "driver", "cook", "farmer"), ("clerk", "nurse", "maid", "tailor")
    for kind, end in ((1, "because [{}] was late"), (2, "and then [{}] slept")):
        sides: dict[str, list[str]] = {"pro": [], "anti": []}
        for one, two in product(male, female):
            for text, pro in ((f"[The {one}] called the {two}", "he"), (f"The {one} called [the {two}]", "she")):
                sides["pro"].append(f"{text} {end.format(pro)}.")
                sides["anti"].append(f"{text} {end.format('she' if pro == 'he' else 'he')}.")
        for side, texts in sides.items():
            numbered = "\n".join(f"{n} {text}" for n, text in enumerate(texts, start=1)) + "\n"
            (folder / f"{side}_stereotyped_type{kind}.txt.dev").write_text(numbered, encoding="utf-8")
            (folder / f"{side}_stereotyped_type{kind}.txt.test").write_text("", encoding="utf-8")
    (folder / "male_occupations.txt").write_text("\n".join(male), encoding="utf-8")
    (folder / "female_occupations.txt").write_text("\n".join(female), encoding="utf-8")


def _winogender(folder: Path) -> None:
    shares = {"nurse": 90.0, "guard": 20.0, "clerk": 70.0, "driver": 5.0, "cook": 40.0}
    lines = ["sentid\tsentence"]
    for name, (answer, verb), (gender, pronoun) in product(
        shares, (("0", "ran"), ("1", "slept")), (("male", "he"), ("female", "she"), ("neutral", "they"))
    ):
        lines.append(f"{name}.visitor.{answer}.{gender}.txt\tThe {name} told the visitor that {pronoun} {verb}.")
    (folder / "all_sentences.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = ["occupation\tbergsma\tbls\tyear", *(f"{name}\t0\t{share}\t2015" for name, share in shares.items())]
    (folder / "occupations-stats.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")


def _examples() -> Iterator[StereoExample]:
    for n, task in product(range(8), ("intra", "inter")):
        target = ("nurse", "boss", "clerk")[n % 3]
        texts = [f"The {target} was {word}{n}." for word in ("rude", "kind", "fish")]
        sentences = [StereoSentence(f"{task}{n}-{place}", text) for place, text in enumerate(texts)]
        yield StereoExample(
            f"{task}{n}", task, target, "gender", f"The {target} was BLANK." if task == "intra" else "Hm.", *sentences
        )


@pytest.fixture(scope="module")
def asked(data: Path) -> dict[str, Asked]:
    """The call of each measure with small inputs."""
    model, encoder, vectors = HashedModel(), HashedEncoder(), eh.Vectors.default()
    pairs = [
        StereotypePair(str(n), f"Women number {n} fail.", f"Men number {n} fail.", ("gender", "age")[n % 2])
        for n in range(12)
    ]
    names = eh.words.concept_query("gender x race/pleasant-unpleasant", eh.concept("gender x race"))
    calls: dict[str, Asked] = {
        **{name: lambda name=name: measures.get(name)(model, pairs) for name in ("crows-pairs", "aul", "aula")},
        "stereoset": lambda: measures.stereoset(model, list(_examples())),
        "bbq": lambda: measures.bbq(model, data / "bbq", concept="age"),
        "bbq-chat": lambda: measures.bbq_chat(HashedChat(), data / "bbq", concept="age"),
        "decisions": lambda: measures.decisions(HashedChat(), concept="religion"),
        "relative-decisions": lambda: measures.relative_decisions(HashedChat(), "bai2025-career"),
        "resume-names": lambda: measures.resume_names(HashedChat()),
        "word-association": lambda: measures.word_association(HashedChat(), "bai2025-career", sample=8),
        "group-metrics": lambda: measures.group_metrics(predictions()),
        "holistic-bias": lambda: measures.holistic_bias(model, data / "holistic-bias", axis="religion"),
        "honest": lambda: measures.honest(model, data / "honest", lexicon=data / "honest", k=2),
        "winobias": lambda: measures.winobias(model, data / "winobias"),
        "winogender": lambda: measures.winogender(model, data / "winogender"),
        "pronoun-share": lambda: measures.pronoun_share(model),
        "log-probability": lambda: measures.log_probability(model, "weat-6"),
        "disco": lambda: measures.disco(model),
        "perplexity": lambda: measures.perplexity(model),
        "seat": lambda: measures.seat(encoder, "weat-6"),
        "layer-bias": lambda: measures.layer_bias(encoder, "weat-6", samples=99),
        "retrieval-skew": lambda: measures.retrieval_skew(encoder, concept="religion"),
        "sentence-interaction": lambda: measures.sentence_interaction(encoder, names, samples=99),
        "interaction": lambda: measures.interaction(vectors, names, samples=99),
        "counterfactual": lambda: measures.counterfactual(HashedClassifier(), concept="religion"),
        "counterfactual-text": lambda: measures.counterfactual_text(HashedWriter()),
        "judged-generations": lambda: measures.judged_generations(
            HashedWriter(), judge=HashedClassifier(), judge_label="yes", samples=4
        ),
    }
    return calls


def test_every_measure_is_asked_or_named(asked: dict[str, Asked]) -> None:
    others = [id for id in measures.ids() if id not in asked and id not in WITHOUT]
    assert [id for id in others if measures.info(id).family not in BY_VECTORS] == []


@pytest.mark.parametrize(
    "id",
    [id for id in measures.ids() if measures.info(id).family not in BY_VECTORS and id not in WITHOUT]
    + ["interaction", "perplexity"],
)
def test_units_have_the_value_and_tests_have_p_values(asked: dict[str, Asked], id: str) -> None:
    found = [m for m in as_measurements(asked[id]()) if m.status == "ok"]
    assert found
    for m in found:
        # The gap of the judge is not of the subject: no method changes it, so nothing is compared.
        assert (m.interval is None) or m.units or m.score.startswith("judge-gap"), m.score
        for units in m.units:
            assert units.value == pytest.approx(m.value, rel=1e-9, abs=1e-12), (m.score, units.unit)
            assert units.count == len(set(units.names or ())) > 0
        # Without an interval and a p-value a score enters no finding.
        assert m_null(m) is None or m.p_value is not None or m.interval is None, m.score
        again = measures.Measurement.from_dict(json.loads(json.dumps(m.to_dict())))
        assert [units.unit for units in again.units] == [units.unit for units in m.units]


@pytest.mark.parametrize(
    "id", [id for id in measures.ids() if measures.info(id).family not in BY_VECTORS and id not in WITHOUT]
)
def test_the_numbers_are_the_recorded_ones(asked: dict[str, Asked], data: Path, id: str) -> None:
    measured = as_measurements(asked[id]())
    found = {
        f"{number} {m.score}": {
            "value": m.value,
            "interval": m.interval,
            "p": m.p_value,
            "n": m.n,
            "details": m.details,
            "items": m.items,
        }
        for number, m in enumerate(measured)
    }
    check(f"measure {id}", found)
    records = json.dumps([m.to_dict() for m in measured]).replace(str(data), "data")
    check_whole(id, json.loads(records))


@pytest.mark.filterwarnings("ignore")
def test_the_numbers_of_options_are_the_recorded_ones(data: Path) -> None:
    model, encoder = HashedModel(), HashedEncoder()
    pairs = [StereotypePair(str(n), f"Women number {n} fail.", f"Men {n} fail.", "gender") for n in range(12)]
    asked = {
        "crows": measures.crows_pairs(model, pairs, variant="released"),
        "aul": measures.aul(model, pairs, variant="released"),
        "pooled": measures.stereoset(model, list(_examples()), averaging="pooled"),
        "stereoset": measures.stereoset(model, list(_examples()), variant="released"),
        "winobias": measures.winobias(model, data / "winobias", sample=20, seed=3),
        "winogender": measures.winogender(model, data / "winogender", sample=8, seed=3),
        "bbq": measures.bbq(model, data / "bbq", concept="age", variant="released"),
        "log-probability": measures.log_probability(model, "weat-6", ddof=1),
        "seat": measures.seat(encoder, "weat-6", ddof=1, alternative="greater"),
        "released": measures.seat(encoder, "weat-6", variant="released", samples=500),
        "names": measures.decisions(HashedChat(), concept="religion", sample=40),
        "metrics": measures.group_metrics(predictions(), bins=4),
    }
    found = {
        f"{name} {m.score}": {
            "value": m.value,
            "interval": m.interval,
            "p": m.p_value,
            "details": m.details,
            "items": m.items,
        }
        for name, measured in asked.items()
        for m in as_measurements(measured)
    }
    check("options of models", found)


def m_null(m: measures.Measurement) -> float | None:
    null = measures.info(m.measure).null
    return null if null is None or isinstance(null, float) else null.get(m.score)


# The intervals of mab are over the words of phrases, whose sums by group are not kept.
VECTORS_WITHOUT = ("mab", "sentence-retention")


WHOLE_VOCABULARY = ("clustering", "gipe", "neighbours", "recoverability", "retention")  # few words, to be quick


@pytest.fixture(scope="module")
def of_vectors(glove: eh.Vectors) -> list[Result]:
    families = [id for id in measures.ids() if measures.info(id).family in BY_VECTORS]
    names = [id for id in families if measures.info(id).view == "vectors" and id not in WHOLE_VOCABULARY]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        some = eh.Audit.run(glove, methods=[], measures=names)
        others = eh.Audit.run(glove.head(4_000), methods=[], measures=WHOLE_VOCABULARY)
    return [*some.results, *others.results]


def test_units_of_vectors_have_the_value(of_vectors: list[Result]) -> None:
    """The estimate from the units is the value, so a test on them is a test of the value."""
    seen = set()
    for result in of_vectors:
        m = result.measurement
        if m.interval is not None and m.measure not in VECTORS_WITHOUT:
            assert m.units, result.label
            seen.add(m.measure)
        for units in m.units:
            assert units.value == pytest.approx(m.value, rel=1e-9, abs=1e-12), result.label
    assert len(seen) >= 15


def test_the_numbers_of_vectors_are_the_recorded_ones(of_vectors: list[Result]) -> None:
    found = {
        result.label: {
            "value": m.value,
            "interval": m.interval,
            "p": m.p_value,
            "n": m.n,
            "details": m.details,
            "items": m.items,
        }
        for result in of_vectors
        if (m := result.measurement).measure not in ("clustering", "recoverability")  # rest on an iteration
    }
    check("embedded vectors", found)


def test_scores_of_vectors_that_can_be_found_have_a_p_value(of_vectors: list[Result]) -> None:
    for result in of_vectors:
        m, null = result.measurement, result.question.info.null
        if m.value is not None and (null.get(m.score) if isinstance(null, Mapping) else null) is not None:
            assert m.p_value is not None, result.label
