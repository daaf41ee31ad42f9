"""Decomposable attention: factorised equals plain equals torch; its file; lost words."""

import json
import struct

import numpy as np
import pytest
from safetensors import safe_open

import evenhand as eh
from evenhand.errors import FormatError, InputMissingError, UsageError, VocabularyError
from evenhand.measures.inference import probe as run
from evenhand.models.nli import LABELS, DecomposableAttention, load
from evenhand.models.nli.backend import backend as ready
from evenhand.models.nli.decomposable import random_arrays
from evenhand.models.nli.over_vectors import ModelOverVectors
from evenhand.models.nli.protocol import predict_points
from evenhand.words.probes import RELEASED, Filler, Probe, probe
from evenhand.words.template import Template

WORDS = [
    "the",
    "a",
    "an",
    ".",
    "person",
    "nurse",
    "actor",
    "doctor",
    "man",
    "woman",
    "girl",
    "she",
    "he",
    "emma",
    "bought",
    "budgeted",
    "for",
    "met",
    "spoke",
    "to",
    "apron",
    "suv",
    "urchin",
    "headphones",
    "vice-president",
    "rude",
    "iraqi",
    "thai",
    "jew",
    "nobody",
    "said",
    "that",
    "slept",
]


def vectors(words=WORDS, dim=12, seed=1):
    return eh.Vectors(words, np.random.default_rng(seed).normal(0, 1, (len(words), dim)))


def model(hidden=16, seed=0, backend="numpy", **options):
    return DecomposableAttention(random_arrays(12, hidden, seed=seed), vectors(), device=backend, **options)


PHRASES = {"verb": ["bought", "budgeted for", "met", "spoke to"], "object": ["apron", "SUV", "headphones", "urchin"]}
TEMPLATE = Template("t", "The {subject} {verb} a/an {object}.", PHRASES)
NOUNS = tuple(map(Filler, ("nurse", "actor", "doctor")))
GENDERED = tuple(map(Filler, ("man", "woman", "girl")))
POLARITY = tuple(Filler(word, "{word} person") for word in ("rude", "nobody"))
MIXED = (Filler("man"), Filler("She", bare=True), Filler("thai", "{word} person"), Filler("Emma", bare=True))
PROBES = {
    "one word": Probe("one", (TEMPLATE,), NOUNS, GENDERED),
    "one premise": Probe("person", (TEMPLATE,), (Filler("person"),), GENDERED),
    "two words": Probe(
        "two", (TEMPLATE,), POLARITY, tuple(Filler(w, "{word} person") for w in ("iraqi", "thai", "jew"))
    ),
    "a/an": Probe("a", (TEMPLATE,), NOUNS, GENDERED).with_surface(RELEASED),
    "mixed lengths": Probe("mixed", (TEMPLATE,), (*NOUNS, *POLARITY), MIXED).with_surface(determiner="A/An"),
    "unknown words": Probe("lost", (TEMPLATE,), (*NOUNS, Filler("zyzzyva")), (*GENDERED, Filler("qwx"))),
    "slot inside": Probe("inside", (TEMPLATE, Template("s", "She said that the {subject} slept")), NOUNS, GENDERED),
    "same subject": Probe("same", (TEMPLATE,), GENDERED, GENDERED),
    "part of the other": Probe("part", (TEMPLATE,), (Filler("person"),), POLARITY),
    "joined to the slot": Probe("joined", (Template("j", "The {subject}'s apron"),), NOUNS, GENDERED),
    "several words": Probe("several", (TEMPLATE,), (Filler("rude nurse girl"),), (Filler("thai man"), Filler("emma"))),
    "nothing shared": Probe("bare", (Template("b", "{subject}"),), NOUNS, GENDERED),
}


def factorised(asker, asked):
    found = np.full((*asked.shape, 3), np.nan, np.float32)
    for grid in asker.grids(asked):
        found[grid.phrases] = grid.probabilities
    return found


def plain(asker, asked):
    return predict_points(asker, asked, asked.points(0, asked.n_pairs)).reshape(*asked.shape, 3)


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("backend", ["numpy", "torch"])
def test_factorised_equals_pair_by_pair(name, backend):
    if backend == "torch":
        pytest.importorskip("torch")
    asker = model(backend=backend)
    found = factorised(asker, PROBES[name])
    assert np.abs(found - plain(asker, PROBES[name])).max() < 1e-5
    assert found.std(axis=(0, 1, 2)).min() > 1e-4  # answers that do not vary would agree by themselves


@pytest.mark.parametrize("name", PROBES)
def test_attention_that_is_all_but_certain(name):
    """Exponents far beyond single precision, several of them in one softmax where subjects have several words."""
    arrays = random_arrays(12, 16)
    asker = DecomposableAttention({**arrays, "attend.1.weight": 30 * arrays["attend.1.weight"]}, vectors())
    assert np.abs(factorised(asker, PROBES[name]) - plain(asker, PROBES[name])).max() < 1e-4


@pytest.mark.parametrize("name", PROBES)
def test_numpy_equals_torch(name):
    pytest.importorskip("torch")
    ours, theirs = (factorised(model(backend=backend), PROBES[name]) for backend in ("numpy", "torch"))
    assert np.abs(ours - theirs).max() < 1e-6


def test_the_shipped_probes_on_the_embedded_vectors(glove):
    asker = DecomposableAttention(random_arrays(100, 24), glove)
    for name in ("gender-occupation", "religion-polarity", "mab-names"):
        asked = probe(name)
        few = asked.restrict([f.word for f in asked.premise][:5], object=["SUV", "grown-up", "headphones"])
        assert np.abs(factorised(asker, few) - plain(asker, few)).max() < 1e-5


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize(("pairs", "fillers"), [(1, 2), (4, 512), (7, 2)])
def test_block_sizes_make_no_difference(monkeypatch, name, pairs, fillers):
    whole = factorised(model(workers=1), PROBES[name])
    monkeypatch.setattr("evenhand.models.nli.decomposable.PAIRS_IN_GRID", 1)
    monkeypatch.setattr("evenhand.models.nli.factorised.FILLERS_AT_ONCE", fillers)
    asker = model(workers=1)
    object.__setattr__(asker.backend, "pairs_at_once", pairs)
    assert np.abs(factorised(asker, PROBES[name]) - whole).max() < 1e-6


@pytest.mark.parametrize("name", ["one word", "mixed lengths", "several words"])
def test_the_number_of_threads_changes_no_bit(monkeypatch, name):
    monkeypatch.setattr("evenhand.models.nli.decomposable.PAIRS_IN_GRID", 1)
    one, *others = (factorised(model(workers=workers), PROBES[name]) for workers in (1, 2, 3, 2))
    for other in others:
        np.testing.assert_array_equal(other, one)


def test_attention_by_hand():
    """One token on each side: the softmax over a single token is 1, whatever the scores."""
    asker = model()
    w = asker.arrays

    def network(name, x):
        for layer in (f"{name}.0", f"{name}.1"):
            x = np.maximum(w[f"{layer}.weight"] @ x + w[f"{layer}.bias"], 0)
        return x

    p, h = (w["project.weight"] @ vectors()[word] for word in ("nurse", "man"))
    v_p, v_h = network("compare", np.concatenate([p, h])), network("compare", np.concatenate([h, p]))
    logits = w["output.weight"] @ network("aggregate", np.concatenate([v_p, v_h])) + w["output.bias"]
    expected = np.exp(logits) / np.exp(logits).sum()
    assert asker.predict(["nurse"], ["man"]).matrix[0] == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("backend", ["numpy", "torch"])
@pytest.mark.parametrize("normalise", [False, True])
def test_words_that_are_computed_once_give_what_the_plain_pass_gives(backend, normalise, monkeypatch) -> None:
    if backend == "torch":
        pytest.importorskip("torch")
    asked, rng = model(backend=backend, normalise=normalise), np.random.default_rng(0)
    pairs = [[" ".join(rng.choice([*WORDS, "unheard-of"], size)) for size in rng.integers(1, 7, 40)] for _ in range(2)]
    monkeypatch.setattr("evenhand.models.nli.decomposable.BLOCKS_IN_CACHE", 500)  # blocks of two pairs
    sentences = [[np.array([asked.lookup.sentence(text)]) for text in side] for side in pairs]
    forward = ModelOverVectors._forward(asked, np.arange(len(WORDS) + len(asked.oov)))
    plain = [forward(p, h)[0] for p, h in zip(*sentences, strict=True)]
    np.testing.assert_allclose(asked.predict(*pairs).matrix, plain, atol=2e-6)
    assert np.ptp(np.array(plain), axis=0).max() > 0.05


def test_normalising_makes_lengths_of_vectors_irrelevant():
    weights = random_arrays(12, 16)
    texts = ["The nurse bought an apron."], ["The man bought an apron."]
    lengths = np.linspace(0.5, 3, len(WORDS))[:, None]
    stretched = eh.Vectors(WORDS, vectors().matrix * lengths)
    ours = DecomposableAttention(weights, vectors(), normalise=True).predict(*texts).matrix
    theirs = DecomposableAttention(weights, stretched, normalise=True).predict(*texts).matrix
    assert ours == pytest.approx(theirs, abs=1e-6)
    assert DecomposableAttention(weights, stretched).predict(*texts).matrix != pytest.approx(ours, abs=1e-4)


def test_a_lost_word_always_gets_the_same_stand_in():
    asker = model()
    texts = ["The zyzzyva slept."], ["The man slept."]
    assert np.array_equal(asker.predict(*texts).matrix, model().predict(*texts).matrix)


def test_save_and_load(tmp_path):
    path = model(lower=False, name="mine").save(tmp_path / "m.safetensors", note="x")
    back = DecomposableAttention.load(path, vectors())
    assert (back.name, back.lower, back.normalise) == ("mine", False, False)
    texts = ["The nurse slept."], ["The man slept."]
    assert np.array_equal(back.predict(*texts).matrix, model(lower=False).predict(*texts).matrix)
    half = model().save(tmp_path / "h.safetensors", dtype="float16")
    assert half.stat().st_size < 0.7 * path.stat().st_size
    assert DecomposableAttention.load(half, vectors()).predict(*texts).matrix == pytest.approx(
        model().predict(*texts).matrix, abs=0.01
    )


def test_files_that_are_no_model(tmp_path):
    from safetensors.numpy import save_file

    with pytest.raises(InputMissingError, match="model file"):
        DecomposableAttention.load(tmp_path / "none.safetensors", vectors())
    (tmp_path / "text.safetensors").write_text("hello")
    with pytest.raises(FormatError, match=r"text\.safetensors"):
        DecomposableAttention.load(tmp_path / "text.safetensors", vectors())
    save_file({"x": np.zeros(3)}, tmp_path / "other.safetensors")
    with pytest.raises(FormatError, match="not an evenhand NLI model"):
        DecomposableAttention.load(tmp_path / "other.safetensors", vectors())


def test_weights_that_do_not_fit():
    arrays = random_arrays(12, 16)
    with pytest.raises(FormatError, match=r"output\.bias"):
        DecomposableAttention({name: array for name, array in arrays.items() if name != "output.bias"}, vectors())
    with pytest.raises(FormatError, match=r"compare\.0\.weight.*\(16, 16\)"):
        DecomposableAttention({**arrays, "compare.0.weight": np.zeros((16, 16))}, vectors())
    with pytest.raises(FormatError, match="NaN"):
        DecomposableAttention({**arrays, "attend.0.bias": np.full(16, np.nan)}, vectors())
    with pytest.raises(FormatError, match=r"project\.weight.*2 axes"):
        DecomposableAttention({**arrays, "project.weight": np.zeros(16)}, vectors())
    with pytest.raises(FormatError, match=r"'oov' has the shape \(0, 12\)"):
        DecomposableAttention({**arrays, "oov": np.zeros((0, 12))}, vectors())
    with pytest.raises(UsageError, match="dimension 12"):
        DecomposableAttention(random_arrays(12, 16), eh.Vectors(["a"], [[1.0, 2.0]]))
    with pytest.raises(UsageError, match="unknown backend"):
        ready("jax")
    with pytest.raises(UsageError, match="empty sentence"):
        model().predict([""], ["x"])


@pytest.mark.parametrize("device", ["nowhere", "cuda:99"])
def test_a_device_that_is_not_here(device):
    pytest.importorskip("torch")
    with pytest.raises(UsageError, match=device) as caught:
        model(backend=f"torch:{device}")
    assert "auto" in caught.value.hint


def test_products_are_whole_single_precision():
    """TF32 would change every probability on a GPU in the third digit."""
    torch = pytest.importorskip("torch")
    model(backend="torch").predict(["the nurse slept ."], ["the man slept ."])
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32


def test_lost_fillers_are_left_out_and_counted():
    asked = PROBES["one word"]
    extra = Probe(
        "extra", asked.templates, (*NOUNS, Filler("person"), Filler("nobody"), Filler("zyzzyva")), asked.hypothesis
    )
    found = run(model(), extra, controls=False)
    assert found.coverage.missing == ("zyzzyva",)
    assert found.n_pairs == 16 * 5 * 3
    assert "zyzzyva" not in {row["word"] for row in found.by_word}


def test_too_many_lost_fillers_are_refused_unless_forced():
    asked = PROBES["unknown words"]
    with pytest.raises(VocabularyError, match=r"1 of 4 premise fillers.*zyzzyva") as caught:
        run(model(), asked, controls=False)
    assert "force" in str(caught.value)
    assert run(model(), asked, controls=False, force=True).n_pairs == 16 * 3 * 3
    nothing = Probe("none", (TEMPLATE,), (Filler("zyzzyva"),), GENDERED)
    with pytest.raises(VocabularyError, match="1 of 1"):
        run(model(), nothing, controls=False, force=True)


def saved(tmp_path, *, config=None, metadata=None, **changes):
    """A model file with other metadata or tensors than `save` writes."""
    from safetensors.numpy import save

    settings = {"lower": True, "normalise": False, "name": "m"} | (config or {})
    about = {"format": 1, "kind": "decomposable-attention", "labels": list(LABELS), "config": settings}
    text = metadata if metadata is not None else json.dumps(about | changes)
    path = tmp_path / "model.safetensors"
    arrays = {name: np.asarray(array, np.float32) for name, array in random_arrays(12, 16).items()}
    path.write_bytes(save(arrays, metadata={"evenhand-nli": text}))
    return path


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"metadata": "[" * 50_000}, "nested too deeply|not valid JSON"),
        ({"metadata": "[1]"}, "not a JSON object"),
        ({"metadata": '{"format": 1%s}' % ("0" * 5000)}, "not valid JSON"),
        ({"metadata": "{}"}, "lacks format, kind, labels, config"),
        ({"config": {"name": "\ud800"}}, "not valid JSON"),
        ({"config": {"words": "x"}}, "not a description of vectors"),
        ({"config": {"words": {"history": "x"}}}, "not a description of vectors"),
        ({"config": {"words": {"history": ["x"]}}}, "not a description of vectors"),
        ({"config": {"lower": "no"}}, "lower is 'no', not true or false"),
        ({"kind": ["x"]}, "unknown kind|expected"),
        ({"labels": 3}, "with the labels 3"),
        ({"format": 2}, "of format 2"),
    ],
)
def test_hostile_metadata_are_format_errors(tmp_path, changes, match):
    path = saved(tmp_path, **changes)
    with pytest.raises(FormatError, match=match) as caught:
        load(path, vectors(), device="numpy")
    assert "model.safetensors" in str(caught.value)


def raw_safetensors(path, dtype, width):
    """One tensor of a type that numpy may not know, with the metadata of a model."""
    about = {"format": 1, "kind": "decomposable-attention", "labels": list(LABELS), "config": {"lower": True}}
    tensor = {"dtype": dtype, "shape": [4], "data_offsets": [0, 4 * width]}
    header = json.dumps({"__metadata__": {"evenhand-nli": json.dumps(about)}, "oov": tensor}).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(4 * width))
    return path


@pytest.mark.parametrize(("dtype", "width"), [("F8_E4M3", 1), ("I64", 8), ("BOOL", 1)])
def test_odd_tensor_types_are_named(tmp_path, dtype, width):
    with pytest.raises(FormatError, match=f"stored as {dtype}"):
        load(raw_safetensors(tmp_path / "m.safetensors", dtype, width), vectors(), device="numpy")


def test_bfloat16_models_are_read(tmp_path):
    torch = pytest.importorskip("torch")
    from safetensors.torch import save_file

    weights = random_arrays(12, 16)
    whole = DecomposableAttention(weights, vectors())
    whole.save(tmp_path / "float32.safetensors")
    with safe_open(tmp_path / "float32.safetensors", framework="numpy") as file:
        metadata = file.metadata()
    tensors = {name: torch.tensor(np.array(array)).bfloat16() for name, array in weights.items()}
    save_file(tensors, tmp_path / "bfloat16.safetensors", metadata=metadata)
    short = load(tmp_path / "bfloat16.safetensors", vectors(), device="numpy")
    assert short.arrays["project.weight"] == pytest.approx(weights["project.weight"], rel=0.01)
    assert short.arrays["project.weight"].dtype == np.float32
