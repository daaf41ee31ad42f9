"""The layers of pairs against their definition, the arrays that blocks share, and how blocks are cut."""

from threading import Thread

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.models.nli.backend import backend
from evenhand.models.nli.factorised import TILE_ROWS, PairLayers, Workspace, cut_blocks, softmax

HIDDEN = 5
NUMPY = backend("numpy", workers=1)


def random_layers(seed=0):
    rng = np.random.default_rng(seed)

    def layer(inputs, outputs=HIDDEN):
        return rng.normal(size=(inputs, outputs)).astype(np.float32), rng.normal(size=outputs).astype(np.float32)

    return layer(HIDDEN), (layer(2 * HIDDEN), layer(HIDDEN)), layer(HIDDEN, 3)


def by_definition(layers, rows, tokens):
    """The layers one after the other in double precision; the first `tokens` rows belong to the premise."""
    (matrix, bias), aggregate, (output, output_bias) = layers
    compared = np.maximum(np.maximum(rows.astype(float), 0) @ matrix + bias, 0)
    x = np.concatenate([compared[:tokens].sum(0), compared[tokens:].sum(0)], -1)
    for weight, shift in aggregate:
        x = np.maximum(x @ weight + shift, 0)
    powers = np.exp(x @ output + output_bias)
    return (powers / powers.sum(-1, keepdims=True)).T


def by_layers(layers, rows, tokens):
    _, pairs, _ = rows.shape
    layers.rows(rows.shape)[:] = rows
    compared = layers.compare(len(rows), pairs)
    sums = np.stack([compared[:, :tokens].sum(1), compared[:, tokens:].sum(1)], 1)
    return layers.classify(sums, (tokens, len(rows) - tokens))


@given(
    sizes=st.lists(
        st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 2 * TILE_ROWS + 3)), min_size=1, max_size=4
    ),
    seed=st.integers(0, 99),
)
def test_layers_equal_their_definition_whatever_block_came_before(sizes, seed):
    arrays, rng = random_layers(seed), np.random.default_rng(seed)
    layers = PairLayers(NUMPY, *arrays, HIDDEN)
    for premise, hypothesis, pairs in sizes:
        rows = rng.normal(size=(premise + hypothesis, pairs, HIDDEN)).astype(np.float32)
        assert by_layers(layers, rows, premise) == pytest.approx(by_definition(arrays, rows, premise), abs=2e-5)


def test_threads_have_arrays_of_their_own():
    workspace = Workspace(NUMPY, HIDDEN)
    own, others = workspace.array(0, (4, HIDDEN)), []
    thread = Thread(target=lambda: others.append(workspace.array(0, (4, HIDDEN))))
    thread.start()
    thread.join()
    assert not np.shares_memory(own, others[0])
    assert np.shares_memory(own, workspace.array(0, (2, HIDDEN)))
    assert not np.shares_memory(own, workspace.array(1, (2, HIDDEN)))


def test_the_floor_of_an_array_by_hand():
    workspace = Workspace(NUMPY, 2)
    rows = workspace.array(0, (TILE_ROWS + 1, 2))
    rows[:] = [[1, -1]]
    workspace.floor(0, len(rows), np.array([0, 3], np.float32))
    np.testing.assert_array_equal(rows, np.tile([1, 3], (TILE_ROWS + 1, 1)))


def test_softmax_over_an_axis_with_exponents_beyond_single_precision():
    found = softmax(np.array([[0, 1000], [0, 0]], np.float32), 0, NUMPY)
    np.testing.assert_array_equal(found, [[0.5, 1], [0.5, 0]])


sizes = st.integers(1, 40)


@given(phrases=sizes, subjects=sizes, each=sizes, most=st.integers(1, 3_000))
def test_blocks_cover_every_subject_of_every_phrase_once(phrases, subjects, each, most):
    seen = np.zeros((phrases, subjects), int)
    for part, cut in cut_blocks(phrases, subjects, each=each, most=most):
        block = seen[part, cut]
        block += 1
        assert block.size * each <= most or block.size == 1
    assert (seen == 1).all()
