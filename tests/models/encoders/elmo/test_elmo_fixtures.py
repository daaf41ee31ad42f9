"""AllenNLP's test files: small weights in the published layout with the vectors that its program computes."""

import json
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
h5py = pytest.importorskip("h5py")

from evenhand.models.encoders.elmo.encoder import Elmo  # noqa: E402

pytestmark = pytest.mark.data


@pytest.fixture(scope="module")
def fixtures(data_folder: Path) -> Path:
    folder = data_folder / "elmo-fixtures"
    if not folder.is_dir():
        pytest.skip(f"{folder} is not there")
    return folder


def test_token_vectors(fixtures: Path) -> None:
    words = (fixtures / "vocab_test.txt").read_text(encoding="utf-8").split()
    with h5py.File(fixtures / "elmo_token_embeddings.hdf5") as file:
        expected = np.asarray(file["embedding"])
    table = Elmo.load(fixtures, device="cpu").token_table(words)
    assert expected.shape == (458, 16)
    np.testing.assert_allclose(table.vectors[table(words)].numpy(), expected, atol=1e-5)


def test_the_top_layer_of_thirty_sentences_in_three_streams(fixtures: Path) -> None:
    elmo = Elmo.load(fixtures / "options.json", device="cpu")
    content = json.loads((fixtures / "sentences.json").read_text(encoding="utf-8"))
    streams = [[text.split() for text in texts] for texts in content]
    expected: list[list[np.ndarray]] = []
    for number in range(3):
        with h5py.File(fixtures / f"lm_embeddings_{number}.hdf5") as file:
            expected.append([np.asarray(file[str(sentence)]) for sentence in range(10)])
    worst = stateless = 0.0
    for batch, vectors in enumerate(elmo.stateful_vectors(zip(*streams, strict=True))):
        plain = elmo.vectors([stream[batch] for stream in streams])
        for stream in range(3):
            top, other = (np.stack(np.split(v[stream][2], 2, -1)) for v in (vectors, plain))
            worst = max(worst, abs(top - expected[stream][batch]).max())
            if batch:
                stateless = max(stateless, abs(other - expected[stream][batch]).max())
    assert worst < 1e-5
    assert stateless > 1  # the published program carries its state over, so that only the stateful pass agrees
