"""Every kind of subject through the audit, its page, `check` and `compare`."""

import json
from pathlib import Path

import pytest

import evenhand as eh
from evenhand.audit import check, compare
from evenhand.report.html import page


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    text = "the nurse said she was tired\nthe doctor said he was busy\nher mother is a nurse\nhis father is a doctor\n"
    file = tmp_path_factory.mktemp("corpus") / "text.txt"
    file.write_text(text * 40)
    return file


def test_a_corpus(corpus: Path, tmp_path: Path) -> None:
    audit = eh.Audit.run(f"corpus:{corpus}", folder=tmp_path)
    assert audit.labels == ("corpus-bias:mu", "corpus-bias:sigma")
    scores = eh.corpus.bias(corpus, lists="bordia2019-cnn-dm", stop_words="english")
    assert audit.get("corpus-bias:mu").value == pytest.approx(scores.mu)
    assert "Text: which words occur with which group" in page(audit)
    assert [limit.holds for limit in check(audit, maximum=["corpus-bias:mu=100"])] == [True]
    assert {change.verdict for change in compare(audit, audit)} <= {"same", "undefined"}
    assert eh.Audit.load(audit.save(tmp_path)).to_dict() == audit.to_dict()


def test_a_corpus_without_the_groups_is_undefined(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text("nothing about anybody here\n" * 5)
    audit = eh.Audit.run(f"corpus:{tmp_path / 't.txt'}")
    assert all(result.measurement.status == "undefined" for result in audit.results)


def test_methods_do_not_change_a_corpus(corpus: Path) -> None:
    with pytest.raises(eh.EvenhandError, match=r"works on word vectors and transformers only; .* is a corpus"):
        eh.Audit.run(f"corpus:{corpus}", methods=["linear"])


def test_predictions_and_embedded_models(tmp_path: Path) -> None:
    audit = eh.Audit.run("embedded", measures=["mab"])
    default = eh.Audit.run("glove-embedded", methods=[], measures=["mab"])
    for label in ("mab-explicit:E", "mab-explicit:d"):
        assert audit.get(label).value == default.get(label).value
    probe = eh.words.probes.probe("mab-explicit")
    rows = [{"entailment": 0.1, "neutral": 0.7, "contradiction": 0.2}] * probe.n_pairs
    file = tmp_path / "answers.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    flat = eh.Audit.run(str(file), measures=["mab"])
    assert flat.get("mab-explicit:d").value == pytest.approx(0.0)
    assert flat.get("mab-explicit:E").value == pytest.approx((0.1**2 + 0.3**2 + 0.2**2) ** 0.5)


@pytest.fixture(scope="module")
def language_model(tmp_path_factory: pytest.TempPathFactory, glove: eh.Vectors) -> Path:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    torch.manual_seed(0)
    words = ["<unk>", "<s>", ".", ",", *(word for word in glove.words[:20_000] if word.isalpha())]
    plain = tokenizers.Tokenizer(
        tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<unk>")
    )
    plain.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=plain, unk_token="<unk>", bos_token="<s>", eos_token="<s>"
    )
    config = transformers.GPT2Config(
        vocab_size=len(words), n_positions=64, n_embd=16, n_layer=1, n_head=2, bos_token_id=1, eos_token_id=1
    )
    folder = tmp_path_factory.mktemp("gpt2")
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def test_a_causal_language_model_offers_vectors_likelihood_and_text(language_model: Path) -> None:
    subject = eh.open(f"hf:{language_model}", samples=20, tokens=30, device="cpu")
    assert subject.offers == ("vectors", "sentences", "likelihood", "text", "generation")
    audit = eh.Audit.run(subject, measures=["direct-bias", "perplexity", "corpus-bias"])
    assert audit.get("direct-bias:new-direction").value > 0
    # an untrained model with random weights is about as unsure as its vocabulary is large
    size = subject.view("likelihood").model.config.vocab_size
    assert size / 4 < audit.get("perplexity").value < size * 4
    low, high = audit.get("perplexity").interval
    assert low < audit.get("perplexity").value < high
    assert "corpus-bias:mu" in audit.labels
    again = eh.open(f"hf:{language_model}", samples=20, tokens=30, device="cpu")
    assert again.digest == subject.digest
    assert eh.open(f"hf:{language_model}", samples=21, tokens=30).digest != subject.digest


def test_several_kinds_in_one_audit_ask_each_what_it_offers(language_model: Path, corpus: Path) -> None:
    model = eh.open(f"hf:{language_model}", samples=4, tokens=20)
    measures = ["direct-bias", "corpus-bias"]
    audit = eh.Audit.run(["glove-embedded", model, f"corpus:{corpus}"], methods=[], measures=measures)
    rows = {subject: set(audit.rows(subject)) for subject in audit.subjects if subject != language_model.name}
    assert "direct-bias:old-direction" in rows["glove-embedded"]
    assert rows["text.txt"] == {"corpus-bias:mu", "corpus-bias:sigma"}
    assert "Ranks of the subjects" in page(audit)


# The concept reaches everything -------------------------------------------------------------------------------------

COLOURS = eh.Concept(
    "colour",
    groups={
        "red": ["red", "scarlet", "crimson"],
        "blue": ["blue", "navy", "azure"],
        "green": ["green", "olive", "lime"],
    },
)
GENDERED = {"she", "he", "woman", "man", "her", "his", "female", "male", "girl", "boy"}


@pytest.mark.parametrize("concept", ["nationality", "religion", "race", "age", COLOURS], ids=str)
def test_no_audit_of_another_concept_asks_about_gender(concept: str | eh.Concept, glove: eh.Vectors) -> None:
    from evenhand.audit import Plan
    from evenhand.audit.cells import resolve_query

    about = eh.concept(concept)
    plan = Plan.default([eh.open(glove)], concept=concept)
    assert len(plan.questions) >= 10
    for question in plan.questions:
        assert question.info.concepts in ((), (about.name,))
        record = resolve_query(question, about)
        if isinstance(record, str):
            assert record in ("vocabulary", "words") or question.info.family == "quality"
        elif hasattr(record, "concept"):
            assert record.concept in ("", about.name)
        if isinstance(record, eh.Query):
            assert not {word.lower() for word in record.words} & GENDERED


@pytest.mark.parametrize("concept", ["religion", COLOURS], ids=str)
def test_audits_of_other_concepts_measure_that_concept(concept: str | eh.Concept, glove: eh.Vectors) -> None:
    audit = eh.Audit.run(glove, methods=["span"] if concept == "religion" else [], measures=FAST, concept=concept)
    about = eh.concept(concept)
    for result in audit.results:
        assert result.measurement.params.get("concept", about.name) == about.name
    assert any(result.measurement.status == "ok" for result in audit.results)
    if concept == "religion":
        before, after = (audit.get("direct-bias:old-direction", stage) for stage in ("original", "span"))
        assert after.value < before.value / 5  # what was removed is what was measured


FAST = ["weat", "generalised-weat", "mac", "direct-bias", "same"]


def test_a_concept_file_brings_queries_templates_and_probes(tmp_path: Path, glove: eh.Vectors) -> None:
    file = tmp_path / "mine.toml"
    file.write_text(
        """
[concept.rank]
[concept.rank.groups]
noble = ["king", "queen", "prince", "princess"]
common = ["farmer", "worker", "peasant", "servant"]

[query.rank-money]
[query.rank-money.targets]
noble = ["king", "queen", "prince", "princess"]
common = ["farmer", "worker", "peasant", "servant"]
[query.rank-money.attributes]
rich = ["rich", "wealthy", "gold", "luxury"]
poor = ["poor", "poverty", "hunger", "debt"]

[probe.rank-wealth]
templates = ["The {subject} bought a house.", "The {subject} ate bread."]
premise = ["king", "queen", "farmer", "worker"]
hypothesis = ["rich", "poor"]
""".replace('hypothesis = ["rich", "poor"]', 'hypothesis = ["woman", "man"]')
    )
    about = eh.concept(file)
    assert [query.name for query in about.queries] == ["rank-money"]
    audit = eh.Audit.run(glove, methods=[], measures=["weat", "nli-neutrality"], concept=file)
    assert audit.get("weat:rank-money").value > 0
    assert audit.get("nli-neutrality").query == "rank-wealth"
    assert audit.manifest["concept"]["name"] == "rank"


@pytest.mark.parametrize("text", ["[concept.x]\n", "[concept.x.groups]\na = []\n", "[concept.x.groups]\n"])
def test_an_empty_concept_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "empty.toml").write_text(text)
    with pytest.raises(eh.EvenhandError, match=r"empty\.toml"):
        eh.Audit.run("glove-embedded", methods=[], concept=tmp_path / "empty.toml")
    assert not (tmp_path / "runs").exists()
