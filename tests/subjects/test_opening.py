"""From an address to a subject: what each address means, and what is said when it means nothing or two things."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.models.nli import LABELS, CallableModel, NLIEnsemble
from evenhand.subjects import SUBJECTS, Subject, TextView, open_subject
from evenhand.subjects.opening import parse_address


def config_folder(folder: Path, **config: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def predictions(path: Path) -> Path:
    path.write_text('{"entailment": 0.2, "neutral": 0.5, "contradiction": 0.3}\n')
    return path


def test_vectors_by_file_catalog_id_and_object(glove: eh.Vectors, tmp_path: Path) -> None:
    small = eh.Vectors(["a", "b"], [[1.0, 0.0], [0.0, 1.0]], name="small")
    path = small.save(tmp_path / "small.vec")
    for source in (str(path), path, f"vectors:{path}"):
        subject = eh.open(source)
        assert (subject.kind, subject.offers) == ("vectors", ("vectors", "sentences"))
        assert subject.view("vectors").words == small.words
    assert eh.open("glove-embedded").offers == ("vectors", "inference", "sentences")
    assert eh.open(glove).view("vectors") is glove
    subject = eh.open(small)
    assert open_subject(subject) is subject


def test_equal_content_has_an_equal_digest_wherever_it_lies(tmp_path: Path) -> None:
    one = eh.Vectors(["a", "b"], [[1.0, 0.5], [0.0, 1.0]], name="one")
    other = eh.Vectors(["a", "b"], [[1.0, 0.5], [0.0, 1.25]], name="one")
    file = one.save(tmp_path / "one.safetensors")
    assert eh.open(one).digest == eh.open(file).digest
    assert eh.open(one).digest != eh.open(other).digest


@pytest.mark.parametrize(
    ("config", "kind", "offers"),
    [
        (
            {"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 9},
            "encoder",
            ("vectors", "sentences", "likelihood"),
        ),
        ({"architectures": ["BertModel"], "model_type": "bert", "vocab_size": 9}, "encoder", ("vectors", "sentences")),
        (
            {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "vocab_size": 9},
            "lm",
            ("vectors", "sentences", "likelihood", "text", "generation"),
        ),
    ],
)
def test_the_kind_of_a_hugging_face_folder_is_read_from_its_config(
    config: dict[str, object], kind: str, offers: tuple[str, ...], tmp_path: Path
) -> None:
    folder = config_folder(tmp_path / "model", **config)
    for address in (f"hf:{folder}", str(folder)):
        subject = eh.open(address)
        assert (subject.kind, subject.offers) == (kind, offers)


def test_a_corpus_by_prefix_and_by_unambiguous_suffix(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("she is a nurse\n")
    (tmp_path / "a.jsonl").write_text('{"text": "she is a nurse"}\n')
    for address in (f"corpus:{tmp_path / 'a.txt'}", f"corpus:{tmp_path / '*.txt'}", str(tmp_path / "a.jsonl")):
        subject = eh.open(address)
        assert subject.offers == ("text",)
        assert isinstance(subject.view("text"), TextView)


def test_the_digest_of_a_corpus_follows_its_content_and_how_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"text": "she"}\n')
    first = eh.open(str(file)).digest
    assert eh.open(str(file)).digest == first
    assert eh.open(str(file), documents="line").digest != first
    file.write_text('{"text": "he"}\n')
    assert eh.open(str(file)).digest != first


def test_predictions_are_told_from_a_corpus_by_their_first_line(tmp_path: Path) -> None:
    assert eh.open(str(predictions(tmp_path / "p.jsonl"))).kind == "nli"
    (tmp_path / "c.jsonl").write_text('{"text": "words"}\n')
    assert eh.open(str(tmp_path / "c.jsonl")).kind == "corpus"


def test_a_model_in_memory(tmp_path: Path) -> None:
    model = CallableModel(lambda p, h: np.tile([0.2, 0.5, 0.3], (len(p), 1)), LABELS, "flat")
    assert eh.open(model, digest="1").offers == ("inference",)
    assert eh.open(NLIEnsemble((model, model), "twice"), digest="1").view("inference").note == "twice"
    with pytest.raises(eh.EvenhandError, match="digest"):
        _ = eh.open(model).digest


def test_embedded_models_are_a_subject() -> None:
    subject = eh.open("embedded:projected")
    assert subject.offers == ("inference", "vectors")
    assert len(subject.view("inference")) == 3
    assert eh.open("embedded").digest != subject.digest


@pytest.mark.parametrize(
    ("address", "code", "says"),
    [
        ("nothing.vec", 4, "nothing.vec"),
        ("nothing", 4, "neither a file, a folder nor a catalog id"),
        ("hf:nothing", 4, "nothing"),
        ("", 2, "empty"),
        ("   ", 2, "empty"),
        ("odd.xyz", 2, "not something evenhand can open"),
        ("folder", 2, "config.json"),
        ("corpus:nothing.txt", 4, "nothing.txt"),
        ("gguf:odd.xyz", 2, "not a language model"),
    ],
)
def test_an_address_that_means_nothing_says_what_was_looked_for(
    address: str, code: int, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "odd.xyz").write_text("odd")
    (tmp_path / "folder").mkdir()
    with pytest.raises(eh.EvenhandError, match=says) as raised:
        eh.open(address)
    assert raised.value.exit_code == code


def test_a_config_without_a_kind_and_without_weights(tmp_path: Path) -> None:
    with pytest.raises(eh.EvenhandError, match=r"config\.json"):
        eh.open(f"hf:{config_folder(tmp_path / 'empty')}")
    bert = config_folder(tmp_path / "bert", architectures=["BertModel"], model_type="bert", vocab_size=9)
    with pytest.raises(eh.EvenhandError, match="bert"):
        eh.open(f"hf:{bert}").view("vectors")


def test_two_kinds_at_once_are_refused_with_the_choices(tmp_path: Path) -> None:
    @SUBJECTS.register("rival")
    class Rival(Subject):
        kind, title = "rival", "a rival"
        offers = ()

        @classmethod
        def recognise(cls, address: object) -> str:
            return "it always says yes"

    try:
        path = eh.Vectors(["a"], [[1.0]]).save(tmp_path / "v.vec")
        with pytest.raises(eh.EvenhandError, match="could be several things: ") as raised:
            eh.open(str(path))
        assert f"vectors:{path}" in str(raised.value)
        assert eh.open(f"vectors:{path}").kind == "vectors"
    finally:
        SUBJECTS._objects.pop("rival")


def test_options_of_another_kind_are_refused(tmp_path: Path) -> None:
    path = eh.Vectors(["a"], [[1.0]]).save(tmp_path / "v.vec")
    with pytest.raises(eh.EvenhandError, match="device"):
        eh.open(str(path), device="cpu")


def test_objects_of_no_kind_are_refused() -> None:
    with pytest.raises(eh.EvenhandError, match="int cannot be audited"):
        eh.open(3)


def test_a_missing_view_names_what_is_offered(glove: eh.Vectors, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("she\n")
    with pytest.raises(eh.EvenhandError, match=r"does not offer the view 'vectors'.*\n.*text"):
        eh.open(f"corpus:{tmp_path / 'a.txt'}").view("vectors")
    with pytest.raises(eh.EvenhandError, match="no view 'vector'"):
        eh.open(glove).view("vector")


def test_a_kind_names_its_scheme() -> None:
    assert parse_address("hf:./x").scheme == "hf"
    assert parse_address("c:/windows/style.vec").scheme == ""


def test_opening_vectors_imports_no_framework() -> None:
    code = (
        "import sys, evenhand as eh\n"
        "eh.open('glove-embedded').view('vectors')\n"
        "print([m for m in ('torch', 'transformers', 'sklearn', 'scipy.stats') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
