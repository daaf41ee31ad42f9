"""ELMo models as subjects: addresses, views, changes."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import evenhand as eh  # noqa: E402
from evenhand.errors import FormatError, InputMissingError, UnknownNameError, UsageError  # noqa: E402
from evenhand.mitigations.maps.coordinates import SoftProjection  # noqa: E402
from evenhand.models.encoders.elmo.encoder import Elmo  # noqa: E402
from evenhand.models.encoders.sentences import SentenceEncoder  # noqa: E402
from evenhand.subjects import Subject  # noqa: E402
from tiny_elmo import save_tiny_elmo  # noqa: E402

WORDS = ["he", "she", "man", "woman", "king", "queen", "nurse", "doctor", "John", "Mary"]
TEXTS = ["The nurse slept.", "He saw the doctor"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = save_tiny_elmo(tmp_path_factory.mktemp("models") / "tiny")
    (place / "words.txt").write_text("\n".join(WORDS) + "\n\n", encoding="utf-8")
    return place


@pytest.fixture
def subject(folder: Path) -> Subject:
    return eh.open(f"elmo:{folder}", device="cpu", vocabulary=folder / "words.txt")


def test_a_folder_is_recognised_and_offers_vectors_and_sentences(folder: Path) -> None:
    for address in (
        str(folder),
        f"elmo:{folder}",
        f"elmo:{folder / 'weights.safetensors'}",
        f"elmo:{folder / 'options.json'}",
    ):
        opened = eh.open(address)
        assert (opened.kind, opened.name, opened.offers) == ("elmo", "tiny", ("vectors", "sentences"))


def test_sentences_have_every_layer_and_the_mean_of_them(subject: Subject, folder: Path) -> None:
    view = subject.view("sentences")
    assert isinstance(view, SentenceEncoder)
    layers = view.encode_layers(TEXTS)
    assert (view.layers, layers.shape) == (3, (4, 2, 8))
    states = Elmo.load(folder, device="cpu").vectors([["The", "nurse", "slept", "."], ["He", "saw", "the", "doctor"]])
    np.testing.assert_allclose(layers[:3, 0], states[0].mean(1), atol=1e-6)
    np.testing.assert_allclose(layers[3], layers[:3].mean(0), atol=1e-6)
    np.testing.assert_allclose(view.encode(TEXTS), layers[3], atol=1e-6)


def test_vectors_are_token_vectors_of_a_list_of_words(subject: Subject, folder: Path, tmp_path: Path) -> None:
    vectors = subject.view("vectors")
    assert vectors.words == tuple(WORDS)
    states = Elmo.load(folder, device="cpu").vectors([WORDS])[0][0, :, :4]
    np.testing.assert_allclose(vectors.matrix, states, atol=1e-6)
    (tmp_path / "none.txt").write_text("\n")
    with pytest.raises(FormatError, match="no words"):
        eh.open(str(folder), vocabulary=tmp_path / "none.txt").view("vectors")
    with pytest.raises(InputMissingError, match="vocabulary"):
        eh.open(str(folder), vocabulary=tmp_path / "nothing.txt").view("vectors")


def test_measures_of_words_and_of_sentences_apply(subject: Subject) -> None:
    query = eh.Query(targets=(["king", "man"], ["queen", "woman"]), attributes=(["he"], ["she"]))
    assert np.isfinite(eh.measures.weat(subject.view("vectors"), query, seed=0).value)
    seat = eh.measures.get("seat")(subject.view("sentences"), query, seed=0)
    assert np.isfinite(seat.value)
    assert seat.params["layer"] == 3  # the mean of the layers
    audit = eh.Audit.run(subject, methods=["linear"], measures=["weat", "seat"], concept="gender", seed=0)
    assert {result.stage for result in audit.results} >= {"original", "linear"}


def test_a_map_of_words_acts_on_the_token_vectors(subject: Subject) -> None:
    change = eh.mitigations.LinearProjection().fit(
        subject.view("vectors"),
        eh.Concept(name="g", groups={"m": ["he", "man"], "f": ["she", "woman"]}, pairs=[("he", "she")]),
    )
    after = subject.changed(change)
    np.testing.assert_allclose(after.view("vectors").matrix, change(subject.view("vectors")).matrix, atol=1e-5)
    before, changed = (s.view("sentences").encode_layers(TEXTS) for s in (subject, after))
    assert all(abs(before[layer] - changed[layer]).max() > 1e-4 for layer in range(4))
    assert after.digest != subject.digest
    assert after.describe()["maps"] == {"embeddings": change.digest}
    assert "maps" not in subject.describe()
    again = pickle.loads(pickle.dumps(after))  # as a worker receives it: opened again, and changed again
    assert again.digest == after.digest
    assert (again.view("sentences").encode(TEXTS) == after.view("sentences").encode(TEXTS)).all()


def test_maps_by_site_and_two_maps_at_one_site(subject: Subject) -> None:
    first, second = (SoftProjection(np.eye(8)[[row]]) for row in (0, 1))
    once = subject.changed({"layer:1": first})
    twice = once.changed({"layer:1": second})
    plain, layers = (s.view("sentences").encode_layers(TEXTS) for s in (subject, twice))
    np.testing.assert_allclose(layers[1][:, :2], 0, atol=1e-6)
    np.testing.assert_allclose(layers[1][:, 2:], plain[1][:, 2:], atol=1e-6)
    np.testing.assert_array_equal(layers[[0, 2]], plain[[0, 2]])
    assert len({subject.digest, once.digest, twice.digest}) == 3
    with pytest.raises(UnknownNameError, match="layer:9"):
        subject.changed({"layer:9": first})


def test_the_digest_follows_content_and_vocabulary(subject: Subject, folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert eh.open(str(copy), vocabulary=copy / "words.txt").digest == subject.digest
    assert eh.open(str(copy)).digest != subject.digest
    other = save_tiny_elmo(tmp_path / "other", seed=1)
    assert eh.open(str(other)).digest != eh.open(str(copy)).digest


def test_another_process_opens_the_same_model(folder: Path) -> None:
    subject = eh.open(str(folder))
    assert pickle.loads(pickle.dumps(subject)).digest == subject.digest


def test_what_is_not_a_model_is_not_recognised(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "options.json").write_text(json.dumps({"verbose": True}))
    (tmp_path / "weights.safetensors").touch()
    with pytest.raises(UsageError, match="not something evenhand can open"):
        eh.open(str(tmp_path))
    (tmp_path / "options.json").write_text("{")
    with pytest.raises(UsageError, match="not something evenhand can open"):
        eh.open(str(tmp_path))
    with pytest.raises(InputMissingError, match="no ELMo model there"):
        eh.open(f"elmo:{tmp_path / 'nothing'}")
    with pytest.raises(UsageError, match="documents does not apply"):
        eh.open(str(folder), documents="line")


def test_the_catalog_names_the_published_files() -> None:
    entry = eh.data.get("elmo-original")
    assert entry.unverified
    assert [file.name.rpartition("_")[2] for file in entry.files] == ["options.json", "weights.hdf5"]
