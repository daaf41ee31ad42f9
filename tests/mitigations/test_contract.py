"""Every method keeps the contract: what it works on, refusals before a fit, and changes that can be stored."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import FormatError, UsageError
from evenhand.mitigations import Mitigation, SiteChange, TextChange, VectorMap, VectorMethod, apply_methods, get, ids
from evenhand.mitigations.decoding.self_debias import DecodingChange
from evenhand.mitigations.method import chain_report, check_methods, composed, keeping_state, state_folder
from evenhand.mitigations.training.fine_tuning import TrainedWeights
from evenhand.subjects import Subject

KINDS = ("vectors", "corpus", "encoder", "masked", "causal", "nli")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("corpus") / "letters.txt"
    path.write_text("She is a nurse and he is a doctor.\n" * 20, encoding="utf-8")
    return path


@pytest.fixture
def subject(request: pytest.FixtureRequest, corpus: Path) -> Subject:
    """Open a subject of a kind; no weights are read."""
    models = {"encoder": "BertModel", "masked": "BertForMaskedLM", "causal": "GPT2LMHeadModel"}
    if request.param in models:
        pytest.importorskip("torch")
        folder = request.getfixturevalue("tiny_folder")
        return eh.open(f"hf:{folder(models[request.param])}", device="cpu")
    return eh.open({"vectors": "glove-embedded", "corpus": f"corpus:{corpus}", "nli": "embedded"}[request.param])


@pytest.mark.parametrize("id", ids())
@pytest.mark.parametrize("subject", KINDS, indirect=True)
def test_a_method_refuses_other_subjects_before_it_is_fitted(
    id: str, subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    method = get(id)()
    targets = type(method).works_on
    assert targets
    if any(target.accepts(subject) for target in targets):
        method.check_subject(subject)
        return
    for name in ("_fit", "_fit_subject", "_fit_vectors", "_train"):
        monkeypatch.setattr(type(method), name, lambda *given, **options: pytest.fail("it was fitted"), raising=False)
    for refuse in (method.check_subject, lambda s: method.fit(s, "gender")):
        with pytest.raises(UsageError) as caught:
            refuse(subject)
        assert caught.value.message.startswith(f"{id} works on ")
        assert all(target.title in caught.value.message for target in targets)
        assert caught.value.message.endswith(f" only; {subject.name} is {subject.title}")
        assert caught.value.hint


def test_vector_methods_are_those_that_fit_maps() -> None:
    assert {id for id in ids() if issubclass(get(id), VectorMethod)} == set(ids("vectors"))
    with pytest.raises(UsageError, match="cda does not fit a map of word vectors"):
        eh.mitigations.get_vector_method("cda")
    assert get("gp").takes == "minutes"
    assert get("linear").takes == "seconds"


@pytest.mark.parametrize("kind", [VectorMap, SiteChange, TextChange, DecodingChange, TrainedWeights])
def test_every_kind_of_change_keeps_the_protocol(kind: Any) -> None:
    assert kind.acts_on in ("vectors", "transformer", "text")
    assert all(callable(getattr(kind, name)) for name in ("__call__", "save", "load"))
    assert all(hasattr(kind, name) or name in kind.__dataclass_fields__ for name in ("digest", "report"))


def _fitted(name: str, corpus: Path, tiny_folder: Callable[..., Path]) -> tuple[Subject, Any]:
    if name in ("linear", "cda"):
        subject = eh.open("glove-embedded" if name == "linear" else f"corpus:{corpus}")
        return subject, get(name)().fit(subject, "gender")
    pytest.importorskip("torch")
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}", device="cpu")
    if name == "trained":  # another model stands for the result of a training
        return subject, TrainedWeights(tiny_folder("GPT2LMHeadModel", n_embd=8), {"method": "fine-tuning"})
    if name == "site":
        vm = get("linear")().fit(subject.view("vectors"), eh.Concept("size", groups={"a": ["the"], "b": ["is"]}))
        return subject, SiteChange.at("layer:1", vm)
    return subject, get("self-debias")().fit(subject, "gender")


@pytest.mark.parametrize("name", ["linear", "site", "self-debias", "trained", "cda"])
def test_a_change_is_stored_with_its_report(
    name: str, corpus: Path, tiny_folder: Callable[..., Path], tmp_path: Path
) -> None:
    subject, change = _fitted(name, corpus, tiny_folder)
    path = change.save(tmp_path / ("folder" if name == "trained" else "change.safetensors"))
    back = type(change).load(path)
    assert back.digest == change.digest
    assert dict(back.report) == dict(change.report)
    after, again = change(subject), back(subject)
    assert type(after) is type(subject)
    assert after.digest == again.digest != subject.digest
    assert after.unchanged is subject


def test_weights_that_do_not_match_are_refused(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    folder = TrainedWeights(tiny_folder("GPT2LMHeadModel"), {"method": "fine-tuning"}).save(tmp_path / "weights")
    weights = next(folder.glob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(FormatError, match="do not match their checksum"):
        TrainedWeights.load(folder)
    (folder / "evenhand.json").write_text("[]", encoding="utf-8")
    with pytest.raises(FormatError, match="not trained weights"):
        TrainedWeights.load(folder)


def test_an_audit_checks_every_method_before_it_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.audit.runner.measure_cell", lambda *given, **options: pytest.fail("it was measured"))
    with pytest.raises(UsageError, match="cda works on corpora only; glove-embedded is word vectors"):
        eh.Audit.run("glove-embedded", methods=["linear", "cda"], measures=["weat"])


def test_methods_are_applied_in_order_and_their_changes_compose(tmp_path: Path) -> None:
    subject = eh.open("glove-embedded")
    changed, changes = apply_methods([get("linear")(), get("random")()], subject, "gender")
    whole = composed(changes)
    np.testing.assert_allclose(changed.view("vectors").matrix, whole(subject).view("vectors").matrix, atol=1e-6)
    assert [change.report["method"] for change in changes] == ["linear", "random"]
    written = changed.save(tmp_path / "after.safetensors")
    assert written.to_dict() == {"words": len(subject.view("vectors")), "dimensions": subject.view("vectors").dim}
    assert (eh.Vectors.load(tmp_path / "after.safetensors").matrix == changed.view("vectors").matrix).all()
    with pytest.raises(UsageError, match="cannot be combined"):
        composed([changes[0], get("cda")().fit(None, "gender")])


def test_training_comes_first(tiny_folder: Callable[..., Path]) -> None:
    pytest.importorskip("torch")
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}", device="cpu")
    check_methods([get("fine-tuning")(), get("linear")()], subject, "gender")
    with pytest.raises(UsageError, match="fine-tuning trains the stored weights, so it must be the first method"):
        check_methods([get("linear")(), get("fine-tuning")()], subject, "gender")


def test_the_state_of_a_fit_stays_where_it_was_stopped(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    for error in (True, False):
        folder.mkdir(exist_ok=True)
        try:
            with keeping_state(folder):
                assert state_folder() == folder
                if error:
                    raise KeyboardInterrupt
        except KeyboardInterrupt:
            assert folder.exists()
    assert not folder.exists()
    assert state_folder() is None


def test_a_subject_that_cannot_be_written_says_so(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="was not changed: there is nothing to write"):
        eh.open(f"corpus:{corpus}").save(tmp_path / "out.txt")
    with pytest.raises(UsageError, match="an NLI model, which cannot be written"):
        eh.open("embedded").save(tmp_path / "out")


def test_the_base_class_is_abstract() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Mitigation()  # type: ignore[abstract]


def test_a_chain_of_two_reports_both_and_one_change_itself() -> None:
    first, second = (SimpleNamespace(report={"method": name}) for name in ("linear", "hard"))
    assert chain_report([]) == {}
    assert chain_report([first]) == {"method": "linear"}
    assert chain_report([first, second]) == {
        "method": "linear.hard",
        "chain": [{"method": "linear"}, {"method": "hard"}],
    }
