"""Every table that is computed without a text gives numbers of the rows and columns that the paper prints."""

from __future__ import annotations

import numpy as np
import pytest

from evenhand import reproduce, words
from evenhand.measures.inference import probe_seeds
from evenhand.models.vectors import Vectors
from evenhand.reproduce.inputs import PaperInputs
from evenhand.subjects import embedded_nli

FROM_TEXT = {"ethayarajh2019/table-2", *(f"bordia2019/table-{number}" for number in (1, 2, 3, 5, 6, 7, 8))}
MINUTES = {"dawkins2021/table-6"}
FROM_GIVEN_VECTORS = {"dev2019/table-12"}
WITHOUT_NUMBERS = {"ethayarajh2019/section-4"}


@pytest.fixture(scope="module")
def inputs() -> PaperInputs:
    return PaperInputs(sample=300)


@pytest.mark.parametrize(
    "id",
    [
        pytest.param(id, marks=pytest.mark.slow) if id in MINUTES else id
        for id in reproduce.COMPUTED
        if id not in FROM_TEXT | FROM_GIVEN_VECTORS
    ],
)
def test_the_numbers_are_those_that_the_paper_prints(id: str, inputs: PaperInputs) -> None:
    found = reproduce.beside(id, inputs)
    (computed,) = [series for series in found.series if not series.recorded]
    assert found.missing == ()
    assert bool(computed.values) == (id not in WITHOUT_NUMBERS)
    assert bool(computed.values) or computed.table
    assert {key for key in computed.values if key not in found.item.published()} == set()
    assert all(value.interval is None or value.interval[0] <= value.value <= value.interval[1] or value.n
               for value in computed.values.values())  # fmt: skip
    if found.item.expect and computed.values:
        assert found.holds[computed.name] in ("yes", "no", "unclear")


@pytest.mark.parametrize("id", sorted(FROM_TEXT - {"ethayarajh2019/table-2"}))
def test_a_text_that_is_absent_is_named_with_the_command_that_fetches_it(
    id: str, inputs: PaperInputs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenhand.reproduce.bordia2019.locate", lambda name: None)
    (message,) = reproduce.beside(id, inputs).missing
    assert "evenhand fetch" in message


def test_directions_of_token_vectors_are_computed_from_given_ones(inputs: PaperInputs) -> None:
    """The embedded GloVe vectors stand in for those of an encoder: the numbers are those of table 7 then."""
    without = reproduce.beside("dev2019/table-12", inputs)
    assert "--vectors" in without.missing[0]
    assert all(series.recorded for series in without.series)
    vectors = Vectors.default()
    given, _ = reproduce.beside("dev2019/table-12", PaperInputs(vectors=(vectors,))).series
    glove = reproduce.beside("dev2019/table-7", inputs).series[0]
    assert given.values == glove.values
    assert len(given.values) == 12
    gendered = np.array([vectors[one] - vectors[other] for one, other in words.pairs("dev2019-gendered").pairs])
    _, sizes, rows = np.linalg.svd(gendered, full_matrices=False)
    he_she = np.subtract(*(vectors[word] / np.linalg.norm(vectors[word]) for word in ("she", "he")))
    assert given.values["Gendered", "2nd"].value == pytest.approx(sizes[1] / sizes[0], abs=1e-5)
    cosine = abs(rows[0] @ he_she) / np.linalg.norm(he_she)
    assert given.values["Gendered", "cosine"].value == pytest.approx(cosine, abs=1e-5)


def test_projected_rows_of_nationality_and_religion_are_those_of_models_over_projected_vectors(
    inputs: PaperInputs,
) -> None:
    found = reproduce.beside("dev2019/table-9", inputs).series[0]
    assert "at test only" in found.name
    vectors = Vectors.default()
    demonyms = np.array([vectors[word] for word in words.wordset("dev2019-demonyms-train")])
    _, _, rows = np.linalg.svd(demonyms - demonyms.mean(axis=0), full_matrices=False)
    matrix = vectors.matrix.astype(np.float64)
    without = vectors.with_matrix((matrix - np.outer(matrix @ rows[0], rows[0])).astype(np.float32), step={})
    asked = probe_seeds(embedded_nli.read("original", without), "nationality-polarity", sample=300, controls=False)
    value = found.values["nationality projected", "NN"]
    assert value.value == pytest.approx(asked.scores["net_neutral"].mean, abs=1e-5)
    before = found.values["nationality original", "NN"].value
    assert value.value != pytest.approx(before, abs=1e-4)
    change = found.values["nationality projected - nationality original", "NN"]
    assert change.value == pytest.approx(value.value - before, abs=1e-9)
