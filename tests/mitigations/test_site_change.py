"""Methods at sites of a transformer: what they are fitted on, what every view of the changed model shows, and laws."""

import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import evenhand as eh  # noqa: E402
from evenhand.errors import EvenhandWarning, FormatError, UsageError  # noqa: E402
from evenhand.mitigations import SiteChange, get  # noqa: E402
from evenhand.mitigations.erasure.leace import Statistics  # noqa: E402
from evenhand.mitigations.labelled_words import train  # noqa: E402
from evenhand.mitigations.site_examples import (  # noqa: E402
    SENTENCES,
    concept_words,
    labelled_sentences,
    swapped_sentences,
    words_at,
)
from evenhand.models.encoders.activations import read_tokens, sentences_at, words_in_context  # noqa: E402
from evenhand.models.encoders.sites import Site  # noqa: E402

# Tiny models have more dimensions than a concept has words.
pytestmark = pytest.mark.filterwarnings("ignore:leace learns from")

Folder = Callable[..., Path]
PAIRS = [("she", "he"), ("woman", "man"), ("girl", "boy"), ("mother", "father"), ("daughter", "son"), ("queen", "king")]
GENDER = eh.Concept(
    "gender", pairs=PAIRS, positive="female", groups={"female": [p[0] for p in PAIRS], "male": [p[1] for p in PAIRS]}
)
TEXTS = ["the nurse said she opened the door", "he is a doctor", "the king and the queen", "a very nice home"]


@pytest.fixture(scope="module")
def bert(tiny_folder: Folder) -> Any:
    return eh.open(f"hf:{tiny_folder('BertForMaskedLM')}", device="cpu")


@pytest.fixture(scope="module")
def gpt(tiny_folder: Folder) -> Any:
    return eh.open(f"hf:{tiny_folder('GPT2LMHeadModel')}", device="cpu", samples=2, tokens=5)


@pytest.fixture(scope="module")
def nli(tiny_folder: Folder) -> Any:
    names = {0: "entailment", 1: "neutral", 2: "contradiction"}
    options = {"id2label": names, "label2id": {name: index for index, name in names.items()}}
    return eh.open(f"hf:{tiny_folder('BertForSequenceClassification', **options)}", device="cpu")


def encoded(subject: Any, **options: Any) -> Any:
    return subject.view("sentences").encode(TEXTS, **options)


def test_every_view_of_a_changed_masked_model_shows_the_change(bert: Any) -> None:
    before, table = encoded(bert), bert.view("vectors")
    scores = bert.view("likelihood").log_probabilities(TEXTS).log_probabilities
    change = get("linear")(site="embeddings").fit(bert, GENDER)
    changed = change(bert)
    assert type(changed) is type(bert)
    assert changed.digest != bert.digest
    assert changed.view("vectors") == change.steps[0][1](table)
    assert changed.view("vectors").history[-1]["method"] == "linear"
    assert np.abs(encoded(changed) - before).max() > 1e-3
    assert np.abs(changed.view("likelihood").log_probabilities(TEXTS).log_probabilities - scores).max() > 1e-3
    assert np.array_equal(encoded(bert), before)  # the original stays as it was
    assert bert.view("vectors") is table
    assert changed.describe()["changes"][0]["sites"] == ["embeddings"]
    again = pickle.loads(pickle.dumps(changed))  # as a worker receives it: opened again, and changed again
    assert again.digest == changed.digest
    assert np.array_equal(encoded(again), encoded(changed))


def test_every_view_of_a_changed_causal_model_shows_the_change(gpt: Any) -> None:
    change = get("linear")(site="layer:2").fit(gpt, GENDER)
    changed = change(gpt)
    scores = [s.view("likelihood").log_probabilities(TEXTS).log_probabilities for s in (gpt, changed)]
    assert np.abs(scores[0] - scores[1]).max() > 1e-3
    assert np.abs(encoded(gpt) - encoded(changed)).max() > 1e-3
    assert np.array_equal(encoded(gpt, layer=1), encoded(changed, layer=1))  # below the site
    assert changed.view("vectors") == gpt.view("vectors")
    assert changed.view("text").source != gpt.view("text").source


def test_an_nli_classifier_changes_with_all_its_views(nli: Any) -> None:
    premises, hypotheses = ["the man opened the door"] * 2, ["the woman opened the door", "a person is here"]
    before = nli.view("inference").members[0].predict(premises, hypotheses).matrix
    changed = get("linear")(site="pooled").fit(nli, GENDER)(nli)
    assert changed.offers == nli.offers
    assert np.abs(changed.view("inference").members[0].predict(premises, hypotheses).matrix - before).max() > 1e-4
    assert np.array_equal(nli.view("inference").members[0].predict(premises, hypotheses).matrix, before)
    assert np.array_equal(encoded(nli), encoded(changed))  # the pooler comes after the last layer


@pytest.mark.parametrize("id", ["linear", "span", "leace", "inlp", "soft", "oscar", "random"])
def test_vector_methods_work_at_the_table_and_at_a_layer(bert: Any, id: str) -> None:
    settings = {"labels": "groups"} if id in ("leace", "inlp") else {}
    concept = eh.concept("gender") if id == "oscar" else GENDER
    for site in ("embeddings", "layer:2"):
        with pytest.warns(EvenhandWarning) if site == "embeddings" and concept.names else _nothing():
            change = get(id)(site=site, **settings).fit(bert, concept)
        assert change.sites == (site,)
        report = json.loads(json.dumps(dict(change.report)))
        assert (report["method"], report["site"], report["when"]) == (id, site, "test")
        assert report["examples"]["words"] > 50
        assert np.isfinite(encoded(change(bert))).all()


def _nothing() -> Any:
    import contextlib

    return contextlib.nullcontext()


def test_words_are_read_in_context_and_averaged(bert: Any) -> None:
    site, contexts = Site("layer", 2), ["this is {word}.", "a {word} said that"]
    found = words_in_context(bert.network.transformer, site, ["nurse", "zebra"], contexts)
    assert found.split == ("zebra",)
    assert found.contexts == 2
    states = []
    for text, position in (("this is nurse.", 3), ("a nurse said that", 2)):
        ids = bert.network.transformer.tokenizer(text, return_tensors="pt")
        with torch.inference_mode():
            states.append(
                bert.network.transformer.model(**ids, output_hidden_states=True).hidden_states[2][0, position]
            )
    assert np.allclose(found.vectors["nurse"], torch.stack(states).mean(dim=0), atol=1e-5)
    lost = words_in_context(bert.network.transformer, site, ["nurse", "日本"], contexts)
    assert lost.lost == ("日本",)


def test_words_in_pieces_are_averaged_with_a_warning(bert: Any) -> None:
    concept = eh.Concept("size", groups={"big": ["nurse", "zebra"], "small": ["doctor", "日本"]})
    with pytest.warns(EvenhandWarning, match="1 words are split .* zebra"):
        found = words_at(bert.network.transformer, bert.view("vectors"), Site("embeddings"), concept_words(concept))
    assert (found.split, found.lost) == (("zebra",), ("日本",))
    table, tokenizer = bert.network.transformer.model.get_input_embeddings().weight, bert.network.transformer.tokenizer
    ids = tokenizer("zebra", add_special_tokens=False)["input_ids"]
    assert len(ids) > 1
    assert np.allclose(found.vectors["zebra"], table[ids].detach().mean(dim=0), atol=1e-6)


@pytest.mark.parametrize("site", ["embeddings", "layer:1", "attention:2", "layer:-1"])
def test_leace_leaves_a_linear_classifier_at_chance_there(bert: Any, site: str) -> None:
    change = get("leace")(site=site, labels="groups").fit(bert, GENDER)
    changed, where = change(bert), change.steps[0][0]
    words = [word for group in GENDER.groups.values() for word in group]
    y = np.repeat([0, 1], len(PAIRS))
    rows = [
        words_at(each.network.transformer, each.view("vectors"), where, concept_words(GENDER)).vectors.take(words)[0]
        for each in (bert, changed)
    ]
    # Without any difference between the means, the best linear classifier is constant.
    before, after = (float(np.ptp(train(x, y, intercept=True).scores(x))) for x in rows)
    assert before > 1
    assert after < 1e-3
    cross = np.abs(rows[1][y == 0].mean(axis=0) - rows[1][y == 1].mean(axis=0)).max()
    assert cross < 1e-4 * np.abs(rows[1]).max()


def test_a_control_of_equal_rank_keeps_the_concept(bert: Any) -> None:
    change = get("random")(site="layer:2", k=3, seed=4).fit(bert, GENDER)
    assert change.steps[0][1].rank_removed == 3
    assert change != get("random")(site="layer:2", k=3, seed=5).fit(bert, GENDER)
    words = [word for group in GENDER.groups.values() for word in group]
    gaps = []
    for subject in (bert, change(bert)):
        x = words_at(
            subject.network.transformer, bert.view("vectors"), Site("layer", 2), concept_words(GENDER)
        ).vectors.take(words)[0]
        gaps.append(np.linalg.norm(x[: len(PAIRS)].mean(axis=0) - x[len(PAIRS) :].mean(axis=0)))
    assert gaps[1] > 0.3 * gaps[0]


def test_sentence_debias_by_hand(bert: Any) -> None:
    change = get("sentence-debias")(k=2).fit(bert, GENDER)
    ((site, vm),) = change.steps
    assert str(site) == "layer:3"
    assert change.report["examples"] == {"source": f"{len(SENTENCES)} templates", "sentence_pairs": 6 * len(SENTENCES)}
    rows = []
    for pair in PAIRS:
        for text in SENTENCES:
            both = bert.view("sentences").encode([text.replace("{word}", word) for word in pair]).astype(np.float64)
            both /= np.linalg.norm(both, axis=1, keepdims=True)
            rows += list(both - both.mean(axis=0))
    _, _, right = np.linalg.svd(np.array(rows) - np.mean(rows, axis=0))
    expected = np.eye(16) - right[:2].T @ right[:2]
    assert np.allclose(vm.to_matrix()[0], expected, atol=1e-4)
    changed = change(bert)
    assert np.abs(encoded(changed) @ right[:2].T).max() < 1e-4


def test_swapped_sentences_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("She saw a man , and she left\nnothing here\n\nthe Queen\n")
    pairs, source = swapped_sentences(GENDER, str(file), most=10, seed=0)
    assert source == "lines.txt"
    assert pairs == [
        ("She saw a man , and she left", "He saw a man , and he left"),
        ("She saw a man , and she left", "She saw a woman , and she left"),
        ("the Queen", "the King"),
    ]
    assert len(swapped_sentences(GENDER, str(file), most=2, seed=0)[0]) == 2
    file.write_text("nothing here\n")
    with pytest.raises(UsageError, match="no sentence has a word"):
        swapped_sentences(GENDER, str(file), most=2, seed=0)


def test_sentences_are_sorted_by_the_group_they_mention(tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_text("A woman left.\nThe boy (a king) left.\nThe man and the woman\nthe door\n")
    found = labelled_sentences(GENDER, str(file), most=5, seed=0)
    assert found.classes == {"female": ["A woman left."], "male": ["The boy (a king) left."], "neutral": ["the door"]}
    templates = labelled_sentences(GENDER, None, most=9, seed=0)
    assert {len(texts) for texts in templates.classes.values()} == {9}
    file.write_text("the door\nthe window\n")
    with pytest.raises(eh.EvenhandError, match="neutral only"):
        labelled_sentences(GENDER, str(file), most=5, seed=0)


def test_erasure_from_sentence_labels(bert: Any) -> None:
    change = get("leace")(site="layer:2", examples="sentences").fit(bert, GENDER)
    chosen = labelled_sentences(GENDER, None, most=7500, seed=0)
    sizes = {name: len(texts) for name, texts in chosen.classes.items()}
    assert change.report["examples"]["sentences"] == sizes
    assert change.report["params"]["examples"] == "sentences"
    assert change.steps[0][1].rank_removed == 2
    assert change.report["accuracy_after"] <= change.report["majority"] + 0.1
    with pytest.raises(UsageError, match="learns from a transformer"):
        get("leace")(examples="sentences").fit(bert.view("vectors"), GENDER)
    with pytest.raises(UsageError, match="needs examples='sentences'"):
        get("inlp")(sentences="x.txt").fit(bert, GENDER)


@pytest.mark.parametrize("name", ["bert", "gpt"])
def test_scrubbing_erases_what_every_part_reads(name: str, request: pytest.FixtureRequest) -> None:
    subject = request.getfixturevalue(name)
    change = get("scrubbing")(per_class=40).fit(subject, GENDER)
    assert change.sites == ("attention:1", "mlp:1", "attention:2", "mlp:2", "attention:3", "mlp:3")
    assert change.report["rank_removed"] == [2] * 6
    scrubbed = change(subject).network.transformer
    chosen = labelled_sentences(GENDER, None, most=40, seed=0)
    texts = [text for group in chosen.classes.values() for text in group]
    y = np.repeat([0, 1, 2], 40)
    for site in change.sites:
        left = {}
        for label, transformer in (("before", subject.network.transformer), ("after", scrubbed)):
            statistics = Statistics(16, 3)
            read_tokens(transformer, site, texts, lambda rows, x, s=statistics: s.update(x.astype(np.float64), y[rows]))
            left[label] = float(np.abs(statistics.cross()).max())
            left[f"{label} trace"] = float(np.trace(statistics.covariance()))
        assert left["after"] < 1e-4 * left["before"], site
    assert np.abs(encoded(change(subject)) - encoded(subject)).max() > 1e-3


def test_an_oblique_eraser_of_nearly_equal_coordinates_adds_no_variance() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(400) % 2
    x = rng.standard_normal((400, 4)) @ np.array([[1, 0, 0, 0], [0.999, 0.01, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1.0]])
    x[:, 1] += 0.02 * y
    statistics = Statistics(4, 2).update(x, y)
    matrix, shift = statistics.eraser().to_matrix()
    mapped = x @ matrix + shift
    gap = mapped[y == 0].mean(axis=0) - mapped[y == 1].mean(axis=0)
    assert np.abs(gap).max() < 1e-9
    assert np.trace(np.cov(mapped, rowvar=False, bias=True)) <= np.trace(statistics.covariance()) * (1 + 1e-9)
    assert np.allclose(mapped.mean(axis=0), x.mean(axis=0))


def test_a_change_is_saved_and_loaded(bert: Any, tmp_path: Path) -> None:
    change = get("linear")(site="layer:-2").fit(bert, GENDER)
    path = change.save(tmp_path / "change.safetensors")
    again = SiteChange.load(path)
    assert again == change
    assert hash(again) == hash(change)
    assert again.report == json.loads(json.dumps(dict(change.report)))
    assert np.array_equal(encoded(again(bert)), encoded(change(bert)))
    assert "layer:2 by linear" in repr(change)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(FormatError, match="damaged"):
        SiteChange.load(path)
    with pytest.raises(FormatError, match="not a change of a model"):
        SiteChange.load(change.steps[0][1].save(tmp_path / "map.safetensors"))


def test_changes_chain(bert: Any) -> None:
    first = get("linear")(site="embeddings").fit(bert, GENDER)
    middle = first(bert)
    second = get("leace")(site="layer:1", labels="groups").fit(middle, GENDER)
    both = second(middle)
    assert [each["method"] for each in both.describe()["changes"]] == ["linear", "leace"]
    assert both.digest not in (middle.digest, bert.digest)
    assert np.abs(encoded(both) - encoded(middle)).max() > 1e-4


def test_a_model_can_be_trained_with_a_change_in_place(bert: Any) -> None:
    change = get("linear")().fit(bert, GENDER).for_training()
    assert change.when == "train+test"
    assert change.describe()["when"] == "train+test"
    model = bert.network.transformer.share_weights().model
    ids = bert.network.transformer.tokenizer(TEXTS[0], return_tensors="pt")
    with torch.no_grad():
        before = model(**ids).logits
        (installed,) = change.install(model)
        assert not torch.allclose(model(**ids).logits, before)
        installed.remove()
        assert torch.equal(model(**ids).logits, before)


def test_the_contract_saves_a_model_for_plain_transformers(bert: Any, tmp_path: Path) -> None:
    changed = eh.mitigations.get("linear")(site="embeddings").fit(bert, GENDER)(bert)
    changed.save(tmp_path / "out")
    again = eh.open(f"hf:{tmp_path / 'out'}", device="cpu")
    assert np.allclose(encoded(again), encoded(changed), atol=1e-5)
    assert np.allclose(again.view("vectors").matrix, changed.view("vectors").matrix, atol=1e-6)
    transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "out")
    hook = get("leace")(site="layer:1", labels="groups").fit(bert, GENDER)(bert)
    with pytest.raises(UsageError, match="residual"):
        hook.save(tmp_path / "hook")
    hook.save(tmp_path / "hook", hook=True)
    again = eh.open(f"hf:{tmp_path / 'hook'}", device="cpu")
    assert np.allclose(encoded(again), encoded(hook), atol=1e-5)
    assert again.digest != bert.digest


def test_what_does_not_fit_is_refused(bert: Any) -> None:
    table = bert.view("vectors")
    for method, view, says in (
        (get("linear")(site="layer:1"), table, "a place inside a transformer"),
        (get("sentence-debias")(), table, "works on transformers only; .* is word vectors"),
        (get("scrubbing")(), table, "works on transformers only; .* is word vectors"),
        (get("linear")(site="layer:9"), bert, "has 3 layers"),
        (get("linear")(site="layers"), bert, "is not a site"),
        (get("hsr")(site="layer:1"), bert, "there are no words"),
    ):
        with pytest.raises(UsageError, match=says):
            method.fit(view, eh.concept("gender") if method.id == "hsr" else GENDER)
    with pytest.raises(UsageError, match="scrubbing does not act at one site"):
        get("scrubbing").with_params({"site": "layer:1"})
    with pytest.raises(UsageError, match="changes a transformer"):
        SiteChange.at("layer:1", get("linear")().fit(table, GENDER))(table)  # type: ignore[type-var]


def test_a_map_of_vectors_changes_the_table_of_a_model(bert: Any) -> None:
    vm = get("linear")().fit(bert.view("vectors"), GENDER)
    assert vm(bert).view("vectors") == vm(bert.view("vectors"))


def test_pooled_vectors_of_sentences(nli: Any) -> None:
    rows = sentences_at(nli.network.transformer, "pooled", TEXTS)
    ids = nli.network.transformer.tokenizer(TEXTS[1], return_tensors="pt")
    with torch.inference_mode():
        expected = nli.network.transformer.model.bert(**ids).pooler_output[0]
    assert np.allclose(rows[1], expected, atol=1e-5)


@pytest.fixture(scope="module")
def sink(tiny_folder: Folder, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model whose first token has a vector a thousand times longer than the others, as many language models have."""
    folder = tiny_folder("GPT2LMHeadModel")
    model = transformers.GPT2LMHeadModel.from_pretrained(folder)
    model.transformer.wpe.weight.data[0] *= 1000
    copy = tmp_path_factory.mktemp("sink")
    model.save_pretrained(copy)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(copy)
    return eh.open(f"hf:{copy}", device="cpu", samples=2, tokens=5)


@pytest.mark.parametrize("id", ["linear", "leace"])
def test_tokens_with_massive_activations_keep_their_vectors(sink: Any, tmp_path: Path, id: str) -> None:
    settings = {"labels": "groups"} if id == "leace" else {}
    change = get(id)(site="layer:1", **settings).fit(sink, GENDER)
    report = change.report["massive_activations"]
    assert report["longest"] > 50 * report["median_length"]
    assert 0 < report["share_of_tokens"] < 0.3
    changed, map = change(sink), change.steps[0][1]
    before, after = (states_at(subject, "layer:1") for subject in (sink, changed))
    is_first = np.linalg.norm(before, axis=1) > report["limit"]
    assert np.array_equal(after[is_first], before[is_first])
    assert np.allclose(after[~is_first], map.within_limit(before[~is_first]), atol=1e-4)
    with pytest.raises(UsageError):
        changed.save(tmp_path / "folded")
    changed.save(tmp_path / "hook", hook=True)
    again = eh.open(f"hf:{tmp_path / 'hook'}", device="cpu")
    assert np.allclose(states_at(again, "layer:1"), after, atol=1e-4)


def test_ordinary_models_have_no_limit(bert: Any) -> None:
    change = get("linear")(site="layer:1").fit(bert, GENDER)
    assert "massive_activations" not in change.report
    assert change.steps[0][1].norm_limit is None


def states_at(subject: Any, site: str) -> np.ndarray:
    found: list[np.ndarray] = []
    read_tokens(subject.network.transformer, site, TEXTS, lambda texts, vectors: found.append(vectors))
    return np.concatenate(found)
