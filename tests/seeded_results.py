"""Print the results of seeded functions as JSON: `python tests/seeded_results.py PART...`; see test_determinism.py.

Each part returns names and results. Numbers are printed in full, arrays and maps as digests.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import evenhand as eh
from evenhand import stats

Results = dict[str, Any]

# Parameters that make a method quick; under the others the seed decides the result.
PARAMS: dict[str, dict[str, object]] = {
    "gp": {"epochs": 1, "head_epochs": 1, "joint_epochs": 1},
    "inlp": {"iterations": 2, "neutral": 40},
    "leace": {"per_class": 100, "neutral": 40},
    "ran": {"steps": 5},
    "rlace": {"steps": 25},
    "misp": {"lists": "groups"},
}
COSTLY_METHODS = ("gp", "double-hard", "ran", "rlace", "hsr", "inlp")
FEW_MEASURES = ("weat", "ripa", "ect", "generalised-weat")


def digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


@cache
def vectors() -> eh.Vectors:
    gender = eh.concept("gender")
    words = {word for group in (*gender.groups.values(), *gender.names.values()) for word in group}
    words |= {word for pair in (*gender.pairs, *gender.equalize) for word in pair}
    for name in ("bolukbasi2016-professions", "gp-stereotype-female", "gp-stereotype-male", "gp-neutral"):
        words |= set(eh.words.wordset(name))
    words |= set(eh.query("weat-6").words) | set(eh.query("weat-8").words)
    whole = eh.Vectors.default()
    return whole.restrict(sorted(word for word in words if word in whole))


def rows(audit: eh.Audit) -> Results:
    return {
        f"{result.label} @ {result.stage}": [
            result.measurement.value, result.measurement.interval, result.measurement.p_value,
        ]
        for result in audit.results
    }  # fmt: skip


def statistics() -> Results:
    """Every function of `evenhand.stats` with a seed."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 30))
    labels = [f"word {number % 7}" for number in range(30)]
    calls: dict[str, Callable[[], Any]] = {
        "bca_interval": lambda: stats.bca_interval(lambda rows: x[rows].mean(axis=1), 30, seed=3),
        "cluster_weights": lambda: digest(stats.cluster_weights([labels], seed=3)[0]),
        "clustered_means": lambda: digest(stats.clustered_means(x, [labels], seed=3)),
        "clustered_sums": lambda: digest(stats.clustered_sums(x[:, None], [labels], seed=3)),
        "correlation_p": lambda: stats.correlation_p(x, y, seed=3),
        "interaction_test": lambda: stats.interaction_test(x.reshape(2, 3, 5), seed=3).p_value,
        "percentile_interval": lambda: stats.percentile_interval(lambda rows: x[rows].mean(axis=1), 30, seed=3),
        "permutation_test": lambda: stats.permutation_test(x, y, seed=3).p_value,
        "resamples": lambda: digest(stats.resamples(30, seed=3)),
        "spearman": lambda: stats.spearman(x, y, seed=3).interval,
        "theil_sen": lambda: stats.theil_sen(x, y, pairs_at_most=50, seed=3).interval,
    }
    seeded = {name for name in stats.__all__ if "seed" in _parameters(getattr(stats, name))}
    if seeded != calls.keys():
        raise SystemExit(f"functions of evenhand.stats with a seed that are not compared: {seeded ^ calls.keys()}")
    return {name: call() for name, call in calls.items()}


def _parameters(function: object) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters) if callable(function) else ()


def _fitted(names: list[str]) -> Results:
    return {
        name: eh.mitigations.get(name)(**PARAMS.get(name, {})).fit(vectors(), "gender", seed=3).digest for name in names
    }


def _methods() -> list[str]:
    return [name for name in eh.mitigations.ids("vectors") if name not in {"gn-glove"}]  # trained from counts


def quick_methods() -> Results:
    """Methods on vectors that take milliseconds."""
    return _fitted([name for name in _methods() if name not in COSTLY_METHODS])


def costly_methods() -> Results:
    """The other methods on vectors, and GloVe and GN-GloVe from counts."""
    from evenhand.corpus import cooccurrence
    from evenhand.corpus.readers import Texts
    from evenhand.mitigations.training.glove import glove

    texts = [
        f"she is a {a} and he is a {b}" for a, b in zip(vectors().words[:80], vectors().words[80:160], strict=True)
    ]
    counts = cooccurrence(Texts(texts * 3), window=5, min_count=1)
    return {**_fitted(list(COSTLY_METHODS)), "glove": digest(glove(counts, 5, epochs=2, seed=3).matrix)}


def few_measures() -> Results:
    """A few measures on vectors, before and after a method."""
    return rows(eh.Audit.run(vectors(), methods=["linear"], measures=list(FEW_MEASURES), seed=3))


def all_measures() -> Results:
    """Every measure on vectors, before and after two methods."""
    measures = [name for name in eh.measures.ids() if eh.measures.info(name).view == "vectors"]
    return rows(eh.Audit.run(vectors(), methods=["double-hard", "random"], measures=measures, seed=3))


def texts() -> Results:
    """Bias in a text, samples of probes, and counterfactual texts."""
    from evenhand.corpus.readers import Texts
    from evenhand.words.probes import probe
    from evenhand.words.probes.dataset import stratified

    words = vectors().words
    lines = [f"she is a {a} and he is a {b}" for a, b in zip(words[:80], words[80:160], strict=True)]
    bias = eh.corpus.bias(Texts(lines * 3), bootstrap=20, permutations=3, seed=3).to_dict()
    bias.pop("seconds", None)
    sample = stratified(probe("gender-occupation"), 200, seed=3)
    swap = eh.mitigations.get("cda")().fit(None, "gender")
    return {
        "corpus": json.loads(json.dumps(bias, default=str)),
        "probe sample": [digest(part) for part in sample.points],
        "cda": [swap.digest, swap("She told John that the nurse saw her.")],
    }


def models() -> Results:
    """Every measure that tiny encoders, language models, classifiers and the embedded NLI model offer a view for."""
    from tiny_transformers import save_tiny

    found: Results = {}
    with tempfile.TemporaryDirectory() as place:
        for name in ("BertForMaskedLM", "GPT2LMHeadModel", "BertForSequenceClassification"):
            labels = {"id2label": {0: "bad", 1: "good"}} if "Classification" in name else {}
            subject = eh.open(f"hf:{save_tiny(Path(place) / name, name, **labels)}")
            audit = eh.Audit.run(subject, methods=[], seed=3)
            found |= {f"{name}: {row}": values for row, values in rows(audit).items()}
    return found


def training() -> Results:
    """Continued training of a language model: plain, with counterfactual texts, and with more dropout."""
    from tiny_transformers import save_tiny

    found: Results = {}
    with tempfile.TemporaryDirectory() as place:
        text = Path(place) / "text.txt"
        text.write_text("\n".join(["she told the nurse", "he is a doctor", "the girl was here"] * 20), encoding="utf-8")
        subject = eh.open(f"hf:{save_tiny(Path(place) / 'model', 'BertForMaskedLM')}")
        options = {"steps": 6, "tokens": 128, "block": 16, "device": "cpu", "text": str(text)}
        for name in ("fine-tuning", "cda-tuning", "dropout-tuning"):
            changed = subject.changed(eh.mitigations.get(name)(**options).fit(subject, "gender", seed=3))
            found[name] = digest(changed.view("vectors").matrix)
    return found


PARTS: dict[str, Callable[[], Results]] = {
    part.__name__: part
    for part in (statistics, quick_methods, costly_methods, few_measures, all_measures, texts, models, training)
}


def results(parts: list[str]) -> Results:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {f"{name}: {key}": value for name in parts for key, value in PARTS[name]().items()}
    return dict(json.loads(json.dumps(found, sort_keys=True)))


if __name__ == "__main__":
    print(json.dumps(results(sys.argv[1:])))  # noqa: T201
