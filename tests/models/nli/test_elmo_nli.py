"""Dev et al.'s NLI model over ELMo: the definition, the factorised probe, its file, its training."""

import itertools
import json
import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

torch = pytest.importorskip("torch")

import evenhand as eh  # noqa: E402
from evenhand.cli import app  # noqa: E402
from evenhand.errors import FormatError, InputMissingError, UsageError  # noqa: E402
from evenhand.measures.inference import probe as run  # noqa: E402
from evenhand.mitigations.maps.coordinates import Affine, SoftProjection  # noqa: E402
from evenhand.models.encoders.elmo.encoder import Elmo  # noqa: E402
from evenhand.models.nli import NLIModel  # noqa: E402
from evenhand.models.nli.elmo import ElmoNLI  # noqa: E402
from evenhand.models.nli.labelled_pairs import LabelledPairs  # noqa: E402
from evenhand.models.nli.networks import ElmoNLINetwork  # noqa: E402
from evenhand.models.nli.protocol import predict_points  # noqa: E402
from evenhand.words.probes import RELEASED, Filler, Probe  # noqa: E402
from evenhand.words.template import Template  # noqa: E402
from tiny_elmo import TINY, save_tiny_elmo  # noqa: E402

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    from elmo_nli import train_over_elmo

HIDDEN, STATES = 6, 10
PREMISES = ["The nurse met a man.", "He slept.", "An actor bought an SUV for the naïve girl", "The cat ran."]
HYPOTHESES = ["The woman met a man.", "The very old cat did not sleep at all.", "An actor bought an SUV", "Cat."]


@pytest.fixture(scope="module")
def elmo(tmp_path_factory: pytest.TempPathFactory) -> Elmo:
    return Elmo.load(save_tiny_elmo(tmp_path_factory.mktemp("elmo"), scale=0.7), device="cpu")


def random_arrays(seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    network = ElmoNLINetwork(1, 8, HIDDEN, layers=3, states=STATES)
    shapes = {name: tuple(parameter.shape[1:]) for name, parameter in network.named_parameters()}
    arrays = {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}
    for name in arrays:
        if name.endswith("bias"):
            arrays[name] += 1  # keeps rectified units alive
    return arrays


@pytest.fixture(scope="module")
def model(elmo: Elmo) -> ElmoNLI:
    return ElmoNLI(random_arrays(), elmo)


def by_torch(model: ElmoNLI, premise: list[str], hypothesis: list[str]) -> np.ndarray:
    """The definition with torch's own LSTM, one pair at a time, in double precision."""
    arrays = {name: torch.tensor(array, dtype=torch.float64) for name, array in model.arrays.items()}
    lstm = torch.nn.LSTM(8, STATES // 2, bidirectional=True).double()
    for place, suffix in enumerate(("", "_reverse")):
        getattr(lstm, f"weight_ih_l0{suffix}").data = arrays["lstm.input"][place]
        getattr(lstm, f"weight_hh_l0{suffix}").data = arrays["lstm.recurrent"][place]
        getattr(lstm, f"bias_ih_l0{suffix}").data = arrays["lstm.bias"][place]
        getattr(lstm, f"bias_hh_l0{suffix}").data.zero_()

    def encoded(words: list[str]) -> torch.Tensor:
        layers = torch.tensor(model.elmo.vectors([words])[0], dtype=torch.float64)
        first, second = (
            arrays["gamma"][number] * torch.einsum("l,lwd->wd", arrays["scores"][number].softmax(0), layers)
            for number in range(2)
        )
        return torch.cat([lstm(first)[0], second], 1)

    def network(name: str, x: torch.Tensor) -> torch.Tensor:
        for layer in (0, 1):
            x = torch.relu(x @ arrays[f"{name}.layers.{layer}.weight"].T + arrays[f"{name}.layers.{layer}.bias"])
        return x

    p, h = encoded(premise), encoded(hypothesis)
    scores = p @ h.T
    v_p = network("compare", torch.cat([p, scores.softmax(1) @ h], 1)).sum(0)
    v_h = network("compare", torch.cat([h, scores.T.softmax(1) @ p], 1)).sum(0)
    logits = network("aggregate", torch.cat([v_p, v_h])) @ arrays["output.weight"].T + arrays["output.bias"]
    probabilities: np.ndarray = logits.softmax(0).detach().numpy()
    return probabilities


def test_it_computes_the_definition(model: ElmoNLI) -> None:
    assert isinstance(model, NLIModel)
    predicted = model.predict(["The nurse met a man.", "He slept."], ["A woman slept.", "He ran to him"]).matrix
    pairs = [
        (["The", "nurse", "met", "a", "man", "."], ["A", "woman", "slept", "."]),
        (["He", "slept", "."], ["He", "ran", "to", "him"]),
    ]
    for row, (premise, hypothesis) in zip(predicted, pairs, strict=True):
        np.testing.assert_allclose(row, by_torch(model, premise, hypothesis), atol=1e-5)


def test_pairs_do_not_see_each_other(model: ElmoNLI) -> None:
    together = model.predict(PREMISES, HYPOTHESES).matrix
    for number, (premise, hypothesis) in enumerate(zip(PREMISES, HYPOTHESES, strict=True)):
        np.testing.assert_allclose(model.predict([premise], [hypothesis]).matrix[0], together[number], atol=1e-6)
    np.testing.assert_allclose(model.predict(PREMISES[::-1], HYPOTHESES[::-1]).matrix[::-1], together, atol=1e-6)


def test_case_matters(model: ElmoNLI) -> None:
    lower, upper = model.predict(["he ran", "He ran"], ["she ran", "she ran"]).matrix
    assert abs(lower - upper).max() > 1e-5


def test_sentences_without_words_and_unequal_sides_are_refused(model: ElmoNLI) -> None:
    with pytest.raises(UsageError, match="'' has no words"):
        model.predict(["he"], [""])
    with pytest.raises(UsageError):
        model.predict(["he", "she"], ["he"])


TEMPLATE = Template(
    "t", "The {subject} {verb} a/an {object}.", {"verb": ["bought", "budgeted for"], "object": ["SUV", "nurse"]}
)
NOUNS = tuple(map(Filler, ("nurse", "actor", "person")))
GENDERED = tuple(map(Filler, ("man", "woman", "nurse")))
MIXED = (Filler("man"), Filler("She", bare=True), Filler("iraqi", "{word} person"))
PROBES = {
    "one word": Probe("one", (TEMPLATE,), NOUNS, GENDERED),
    "a/an": Probe("a", (TEMPLATE,), NOUNS, GENDERED).with_surface(RELEASED),
    "mixed lengths": Probe("mixed", (TEMPLATE,), (*NOUNS, MIXED[2]), MIXED),
    "slot inside": Probe("in", (TEMPLATE, Template("s", "She met the {subject} for a nurse")), NOUNS, GENDERED),
    "nothing shared": Probe("bare", (Template("b", "{subject}"),), NOUNS, GENDERED),
    "joined to the slot": Probe("joined", (Template("j", "The {subject}'s apron"),), NOUNS, GENDERED),
}


@pytest.mark.parametrize("name", PROBES)
@pytest.mark.parametrize("mapped", [False, True])
def test_the_factorised_probe_equals_pair_by_pair(model: ElmoNLI, elmo: Elmo, name: str, mapped: bool) -> None:
    probe = PROBES[name]
    direction = np.eye(4)[:1]
    used = model.with_elmo(elmo.with_maps({"embeddings": SoftProjection(direction)})) if mapped else model
    grids = np.full((*probe.shape, 3), np.nan, np.float32)
    for grid in used.grids(probe):
        grids[grid.phrases] = grid.probabilities
    plain = predict_points(used, probe, probe.points(0, probe.n_pairs)).reshape(*probe.shape, 3)
    np.testing.assert_allclose(grids, plain, atol=1e-5)
    assert np.ptp(grids) > 1e-3


def test_a_probe_result_has_every_pair(model: ElmoNLI) -> None:
    result = run(model, PROBES["one word"], draws=0)
    assert result.to_dict()["n_pairs"] == PROBES["one word"].n_pairs
    assert 0 < result.to_dict()["net_neutral"] < 1


def test_maps_at_test_time(model: ElmoNLI, elmo: Elmo) -> None:
    plain = model.predict(PREMISES, HYPOTHESES).matrix
    sizes = {site: 4 if site == "embeddings" else 8 for site in elmo.sites}
    identity = {site: Affine(np.eye(size), np.zeros(size)) for site, size in sizes.items()}
    same = model.with_elmo(elmo.with_maps(identity)).predict(PREMISES, HYPOTHESES).matrix
    np.testing.assert_array_equal(same, plain)
    for sites in (["embeddings"], list(elmo.sites[1:])):
        maps = {site: SoftProjection(np.eye(sizes[site])[:1]) for site in sites}
        changed = model.with_elmo(elmo.with_maps(maps)).predict(PREMISES, HYPOTHESES).matrix
        assert abs(changed - plain).max() > 1e-4


def test_a_saved_model_answers_the_same(model: ElmoNLI, elmo: Elmo, tmp_path: Path) -> None:
    path = model.save(tmp_path / "model.safetensors")
    loaded = ElmoNLI.load(path, elmo)
    np.testing.assert_array_equal(
        loaded.predict(PREMISES, HYPOTHESES).matrix, model.predict(PREMISES, HYPOTHESES).matrix
    )
    np.testing.assert_allclose(loaded.mix_shares.sum(1), 1, atol=1e-6)


def test_weights_that_do_not_fit_are_refused(elmo: Elmo, tmp_path: Path) -> None:
    arrays = random_arrays()
    for name in ("scores", "output.bias"):
        with pytest.raises(FormatError, match=f"lack the array '{name}'"):
            ElmoNLI({key: value for key, value in arrays.items() if key != name}, elmo)
    with pytest.raises(FormatError, match=r"output\.bias"):
        ElmoNLI({**arrays, "output.bias": np.full(3, np.nan)}, elmo)
    with pytest.raises(FormatError, match=r"compare\.layers\.0\.weight"):
        ElmoNLI({**arrays, "compare.layers.0.weight": np.zeros((2, 2))}, elmo)
    with pytest.raises(UsageError, match=r"the model reads 2 layers of dimension 8, and .* has 3 of 8"):
        ElmoNLI({**arrays, "scores": np.zeros((2, 2))}, elmo)


# Training -----------------------------------------------------------------------------------------------------------

NAMES, DEEDS = ("man", "dog", "cat", "girl"), ("ate", "slept", "ran", "sang")
SMALL: dict[str, object] = {
    "hidden": 16, "states": 8, "batch": 16, "learning_rate": 0.01, "device": "cpu", "dropout": 0.1, "elmo_dropout": 0.1,
}  # fmt: skip


def corpus() -> LabelledPairs:
    """Same verb: entailment; with `not`: contradiction; another verb: neutral."""
    rows = []
    for number, (noun, verb) in enumerate(itertools.product(NAMES, DEEDS)):
        other = DEEDS[(DEEDS.index(verb) + 1 + number % 2) % 4]
        premise = f"The {noun} {verb}."
        rows += [
            (premise, f"The {noun} {verb}", "entailment"),
            (premise, f"The {noun} not {verb}.", "contradiction"),
            (premise, f"The {noun} {other} and {other}.", "neutral"),
        ]
    return LabelledPairs.of(*zip(*rows, strict=True), source="toy")


def test_training_learns_and_the_seed_decides(elmo: Elmo) -> None:
    pairs = corpus()
    first, second = train_over_elmo(pairs, pairs, [(elmo, 0), (elmo, 1)], epochs=12, patience=12, **SMALL)
    losses = [epoch["loss"] for epoch in first.history]
    assert losses[-1] < losses[0] - 0.2
    assert first.dev_accuracy > 0.6
    assert first.history != second.history
    predicted = first.model.predict(pairs.premises, pairs.hypotheses).matrix.argmax(1)
    assert np.mean(predicted == pairs.labels) == pytest.approx(first.dev_accuracy, abs=1e-9)
    shares = first.model.mix_shares
    assert shares.shape == (2, 3)
    assert abs(shares - 1 / 3).max() > 1e-3  # the mixes are trained


def test_a_member_does_not_depend_on_the_others(elmo: Elmo) -> None:
    pairs = corpus()
    mapped = elmo.with_maps({"embeddings": SoftProjection(np.eye(4)[:1])})
    together = train_over_elmo(
        pairs, pairs, [(elmo, 3), (mapped, 3)], epochs=2, **SMALL | {"dropout": 0.0, "elmo_dropout": 0.0}
    )
    for number, variant in enumerate((elmo, mapped)):
        (alone,) = train_over_elmo(
            pairs, pairs, [(variant, 3)], epochs=2, **SMALL | {"dropout": 0.0, "elmo_dropout": 0.0}
        )
        for name, array in alone.model.arrays.items():
            np.testing.assert_allclose(together[number].model.arrays[name], array, atol=1e-4, err_msg=name)
    assert together[1].model.elmo is mapped


def test_a_resumed_training_equals_an_uninterrupted_one(elmo: Elmo, tmp_path: Path) -> None:
    pairs = corpus()
    (whole,) = train_over_elmo(pairs, pairs, [(elmo, 0)], epochs=3, **SMALL)
    checkpoint = tmp_path / "state.safetensors"
    train_over_elmo(pairs, pairs, [(elmo, 0)], epochs=1, checkpoint=checkpoint, **SMALL)
    (resumed,) = train_over_elmo(pairs, pairs, [(elmo, 0)], epochs=3, checkpoint=checkpoint, **SMALL)
    for name, array in whole.model.arrays.items():
        np.testing.assert_array_equal(resumed.model.arrays[name], array, err_msg=name)
    mapped = elmo.with_maps({"embeddings": SoftProjection(np.eye(4)[:1])})
    with pytest.raises(UsageError, match="elmo"):
        train_over_elmo(pairs, pairs, [(mapped, 0)], epochs=3, checkpoint=checkpoint, **SMALL)


def test_what_cannot_be_trained_is_refused(elmo: Elmo, tmp_path: Path) -> None:
    pairs = corpus()
    with pytest.raises(UsageError, match="no ELMo models"):
        train_over_elmo(pairs, pairs, [], **SMALL)
    wider = Elmo.load(save_tiny_elmo(tmp_path, replace(TINY, projection=5)), device="cpu")
    with pytest.raises(UsageError, match="differ in size"):
        train_over_elmo(pairs, pairs, [(elmo, 0), (wider, 0)], **SMALL)
    two_way = LabelledPairs.of(["a man"] * 2, ["a man", "a cat"], ["entailment", "non-entailment"], source="hans")
    with pytest.raises(UsageError, match="hans: its labels do not distinguish neutral from contradiction"):
        train_over_elmo(pairs, two_way, [(elmo, 0)], **SMALL)


def saved(folder: Path, maps: dict[str, SoftProjection] | None = None) -> Path:
    """Save an ELMo model and, in a folder beside it, an NLI model over it."""
    elmo = Elmo.load(save_tiny_elmo(folder / "my-elmo", scale=0.7), device="cpu").with_maps(maps or {})
    (folder / "models").mkdir()
    return ElmoNLI(random_arrays(), elmo, name="over-elmo").save(folder / "models" / "seed-0.safetensors")


def test_a_model_file_is_a_subject_with_the_elmo_model_beside_it(tmp_path: Path) -> None:
    path = saved(tmp_path)
    subject = eh.open(path)
    assert subject.offers == ("inference",)
    (member,) = subject.view("inference").members
    assert isinstance(member, ElmoNLI)
    assert (member.name, member.elmo.name) == ("over-elmo", "my-elmo")
    assert subject.view("inference").note == ""
    expected = ElmoNLI.load(path, Elmo.load(tmp_path / "my-elmo", device="cpu")).predict(PREMISES, HYPOTHESES)
    np.testing.assert_array_equal(member.predict(PREMISES, HYPOTHESES).matrix, expected.matrix)
    again = pickle.loads(pickle.dumps(member))
    np.testing.assert_array_equal(again.predict(PREMISES, HYPOTHESES).matrix, expected.matrix)
    moved = path.rename(tmp_path / "seed-0.safetensors")
    assert eh.open(moved).digest == subject.digest
    lonely = moved.rename(tmp_path / "models" / "seed-0.safetensors")
    (tmp_path / "my-elmo").rename(tmp_path / "elsewhere")
    with pytest.raises(InputMissingError, match=r"reads the ELMo model 'my-elmo'.*\n.*`vectors=FOLDER`"):
        eh.open(lonely)
    assert eh.open(lonely, vectors=str(tmp_path / "elsewhere")).digest == subject.digest


def test_other_maps_and_another_elmo_model_are_noted(tmp_path: Path) -> None:
    first, second = (SoftProjection(np.eye(4)[[row]]) for row in (0, 1))
    path = saved(tmp_path, {"embeddings": first})
    assert "trained over ELMo with maps at embeddings" in eh.open(path).view("inference").note
    assert "trained on vectors mapped by the same map" in eh.open(path, change=first).view("inference").note
    assert "at test time only" in eh.open(path, change=second).view("inference").note
    assert eh.open(path, change=first).digest != eh.open(path, change=second).digest
    save_tiny_elmo(tmp_path / "other", scale=0.5)
    other = eh.open(path, vectors=str(tmp_path / "other"), change=first)
    assert "trained over another ELMo model than other" in other.view("inference").note


def test_the_verbs_open_it(tmp_path: Path) -> None:
    path = saved(tmp_path)
    asked = ["--device", "cpu", "--json"]
    done = CliRunner().invoke(app, ["probe", str(path), "--probe", "mab-explicit", "--sample", "60", *asked])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["n_pairs"] > 50
    plan = tmp_path / "plan.toml"
    done = CliRunner().invoke(
        app, ["audit", str(path), "--vectors", str(tmp_path / "my-elmo"), "--write-plan", str(plan)]
    )
    assert done.exit_code == 0, done.output
    assert "nli-neutrality" in plan.read_text()
    question = ["measure", "nli-neutrality", str(path), "--query", "gender-occupation", "--set", "sample=100"]
    done = CliRunner().invoke(app, [*question, *asked])
    assert done.exit_code == 0, done.output
    assert 0 < json.loads(done.stdout)["value"] < 1
