"""Intra-sentence attention in the model that needs no torch: word order, distances, its file, whole probes."""

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import FormatError
from evenhand.models.nli import DecomposableAttention, load
from evenhand.models.nli.decomposable import DISTANCES, distance_indices, random_arrays
from evenhand.models.nli.protocol import predict_points
from evenhand.words.probes import Filler, Probe
from evenhand.words.template import Template

WORDS = ("the", "man", "woman", "nurse", "met", "dog", ".")


def model(intra=True, **options):
    words = eh.Vectors(WORDS, np.random.default_rng(1).normal(0, 1, (len(WORDS), 6)))
    return DecomposableAttention(random_arrays(6, 8, intra=intra), words, **options)


def test_distances_are_signed_and_capped():
    places = distance_indices(14)
    assert places.shape == (14, 14)
    assert (np.diag(places) == 11).all()
    assert places[13, 0] == places[12, 0] == places[11, 0] == 22
    assert places[10, 0] == 21
    assert places[0, 13] == 0
    assert DISTANCES == 23


@pytest.mark.parametrize("intra", [False, True])
def test_word_order_matters_with_it_only(intra):
    one = model(intra).predict(["the man met the dog ."], ["the nurse met ."]).matrix
    other = model(intra).predict(["the dog met the man ."], ["the nurse met ."]).matrix
    assert (np.abs(one - other).max() > 1e-4) == intra


def test_by_hand():
    """One token attends to itself alone, so that it goes on as itself twice, whatever the distance bias."""
    found = model()
    weights = found.arrays
    p, h = (found.vectors.matrix[[row]] @ weights["project.weight"].T for row in (1, 2))

    def apply(network, x):
        for layer in (f"{network}.0", f"{network}.1"):
            x = np.maximum(x @ weights[f"{layer}.weight"].T + weights[f"{layer}.bias"], 0)
        return x

    wide = [np.concatenate([side, side], 1) for side in (p, h)]
    sums = [apply("compare", np.concatenate(pair, 1)) for pair in (wide, wide[::-1])]
    logits = apply("aggregate", np.concatenate(sums, 1)) @ weights["output.weight"].T + weights["output.bias"]
    expected = np.exp(logits) / np.exp(logits).sum()
    assert found.predict(["man"], ["woman"]).matrix == pytest.approx(expected, abs=1e-6)


def test_whole_probe_pair_by_pair():
    template = Template("t", "The {subject} met the {object}.", {"object": ["dog", "man"]})
    probe = Probe("p", (template,), (Filler("nurse"),), (Filler("man"), Filler("woman")))
    found = np.concatenate([grid.probabilities for grid in model().grids(probe)])
    points = probe.points(0, int(np.prod(probe.shape)))
    assert found.reshape(-1, 3) == pytest.approx(predict_points(model(), probe, points), abs=1e-6)


def test_its_file(tmp_path):
    one = model(name="mine")
    again = load(one.save(tmp_path / "m.safetensors"), one.vectors, device="numpy")
    asked = (["the man met the dog ."], ["the woman met ."])
    assert again.predict(*asked).matrix == pytest.approx(one.predict(*asked).matrix)
    arrays = one.arrays
    with pytest.raises(FormatError, match=r"intra\.0\.weight"):
        DecomposableAttention({name: a for name, a in arrays.items() if name != "intra.0.weight"}, one.vectors)
    with pytest.raises(FormatError, match=r"intra\.distance.*expected \(23,\)"):
        DecomposableAttention({**arrays, "intra.distance": np.zeros(11)}, one.vectors)
