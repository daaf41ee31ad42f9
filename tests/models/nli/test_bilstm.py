"""The BiLSTM model: against torch's own LSTM, factorised against pair by pair, its file, its training network."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand as eh
from evenhand.errors import FormatError, InputMissingError, UsageError
from evenhand.measures.inference import probe as run
from evenhand.models.nli import BiLSTM, DecomposableAttention, GridModel, NLIModel, load
from evenhand.models.nli import factorised as recurrent
from evenhand.models.nli.backend import backend
from evenhand.models.nli.bilstm import random_arrays
from evenhand.models.nli.decomposable import random_arrays as decomposable_arrays
from evenhand.models.nli.over_vectors import backend_name
from evenhand.models.nli.protocol import predict_points
from evenhand.words.probes import RELEASED, Filler, Probe, probe
from evenhand.words.template import Template

torch = pytest.importorskip("torch")

DIM, HIDDEN = 10, 12
NOUNS_AND_NAMES = ["nurse", "actor", "man", "woman", "girl", "person", "she", "emma", "apron", "suv"]
WORDS = ["the", "a", "an", ".", *NOUNS_AND_NAMES, "rude", "iraqi", "bought", "met", "budgeted", "for", "slept"]


def vectors(words=WORDS, dim=DIM, seed=1):
    return eh.Vectors(words, np.random.default_rng(seed).normal(0, 1, (len(words), dim)))


def model(seed=0, null=True, **options):
    arrays = random_arrays(DIM, HIDDEN, seed=seed)
    kept = {name: array for name, array in arrays.items() if null or name != "null"}
    return BiLSTM(kept, vectors(), **options)


PHRASES = {"verb": ["bought", "budgeted for", "met"], "object": ["apron", "SUV", "nurse"]}
TEMPLATE = Template("t", "The {subject} {verb} a/an {object}.", PHRASES)
NOUNS = tuple(map(Filler, ("nurse", "actor", "person")))
GENDERED = tuple(map(Filler, ("man", "woman", "girl", "nurse")))
POLARITY = tuple(Filler(word, "{word} person") for word in ("rude", "iraqi"))
MIXED = (Filler("man"), Filler("She", bare=True), Filler("iraqi", "{word} person"), Filler("Emma", bare=True))
PROBES = {
    "one word": Probe("one", (TEMPLATE,), NOUNS, GENDERED),
    "one premise": Probe("person", (TEMPLATE,), (Filler("person"),), GENDERED),
    "two words": Probe("two", (TEMPLATE,), POLARITY, POLARITY),
    "a/an": Probe("a", (TEMPLATE,), NOUNS, GENDERED).with_surface(RELEASED),
    "mixed lengths": Probe("mixed", (TEMPLATE,), (*NOUNS, *POLARITY), MIXED).with_surface(determiner="A/An"),
    "unknown words": Probe("lost", (TEMPLATE,), (*NOUNS, Filler("zyzzyva")), (*GENDERED, Filler("qwx"))),
    "slot inside": Probe("in", (TEMPLATE, Template("s", "She met the {subject} for a nurse")), NOUNS, GENDERED),
    "slot at the end": Probe("end", (Template("e", "Rude actor met the {subject}"),), NOUNS, MIXED),
    "nothing in the slot": Probe("none", (TEMPLATE,), NOUNS, (*GENDERED, Filler(" ", bare=True))),
    "joined to the slot": Probe("joined", (Template("j", "The {subject}'s apron"),), NOUNS, GENDERED),
    "nothing shared": Probe("bare", (Template("b", "{subject}"),), NOUNS, GENDERED),
}


def factorised(asker, asked):
    found = np.full((*asked.shape, 3), np.nan, np.float32)
    for grid in asker.grids(asked):
        found[grid.phrases] = grid.probabilities
    return found


def plain(asker, asked):
    return predict_points(asker, asked, asked.points(0, asked.n_pairs)).reshape(*asked.shape, 3)


def by_torch(asker, premise, hypothesis):
    """The definition with torch's own layers, one pair at a time, in double precision."""
    arrays = {name: torch.tensor(array, dtype=torch.float64) for name, array in asker.arrays.items()}
    lstm = torch.nn.LSTM(DIM, HIDDEN // 2, bidirectional=True).double()
    for place, suffix in enumerate(("", "_reverse")):
        getattr(lstm, f"weight_ih_l0{suffix}").data = arrays["lstm.input"][place]
        getattr(lstm, f"weight_hh_l0{suffix}").data = arrays["lstm.recurrent"][place]
        getattr(lstm, f"bias_ih_l0{suffix}").data = arrays["lstm.bias"][place]
        getattr(lstm, f"bias_hh_l0{suffix}").data.zero_()

    def encoded(text):
        rows = asker.table(asker.lookup.sentence(text))
        tokens = torch.tensor(rows, dtype=torch.float64)
        return lstm(torch.cat([arrays["null"][None], tokens]) if "null" in arrays else tokens)[0]

    def network(name, x):
        for layer in (0, 1):
            x = torch.relu(x @ arrays[f"{name}.{layer}.weight"].T + arrays[f"{name}.{layer}.bias"])
        return x

    p, h = encoded(premise), encoded(hypothesis)
    scores = p @ h.T
    v_p = network("compare", torch.cat([p, scores.softmax(1) @ h], 1)).sum(0)
    v_h = network("compare", torch.cat([h, scores.T.softmax(1) @ p], 1)).sum(0)
    top = network("aggregate", torch.cat([v_p, v_h]))
    return (arrays["output.weight"] @ top + arrays["output.bias"]).softmax(0).detach().numpy()


@pytest.mark.parametrize("null", [True, False])
def test_equals_the_definition(null):
    asker = model(null=null)
    premises = ["The nurse slept.", "Emma", "a rude person bought an apron", "The zyzzyva slept ."]
    hypotheses = ["The man slept.", "she slept", "a man", "The woman budgeted for a SUV ."]
    found = asker.predict(premises, hypotheses).matrix
    assert found.std(axis=0).min() > 1e-3
    for row, premise, hypothesis in zip(found, premises, hypotheses, strict=True):
        assert row == pytest.approx(by_torch(asker, premise, hypothesis), abs=1e-6)


def test_the_order_of_words_matters():
    asker = model()
    one, other = (asker.predict([p], ["a man slept"]).matrix for p in ("the nurse met emma", "emma met the nurse"))
    assert np.abs(one - other).max() > 1e-3


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("null", [True, False])
def test_factorised_equals_pair_by_pair(name, null):
    asker = model(null=null)
    found = factorised(asker, PROBES[name])
    assert np.abs(found - plain(asker, PROBES[name])).max() < 1e-5
    assert found.std(axis=(0, 1, 2)).min() > 1e-4  # answers that do not vary would agree by themselves


def test_blocks_and_threads_make_no_difference(monkeypatch):
    asked = PROBES["mixed lengths"]
    whole = factorised(model(workers=1), asked)
    for sizes in ((1, 2, 30, 50), (60, 3, 90, 200), (1000, 512, 1, 1)):
        monkeypatch.setattr(recurrent, "ON_CPU", recurrent.Sizes(*sizes))
        assert np.abs(factorised(model(workers=3), asked) - whole).max() < 1e-6


@pytest.mark.parametrize("name", PROBES)
def test_pairs_by_torch_equal_pairs_by_numpy(monkeypatch, name):
    """A GPU evaluates pairs by torch, a CPU by numpy."""
    ours = factorised(model(workers=1), PROBES[name])
    monkeypatch.setattr(recurrent, "backend", lambda _: backend("torch:cpu", workers=1))
    assert np.abs(factorised(model(workers=1), PROBES[name]) - ours).max() < 2e-6


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    monkeypatch.setattr(recurrent, "ON_CPU", recurrent.Sizes(60, 3, 90, 200))
    two, three = (factorised(model(workers=workers), PROBES["mixed lengths"]) for workers in (2, 3))
    np.testing.assert_array_equal(two, three)


def test_the_shipped_probes_on_the_embedded_vectors(glove):
    asker = BiLSTM(random_arrays(100, 24), glove)
    for name in ("gender-occupation+162", "religion-polarity", "mab-names"):
        asked = probe(name)
        few = asked.restrict([f.word for f in asked.premise][:5], object=["SUV", "grown-up", "headphones"])
        assert np.abs(factorised(asker, few) - plain(asker, few)).max() < 1e-5


texts = st.lists(st.sampled_from([*WORDS, "zyzzyva"]), min_size=1, max_size=4).map(" ".join)
edges = st.lists(st.sampled_from(WORDS), max_size=3).map(" ".join)


@settings(max_examples=40)
@given(
    around=st.lists(st.tuples(edges, edges).filter(any), min_size=1, max_size=4, unique=True),
    premises=st.lists(texts, min_size=1, max_size=4),
    hypotheses=st.lists(texts, min_size=1, max_size=4),
)
def test_factorised_equals_pair_by_pair_on_any_probe(around, premises, hypotheses):
    templates = tuple(Template(f"t{i}", f"{a} {{subject}} {b}".strip()) for i, (a, b) in enumerate(around))
    sides = (tuple(Filler(text, bare=True) for text in side) for side in (premises, hypotheses))
    asked, asker = Probe("any", templates, *sides), model(workers=1)
    assert np.abs(factorised(asker, asked) - plain(asker, asked)).max() < 1e-5


def test_a_probe_through_the_scores():
    found = run(model(), PROBES["one word"], controls=False)
    assert found.n_pairs == PROBES["one word"].n_pairs
    assert isinstance(model(), GridModel)
    assert isinstance(model(), NLIModel)
    assert model().out_of_vocabulary(["man", "rude zyzzyva"]) == ("rude zyzzyva",)


def test_save_and_load(tmp_path):
    path = model(lower=False, name="mine").save(tmp_path / "m.safetensors", note="x")
    asked = ["The nurse slept."], ["The man slept."]
    expected = model(lower=False).predict(*asked).matrix
    for back in (BiLSTM.load(path, vectors()), load(path, vectors(), device="cpu")):
        assert isinstance(back, BiLSTM)
        assert (back.name, back.lower, back.normalise) == ("mine", False, False)
        assert np.array_equal(back.predict(*asked).matrix, expected)
    half = model().save(tmp_path / "h.safetensors", dtype="float16")
    assert half.stat().st_size < 0.7 * path.stat().st_size
    assert load(half, vectors(), name="other").name == "other"
    bare = model(null=False).save(tmp_path / "bare.safetensors")
    assert BiLSTM.load(bare, vectors()).weights_on_device.null is None


def test_one_loader_for_both_kinds(tmp_path):
    path = DecomposableAttention(decomposable_arrays(DIM, 8), vectors(), name="d").save(tmp_path / "d.safetensors")
    assert isinstance(load(path, vectors(), device="cpu"), DecomposableAttention)
    with pytest.raises(FormatError, match=r"d\.safetensors.*'decomposable-attention'.*'bilstm'"):
        BiLSTM.load(path, vectors())
    with pytest.raises(FormatError, match=r"b\.safetensors.*'bilstm'.*'decomposable-attention'"):
        DecomposableAttention.load(model().save(tmp_path / "b.safetensors"), vectors())


def test_devices_by_name():
    assert backend_name("cpu") == backend_name("numpy") == "numpy"
    assert backend_name("cpu", numpy=False) == backend_name("numpy", numpy=False) == "torch"
    assert backend_name("cuda", numpy=False) == backend_name("cuda") == "torch:cuda"
    assert backend_name("torch:cuda:1") == "torch:cuda:1"


def test_files_that_are_no_model(tmp_path):
    from safetensors.numpy import load_file, save_file

    with pytest.raises(InputMissingError, match="model file"):
        load(tmp_path / "none.safetensors", vectors())
    whole = model().save(tmp_path / "whole.safetensors")
    (tmp_path / "cut.safetensors").write_bytes(whole.read_bytes()[:-100])
    with pytest.raises(FormatError, match=r"cut\.safetensors.*not a complete"):
        load(tmp_path / "cut.safetensors", vectors())
    save_file(load_file(whole), tmp_path / "bare.safetensors")
    with pytest.raises(FormatError, match="not an evenhand NLI model"):
        load(tmp_path / "bare.safetensors", vectors())

    from evenhand.models.nli.over_vectors import write_model_file

    odd = write_model_file(tmp_path / "odd.safetensors", kind="transformer", arrays=model().arrays, config={})
    with pytest.raises(FormatError, match=r"odd\.safetensors.*'lower' is missing"):
        load(odd, vectors())
    odd = write_model_file(odd, kind="transformer", arrays=model().arrays, config={"lower": True, "normalise": False})
    with pytest.raises(FormatError, match=r"odd\.safetensors.*'transformer'") as caught:
        load(odd, vectors())
    assert "bilstm" in str(caught.value)
    undefined = {**model().arrays, "output.bias": np.array([0, np.nan, 0])}
    path = write_model_file(odd, kind="bilstm", arrays=undefined, config={"lower": True, "normalise": False})
    with pytest.raises(FormatError, match=r"odd\.safetensors.*output\.bias.*NaN"):
        load(path, vectors())


def test_weights_that_do_not_fit():
    arrays = random_arrays(DIM, HIDDEN)
    for lost in ("output.bias", "lstm.recurrent", "oov"):
        with pytest.raises(FormatError, match=lost):
            BiLSTM({name: array for name, array in arrays.items() if name != lost}, vectors())
    with pytest.raises(FormatError, match=r"compare\.0\.weight.*\(12, 12\)"):
        BiLSTM({**arrays, "compare.0.weight": np.zeros((12, 12))}, vectors())
    with pytest.raises(FormatError, match=r"lstm\.recurrent.*3 axes"):
        BiLSTM({**arrays, "lstm.recurrent": np.zeros((12, 12))}, vectors())
    with pytest.raises(UsageError, match="dimension 10"):
        BiLSTM(arrays, eh.Vectors(["a"], [[1.0, 2.0]]))
    with pytest.raises(UsageError, match="empty sentence"):
        model().predict([""], ["x"])


def network(members=2, dropout=0.0):
    from evenhand.models.nli.networks import BiLSTMNetwork

    made = BiLSTMNetwork(members, DIM, HIDDEN, dropout)
    made.initialise(range(3, 3 + members))
    return made


def padded(sentences, length, filler, members=2):
    table = vectors()
    found = torch.full((members, len(sentences), length, DIM), filler)
    inside = torch.zeros(members, len(sentences), length, dtype=torch.bool)
    for row, sentence in enumerate(sentences):
        found[:, row, : len(sentence)] = torch.tensor(np.array([table[word] for word in sentence]))
        inside[:, row, : len(sentence)] = True
    return found, inside


PREMISES = [["the", "nurse", "slept", "."], ["emma"], ["she", "slept"]]
HYPOTHESES = [["a", "man"], ["she", "met", "the", "nurse", "."], ["rude", "person"]]


@pytest.mark.parametrize(("longest", "filler"), [((4, 5), 0.0), ((4, 7), 5.0), ((9, 5), -5.0)])
def test_each_member_of_the_network_is_the_model_however_it_is_padded(longest, filler):
    stack = network().eval()
    p, in_p = padded(PREMISES, longest[0], filler)
    h, in_h = padded(HYPOTHESES, longest[1], filler)
    found = stack(p, h, in_p, in_h).softmax(-1).detach().numpy()
    assert np.abs(found[0] - found[1]).max() > 1e-3
    for member in (0, 1):
        asker = BiLSTM({**stack.arrays(member), "oov": np.zeros((1, DIM))}, vectors())
        asked = ([" ".join(sentence) for sentence in side] for side in (PREMISES, HYPOTHESES))
        assert asker.predict(*asked).matrix == pytest.approx(found[member], abs=1e-6)


def test_a_seed_gives_the_same_start_in_any_stack():
    alone = network(members=1).arrays(0)
    for name, array in network(members=3).arrays(0).items():
        assert np.array_equal(array, alone[name])
    assert not alone["lstm.bias"].any()
    assert 0.01 < alone["null"].std() < 0.1


def test_every_parameter_but_the_null_token_is_trained():
    stack = network()
    p, in_p = padded(PREMISES, 5, 0.0)
    h, in_h = padded(HYPOTHESES, 5, 0.0)
    stack(p, h, in_p, in_h)[..., 0].sum().backward()
    for name, parameter in stack.named_parameters():
        assert (parameter.grad is None) == (name == "null")
        assert name == "null" or torch.isfinite(parameter.grad).all()


def test_dropout_leaves_the_same_coordinates_out_of_every_token():
    torch.manual_seed(0)
    stack, seen = network(members=1, dropout=0.5).train(), []
    stack.lstm._states = lambda x: seen.append(x) or x.new_zeros(*x.shape[:2], x.shape[3], x.shape[2], HIDDEN // 2)
    stack.lstm(torch.ones(1, 4, 6, DIM), torch.ones(1, 4, 6, dtype=torch.bool))
    onwards = seen[0][0, 0]  # (tokens, sentences, dim)
    assert (onwards == onwards[:1]).all()
    assert 0 < (onwards == 0).float().mean() < 1
    assert (onwards[0, 0] != onwards[0, 1]).any()
