"""Training: it learns, members do not touch each other, what was stopped goes on, the model answers as the network did."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import DegenerateError, EvenhandWarning, FormatError, UnknownNameError, UsageError
from evenhand.models.nli import load
from evenhand.models.nli.labelled_pairs import LabelledPairs, evaluate

torch = pytest.importorskip("torch")

from evenhand.models.nli.networks import DecomposableNetwork, StackedLinear  # noqa: E402
from evenhand.models.nli.over_vectors import Lookup  # noqa: E402
from evenhand.models.nli.training import train  # noqa: E402
from evenhand.models.nli.training_batches import (  # noqa: E402
    EncodedPairs,
    TrainingBatches,
    compact,
)

NOUNS, VERBS = ("man", "dog", "cat", "girl", "cook"), ("ate", "slept", "ran", "sang", "fell")
WORDS = ("the", "not", ".", *NOUNS, *VERBS)
SMALL = {"hidden": 16, "batch": 32, "learning_rate": 0.01, "device": "cpu", "dropout": 0.1}
ARCHITECTURES = ("decomposable", "bilstm")


def vectors(seed=0, dim=12, words=WORDS):
    return eh.Vectors(words, np.random.default_rng(seed).normal(0, 1, (len(words), dim)), name=f"v{seed}")


def sentences(noun, verb, negated=False):
    return f"The {noun} {'not ' if negated else ''}{verb}."


def corpus(copies=2):
    """Same verb: entailment; with `not`: contradiction; another verb: neutral. Lengths and unknown words vary."""
    rows = []
    for n, (noun, verb) in enumerate(itertools.product(NOUNS, VERBS)):
        other = VERBS[(VERBS.index(verb) + 1 + n % 3) % len(VERBS)]
        premise = sentences(noun, verb) if n % 3 else f"The zyzzyva {noun} {verb} and {verb}."
        rows += [
            (premise, sentences(noun, verb), "entailment"),
            (premise, sentences(noun, verb, True), "contradiction"),
            (premise, sentences(noun, other), "neutral"),
        ]
    return LabelledPairs.of(*zip(*rows * copies, strict=True), source="tiny")


def same(one, other):
    first, second = (member.model for member in (one, other))
    arrays = [m.arrays for m in (first, second)]
    return arrays[0].keys() == arrays[1].keys() and all(np.array_equal(arrays[0][k], arrays[1][k]) for k in arrays[0])


def stop_in(epoch):
    """Ctrl-C after the first step of an epoch."""

    def told(done, total, what):
        if what.startswith(f"epoch {epoch}/"):
            raise KeyboardInterrupt

    return told


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_separable_rule_is_learnt(architecture):
    pairs = corpus(2)
    settings = {"hidden": 32, "batch": 16, "learning_rate": 0.005, "dropout": 0.0, "device": "cpu", "epochs": 12}
    (found,) = train(pairs, pairs, vectors(), architecture=architecture, patience=12, **settings)
    assert found.dev_accuracy > 0.9
    assert found.dev_accuracy == max(entry["dev_accuracy"] for entry in found.history)
    assert found.history[found.epoch - 1]["dev_accuracy"] == found.dev_accuracy
    assert found.history[-1]["loss"] < found.history[0]["loss"] / 2
    assert evaluate(found.model, pairs).accuracy == found.dev_accuracy


@pytest.mark.parametrize("options", [{}, {"intra_attention": True}, {"normalise": True}, {"optimiser": "adagrad"}])
def test_the_model_answers_as_the_network(options, tmp_path):
    pairs, words = corpus(), vectors()
    (found,) = train(pairs, pairs, words, epochs=2, **SMALL, **options)
    assert evaluate(found.model, pairs).accuracy == pytest.approx(found.dev_accuracy)
    again = load(found.model.save(tmp_path / "m.safetensors", seed=found.seed), words, device="numpy")
    texts = pairs.premises, pairs.hypotheses
    assert again.predict(*texts).matrix == pytest.approx(found.model.predict(*texts).matrix, abs=1e-6)


@pytest.mark.parametrize("intra", [False, True])
def test_probabilities_of_network_and_numpy_model(intra):
    from evenhand.models.nli import DecomposableAttention

    network = DecomposableNetwork(3, 12, 16, intra_attention=intra)
    network.initialise([4, 5, 6])
    if intra:
        torch.nn.init.normal_(network.intra.distance, generator=torch.Generator().manual_seed(0))
    network.eval()
    pairs, words, spare = corpus(), vectors(), np.zeros((7, 12), np.float32)
    lookup = Lookup(words, len(spare), True)
    table = torch.as_tensor(np.concatenate([words.matrix, spare]))
    batches = TrainingBatches(
        EncodedPairs.of(pairs, lookup), table, torch.zeros(3, 1, 1, dtype=torch.int64), batch=1_000
    )
    (batch,) = batches.in_order()
    order = batches._by_length(np.zeros((1, 2, len(pairs))))[0].numpy()
    with torch.inference_mode():
        found = torch.softmax(network(*batch[:4]), -1).numpy()
    for member in range(3):
        weights = {**network.arrays(member), "oov": spare}
        asked = DecomposableAttention(weights, words).predict(pairs.premises, pairs.hypotheses).matrix
        assert found[member] == pytest.approx(asked[order], abs=1e-5)


def test_padding_changes_nothing():
    network = DecomposableNetwork(2, 12, 16, intra_attention=True)
    network.initialise([0, 1])
    draws = torch.Generator().manual_seed(0)
    p, h = torch.randn(2, 5, 4, 12, generator=draws), torch.randn(2, 5, 3, 12, generator=draws)
    plain = network(p, h, torch.ones(2, 5, 4, dtype=torch.bool), torch.ones(2, 5, 3, dtype=torch.bool))

    def padded(side, by):
        more = torch.cat([side, torch.full((2, 5, by, 12), 9.0)], 2)
        return more, torch.arange(more.shape[2]).expand(2, 5, -1) < side.shape[2]

    (long_p, in_p), (long_h, in_h) = padded(p, 3), padded(h, 6)
    assert network(long_p, long_h, in_p, in_h).detach().numpy() == pytest.approx(plain.detach().numpy(), abs=1e-5)


def test_gradients_of_a_stack_are_those_of_its_members():
    draws = torch.Generator().manual_seed(0)
    p, h = torch.randn(2, 6, 4, 12, generator=draws), torch.randn(2, 6, 3, 12, generator=draws)
    masks = torch.ones(2, 6, 4, dtype=torch.bool), torch.ones(2, 6, 3, dtype=torch.bool)

    def gradients(seeds, some):
        network = DecomposableNetwork(len(seeds), 12, 8)
        network.initialise(seeds)
        network(p[some], h[some], masks[0][some], masks[1][some]).square().sum().backward()
        return {name: parameter.grad for name, parameter in network.named_parameters()}

    both, second = gradients([3, 4], slice(0, 2)), gradients([4], slice(1, 2))
    for name, gradient in both.items():
        assert gradient[1].numpy() == pytest.approx(second[name][0].numpy(), abs=1e-5)


def test_stacked_linear_by_hand():
    layer = StackedLinear(2, 2, 1)
    with torch.no_grad():
        layer.weight.copy_(torch.tensor([[[1.0, 2.0]], [[3.0, 4.0]]]))
        layer.bias.copy_(torch.tensor([[10.0], [20.0]]))
    assert layer(torch.ones(2, 1, 2)).flatten().tolist() == [13.0, 27.0]


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_stack_equals_single_runs(architecture):
    pairs, settings = corpus(), {**SMALL, "dropout": 0.0, "epochs": 3, "architecture": architecture}
    tables = [vectors(0), vectors(1)]
    together = train(pairs, pairs, tables, seeds=(0, 1), stack=4, **settings)
    apart = train(pairs, pairs, tables, seeds=(0, 1), **settings)
    assert [(m.vectors.name, m.seed) for m in together] == [("v0", 0), ("v0", 1), ("v1", 0), ("v1", 1)]
    for one, other in zip(together, apart, strict=True):
        losses = [[entry["loss"] for entry in member.history] for member in (one, other)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-5)
        found = [member.model.predict(pairs.premises, pairs.hypotheses).matrix for member in (one, other)]
        assert found[0] == pytest.approx(found[1], abs=1e-4)
    assert not same(apart[0], apart[1])


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_two_runs_are_the_same_bits(architecture):
    pairs = corpus()
    runs = [train(pairs, pairs, vectors(), epochs=2, architecture=architecture, **SMALL)[0] for _ in range(2)]
    assert same(*runs)
    assert runs[0].history == runs[1].history


def test_training_leaves_the_callers_random_numbers_alone():
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    train(corpus(1), corpus(1), vectors(), epochs=1, **SMALL)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("stack", [1, 2])
@pytest.mark.parametrize("optimiser", ["adam", "adagrad"])
def test_resumed_is_uninterrupted(tmp_path, stack, optimiser):
    pairs = corpus()
    options = {"seeds": (0, 1), "stack": stack, "epochs": 5, "optimiser": optimiser, **SMALL}
    whole = train(pairs, pairs, vectors(), **options)
    with pytest.raises(KeyboardInterrupt, match=r"stopped in epoch 4; the checkpoint .* holds epoch 3; rerun the same"):
        train(pairs, pairs, vectors(), checkpoint=tmp_path, progress=stop_in(4), **options)
    assert list(tmp_path.glob("*.safetensors"))
    resumed = train(pairs, pairs, vectors(), checkpoint=tmp_path, **options)
    again = train(pairs, pairs, vectors(), checkpoint=tmp_path, progress=stop_in(1), **options)
    for one, other, third in zip(whole, resumed, again, strict=True):
        assert same(one, other)
        assert same(one, third)
        assert one.history == other.history


def test_stopped_without_a_checkpoint():
    with pytest.raises(KeyboardInterrupt, match="no place for one was given"):
        train(corpus(1), corpus(1), vectors(), progress=stop_in(1), **SMALL)


def test_stopped_before_the_first_epoch_ends(tmp_path):
    with pytest.raises(KeyboardInterrupt, match="no epoch was finished"):
        train(corpus(1), corpus(1), vectors(), checkpoint=tmp_path, progress=stop_in(1), **SMALL)
    assert not list(tmp_path.iterdir())


def test_more_epochs_go_on(tmp_path):
    pairs = corpus(1)
    train(pairs, pairs, vectors(), epochs=1, checkpoint=tmp_path, **SMALL)
    more = train(pairs, pairs, vectors(), epochs=3, checkpoint=tmp_path, **SMALL)
    assert same(*more, *train(pairs, pairs, vectors(), epochs=3, **SMALL))


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"hidden": 8}, "hidden was 16, is 8"),
        ({"seeds": (1,)}, r"seeds was \[0\], is \[1\]"),
        ({"pairs": corpus(2)}, "train was"),
        ({"vectors": vectors(1)}, "vectors was"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(tmp_path, change, match):
    given = {"pairs": corpus(1), "dev": corpus(1), "vectors": vectors(), "epochs": 1, "checkpoint": tmp_path, **SMALL}
    train(**given)
    with pytest.raises(UsageError, match=f"belongs to another training run: .*{match}"):
        train(**{**given, **change})


def test_a_damaged_checkpoint(tmp_path):
    (tmp_path / "stack-0.safetensors").write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"stack-0\.safetensors: not an evenhand checkpoint.*\n.*delete it"):
        train(corpus(1), corpus(1), vectors(), checkpoint=tmp_path, **SMALL)


def test_patience_ends_a_member_and_no_other():
    pairs = corpus()
    options = {**SMALL, "dropout": 0.0, "epochs": 12}
    found = train(pairs, pairs, vectors(), seeds=(0, 1, 2), stack=3, patience=2, **options)
    for member in found:
        full = train(pairs, pairs, vectors(), seeds=(member.seed,), patience=12, **options)[0]
        length = len(member.history)
        assert length == 12 or length - member.epoch == 2
        assert [e["loss"] for e in member.history] == pytest.approx(
            [e["loss"] for e in full.history[:length]], abs=1e-4
        )


def test_divergence_is_an_error_that_names_the_epoch(tmp_path):
    options = {**SMALL, "learning_rate": 1e30}
    with pytest.raises(DegenerateError, match=r"the loss of seed 7 is nan in epoch 1.*\n.*lower the learning rate"):
        train(corpus(), corpus(), vectors(), seeds=(7,), checkpoint=tmp_path, **options)


def test_manifest_and_record():
    pairs = corpus(1)
    words = vectors().with_matrix(vectors().matrix * 2, step={"method": "twice"})
    (found,) = train(pairs, pairs, words, epochs=1, seeds=(3,), **SMALL)
    record = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert record["seed"] == 3
    assert record["words"]["history"] == [{"method": "twice"}]
    assert record["data"]["train"]["sha256"] == pairs.sha256
    assert 0 < record["data"]["unknown_tokens"] < 0.2
    assert record["settings"]["precision"] == "float32"


def test_only_words_that_occur_are_kept():
    words = vectors(words=(*WORDS, *(f"w{i}" for i in range(1_000))))
    pairs = EncodedPairs.of(corpus(1), Lookup(words, 10, True))
    rows, (again,) = compact(pairs)
    assert len(rows) <= len(WORDS) + 10
    assert np.array_equal(rows[again.premise.words], pairs.premise.words)
    assert np.array_equal(rows[again.hypothesis.words], pairs.hypothesis.words)


def test_every_pair_comes_once_in_an_epoch():
    pairs, words = corpus(3), vectors()
    table = torch.as_tensor(np.concatenate([words.matrix, np.zeros((1, 12), np.float32)]))
    numbered = EncodedPairs.of(pairs, Lookup(words, 1, True))
    batches = TrainingBatches(numbered, table, torch.zeros(2, 1, 1, dtype=torch.int64), batch=16)
    expected = np.bincount(pairs.labels)
    for stream in (batches.shuffled((0, 1), 1), batches.in_order()):
        found = list(stream)
        labels = torch.cat([batch.labels for batch in found], 1)
        lengths = torch.cat([batch.in_premise.sum(-1) for batch in found], 1)
        for member in range(2):
            assert np.array_equal(np.bincount(labels[member]), expected)
            assert sorted(lengths[member].tolist()) == sorted(numbered.premise.lengths.tolist())
        assert all(batch.in_premise.any((0, 1)).all() for batch in found)  # no batch longer than its longest sentence
    first, second = (torch.cat([b.labels for b in batches.shuffled((0, 1), epoch)], 1) for epoch in (1, 2))
    assert not torch.equal(first[0], first[1])
    assert not torch.equal(first, second)


def test_a_seed_starts_the_same_in_any_stack():
    one, three = DecomposableNetwork(1, 12, 8), DecomposableNetwork(3, 12, 8)
    one.initialise([5])
    three.initialise([1, 5, 2])
    first, second = one.arrays(0), three.arrays(1)
    assert all(np.array_equal(first[name], second[name]) for name in first)


def test_half_precision_learns_too():
    pairs = corpus(2)
    (found,) = train(pairs, pairs, vectors(), epochs=15, patience=15, precision="bf16", **SMALL)
    assert found.dev_accuracy > 0.8
    assert found.model.arrays["project.weight"].dtype == np.float32


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"architecture": "bilst"}, UnknownNameError, "bilstm"),
        ({"optimiser": "sgd"}, UnknownNameError, "adam"),
        ({"precision": "int4"}, UnknownNameError, "float32"),
        ({"hidden": 0}, UsageError, "hidden must be at least 1"),
        ({"learning_rate": float("nan")}, UsageError, "learning_rate"),
        ({"dropout": 1.0}, UsageError, "dropout"),
        ({"device": "nowhere"}, UsageError, "unknown device"),
        ({"seeds": ()}, UsageError, "seeds"),
        ({"seeds": (1, 1)}, UsageError, "seeds"),
        ({"stack": -1}, UsageError, "stack"),
        ({"nonsense": 1}, UsageError, "nonsense"),
        ({"intra_attention": True, "architecture": "bilstm"}, UsageError, "intra_attention"),
        ({"vectors": []}, UsageError, "no vectors"),
        ({"vectors": [vectors(), vectors(words=WORDS[::-1])]}, UsageError, "differ in words"),
        ({"vectors": vectors(words=("x", "y"))}, UsageError, "no vector for any word of the training pairs"),
        ({"pairs": corpus(1).take(slice(0, None, 3))}, FormatError, "only label of its 25 pairs"),
        (
            {"dev": LabelledPairs.of("AB", "AB", ["entailment", "non-entailment"])},
            UsageError,
            "do not distinguish neutral",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore::evenhand.errors.EvenhandWarning")
def test_what_cannot_be_trained(change, error, match):
    given = {"pairs": corpus(1), "dev": corpus(1), "vectors": vectors(), "epochs": 1, **SMALL}
    with pytest.raises(error, match=match):
        train(**{**given, **change})


def test_a_label_that_never_occurs_is_said():
    two = corpus(1).take([i for i in range(75) if i % 3])
    with pytest.warns(EvenhandWarning, match="no pair labelled entailment"):
        train(two, two, vectors(), epochs=1, **SMALL)


def test_the_examples_of_the_page_run(capsys):
    page = Path(__file__).parents[3] / "docs" / "how-to" / "nli-models.md"
    for example in re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL):
        exec(compile(example, page.name, "exec"), {})  # the first defines a function that needs a model
    assert "decomposable-seed-1" in capsys.readouterr().out
