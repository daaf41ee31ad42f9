"""The models in the package: three seeds a condition, each over its own vectors, and which vectors they can read."""

import subprocess
import sys
from importlib import resources

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import UnknownNameError
from evenhand.measures.inference import embedded, projected
from evenhand.subjects.embedded_nli import (
    AT_TEST_TIME,
    CONDITIONS,
    RETRAINED,
    SEEDS,
    EmbeddedModels,
    card,
    find_models,
    settings,
)
from evenhand.subspaces import learn

PAIRS = (["The nurse ate a meal."], ["The woman ate a meal."])


@pytest.mark.parametrize("condition", CONDITIONS)
def test_three_seeds_that_answer_differently(condition):
    models = embedded(condition, device="numpy")
    assert [model.name for model in models] == [f"{condition}-{seed}" for seed in SEEDS]
    answers = np.concatenate([model.predict(*PAIRS).matrix for model in models])
    assert answers.sum(axis=1) == pytest.approx(1, abs=1e-5)
    assert len(np.unique(answers.round(6), axis=0)) == len(SEEDS)


@pytest.mark.parametrize("condition", CONDITIONS)
def test_files_are_small_and_say_what_they_are(condition):
    folder = resources.files("evenhand.data") / "embedded" / "nli"
    for seed, about in zip(SEEDS, settings(condition), strict=True):
        assert len((folder / f"{condition}-{seed}.safetensors").read_bytes()) < 1_000_000
        assert (about["seed"], about["condition"]) == (seed, condition)
        assert all(0 <= share <= 1 for share in about["accuracy"].values())
    assert card().startswith("#")


def test_an_unknown_condition():
    with pytest.raises(UnknownNameError, match="projected"):
        embedded("project")


def test_projected_vectors_are_those_of_the_method(glove: eh.Vectors):
    ours, method = projected(glove), eh.mitigations.LinearProjection().fit(glove, "gender")(glove)
    assert np.abs(ours.matrix - method.matrix).max() < 1e-6
    she, he = (glove[word].astype(np.float64) for word in ("she", "he"))
    g = she / np.linalg.norm(she) - he / np.linalg.norm(he)
    assert np.abs(ours.matrix @ g).max() < 1e-5
    assert ours.history[-1]["method"] == "linear"


def test_each_condition_reads_its_own_vectors(glove: eh.Vectors):
    direction = learn(glove, eh.concept("gender"))
    assert embedded("original")[0].vectors == glove
    assert np.abs(direction.coordinates(embedded("projected")[0].vectors.matrix)).max() < 1e-5


def test_which_models_fit_which_vectors(glove: eh.Vectors, tmp_path):
    linear = eh.mitigations.LinearProjection().fit(glove, "gender")(glove)
    span = eh.mitigations.Span().fit(glove, "gender")(glove)
    assert find_models(glove) == EmbeddedModels("original", "")
    assert find_models(linear) == EmbeddedModels("projected", RETRAINED)
    assert find_models(eh.Vectors.load(linear.save(tmp_path / "linear.safetensors"))) == EmbeddedModels(
        "projected", RETRAINED
    )
    assert find_models(span) == EmbeddedModels("original", AT_TEST_TIME)


def test_other_vectors_have_no_models(glove: eh.Vectors):
    assert find_models(eh.Vectors(["he", "she"], np.eye(2), name="mine")) is None
    strange = eh.Vectors(glove.words, glove.matrix[:, ::-1], name="turned")
    assert find_models(strange) is None
    assert find_models(glove.head(1_000)) is None


def test_no_torch_is_needed():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from evenhand.measures.inference import embedded, probe_seeds\n"
        "found = probe_seeds(embedded(device='numpy'), 'mab-explicit', sample=40, draws=0, controls=False)\n"
        "assert len(found.results) == 3"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
