"""The public contract of the design: every name that other people's scripts rely on is imported and called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh

MEASURES = """weat ripa rnd rnsb mac ect same generalised-weat direct-bias indirect-bias midb clustering recoverability
neighbours proximity-bias gipe sembias occupation-share similarity analogy retention nli-neutrality nli-gap mab seat
crows-pairs stereoset log-probability pronoun-share winobias winogender bbq honest retrieval-skew counterfactual
corpus-bias perplexity"""
METHODS = """linear span hard soft double-hard misp inlp leace rlace oscar bam hsr ran gp gn-glove sentence-debias cda
self-debias dropout"""
PROBES = "gender-occupation nationality-polarity religion-polarity mab-explicit mab-names mab-occupations"


@pytest.mark.parametrize("name", MEASURES.split())
def test_measures_keep_their_ids(name: str) -> None:
    assert eh.measures.get(name) is getattr(eh.measures, name.replace("-", "_"))


@pytest.mark.parametrize("name", METHODS.split())
def test_methods_keep_their_ids(name: str) -> None:
    assert callable(eh.mitigations.get(name).fit)


@pytest.mark.parametrize("name", PROBES.split())
def test_probes_keep_their_ids(name: str) -> None:
    from evenhand.words import probes

    assert name in probes.ids()


@pytest.mark.parametrize("name", ["gender", "nationality", "religion", "race", "age"])
def test_concepts_keep_their_ids(name: str) -> None:
    assert eh.concept(name).name == name


def test_vectors(tmp_path: Path) -> None:
    v = eh.Vectors(["he", "she", "nurse"], np.eye(3, dtype=np.float32))
    assert v["nurse"].tolist() == [0, 0, 1]
    assert "nurse" in v
    assert (len(v), v.dim, list(v.words), v.matrix.shape) == (3, 3, ["he", "she", "nurse"], (3, 3))
    v.save(tmp_path / "v.vec")
    assert eh.Vectors.load(tmp_path / "v.vec").words == v.words


def test_the_default_vectors_have_neighbours(glove: eh.Vectors) -> None:
    assert len(glove.most_similar("nurse", k=10)) == 10


def test_words_of_ones_own() -> None:
    mine = eh.Concept(name="mine", groups={"a": ["x"], "b": ["y"]}, pairs=[("x", "y")])
    assert list(mine.groups) == ["a", "b"]
    assert eh.query("weat-6").name == "weat-6"
    assert eh.Query(targets=(["a", "b"], ["c", "d"]), attributes=(["e"], ["f"])) is not None


def test_measurements(glove: eh.Vectors) -> None:
    m = eh.measures.weat(glove, eh.query("weat-6"), seed=0)
    assert m.value == pytest.approx(1.77, abs=0.01)
    assert m.interval[0] < m.value < m.interval[1] + 1e-9
    assert m.p_value < 0.05
    assert (m.n > 0, m.status) == (True, "ok")
    assert m.coverage
    assert m.items
    assert isinstance(m.params, dict)
    assert m.to_dict()["value"] == m.value
    s = eh.subspaces.pairs(glove, eh.concept("gender").pairs, k=1, centre=False, normalise=False)
    assert s.basis.shape == (1, glove.dim)
    assert len(s.strength)
    assert len(s.explained)
    assert eh.measures.direct_bias(glove, ["nurse", "engineer", "teacher"], subspace=s, c=1).value > 0
    assert eh.measures.indirect_bias(glove, [("nurse", "teacher")], subspace=s).value is not None


def test_maps(glove: eh.Vectors, tmp_path: Path) -> None:
    c = eh.concept("gender")
    vm = eh.mitigations.LinearProjection().fit(glove, c)
    w = vm(glove)
    assert len(w) == len(glove)
    twice = vm @ vm
    assert np.allclose(twice(glove).matrix[:50], w.matrix[:50], atol=1e-5)
    vm.save(tmp_path / "map.safetensors")
    assert np.array_equal(eh.VectorMap.load(tmp_path / "map.safetensors")(glove).matrix[:50], w.matrix[:50])
    assert eh.mitigations.get("hard")().fit(glove, c)(glove).dim == glove.dim


def test_probe_results() -> None:
    r = eh.probe(eh.open("embedded").view("inference").members[0], "gender-occupation", sample=200, seed=0)
    assert 0 <= r.neutrality.fraction_neutral.value <= 1
    assert {"n_pairs", "net_neutral", "fraction_neutral", "threshold"} <= set(r.to_dict())
    assert r.by_word
    assert len(r.top("entailment", 3)) == 3


def test_corpora(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    counts = {"she is a nurse": 30, "he is a nurse": 10, "he is an engineer": 30, "she is an engineer": 10}
    text.write_text("".join(f"{line}\n" * count for line, count in counts.items()), encoding="utf-8")
    groups = {"female": ["she"], "male": ["he"]}
    b = eh.corpus.bias(
        [text], groups=groups, window=10, tokenizer="whitespace", documents="line", stop_words=(), min_count=1
    )
    assert b.scores["nurse"] > 0 > b.scores["engineer"]
    assert np.isfinite([b.mu, b.sigma]).all()
    assert b.beta(b) is not None
    assert eh.corpus.bias([text], groups=groups, decay=0.95).scores["nurse"] > 0


@pytest.mark.filterwarnings("ignore::evenhand.errors.EvenhandWarning")  # of the tiny tokenizer and of single queries
def test_subjects_and_audits(tiny_folder: Callable[..., Path], glove: eh.Vectors, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    s = eh.open(f"hf:{tiny_folder('BertForMaskedLM')}")
    assert (bool(s.name), bool(s.kind), len(s.digest) > 20, "likelihood" in s.offers) == (True, True, True, True)
    t = eh.mitigations.get("linear")(site="embeddings").fit(s, eh.concept("gender"))(s)
    t.save(tmp_path / "out")
    assert "likelihood" in eh.open(f"hf:{tmp_path / 'out'}").offers
    assert eh.open(glove).view("vectors") is glove
    a = eh.Audit.run(glove, methods=["linear"], measures=["weat"], queries=["weat-6"], concept="gender", seed=0)
    a.save(tmp_path / "run")
    assert eh.Audit.load(tmp_path / "run").results[0].measurement.value == a.results[0].measurement.value
    a.to_html(tmp_path / "page.html")
    assert "weat" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert len(a.to_frame()) == len(a.results)
