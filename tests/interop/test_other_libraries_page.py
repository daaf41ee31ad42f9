"""The examples of docs/how-to/other-libraries.md run as they are printed, on small vectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from evenhand.data import catalog
from evenhand.data.local_copies import data_path
from evenhand.models.vectors import Vectors
from evenhand.words import concept

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "other-libraries.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def small_default(monkeypatch: pytest.MonkeyPatch) -> Vectors:
    gender = [word for group in concept("gender").groups.values() for word in group]
    words = list(dict.fromkeys([*gender, "he", "she", "doctor", "nurse", "engineer", "teacher"]))
    vectors = Vectors(words, np.random.default_rng(0).standard_normal((len(words), 5)))
    monkeypatch.setattr(Vectors, "default", classmethod(lambda cls: vectors))
    return vectors


@pytest.mark.parametrize("library", ["gensim", "spacy", "sklearn"])
def test_examples_run(library: str, small_default: Vectors, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip(library)
    (example,) = [text for text in EXAMPLES if f"evenhand.interop.{library} " in text]
    names: dict[str, object] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert names["vectors"] == small_default


def test_the_classifier_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = [text for text in EXAMPLES if "CountVectorizer" in text]
    exec(compile(example, str(PAGE), "exec"), {})
    assert capsys.readouterr().out == "True\n"


@pytest.mark.slow
def test_the_pipeline_and_pair_example_runs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tiny_folder: Callable[..., Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip("transformers")
    (tmp_path / "my-classifier").symlink_to(tiny_folder("BertForSequenceClassification"))
    (tmp_path / "my-bert").symlink_to(tiny_folder("BertForMaskedLM"))
    monkeypatch.chdir(tmp_path)
    (example,) = [text for text in EXAMPLES if "transformers.pipeline" in text]
    names: dict[str, object] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    assert capsys.readouterr().out == "('vectors', 'sentences', 'likelihood')\n"
    assert names["audit"].get("counterfactual:gap") is not None  # type: ignore[attr-defined]


def test_the_data_frame_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("polars")
    (example,) = [text for text in EXAMPLES if "import polars" in text]
    exec(compile(example, str(PAGE), "exec"), {})
    assert float(capsys.readouterr().out) == pytest.approx(0.5, abs=0.6)


def test_the_transformers_example_runs(small_default: Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    vocabulary = {token: row for row, token in enumerate(["[UNK]", *small_default.words])}
    backend = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "my-bert")
    transformers.PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="[UNK]").save_pretrained(
        tmp_path / "my-bert"
    )
    monkeypatch.chdir(tmp_path)
    (example,) = [text for text in EXAMPLES if "evenhand.interop.huggingface" in text]
    names: dict[str, object] = {}
    exec(compile(example, str(PAGE), "exec"), names)
    after = names["model"].get_input_embeddings().weight.detach().numpy()  # type: ignore[attr-defined]
    np.testing.assert_array_equal(after[1:], names["debiased"].matrix)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*its content differs from the catalog")
def test_the_trainer_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny_folder: Callable[..., Path]
) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path / "data"))
    pairs = tmp_path / "data" / data_path(catalog()["crows-pairs"])
    pairs.parent.mkdir(parents=True)
    rows = [
        f"{number},The woman is {word}.,The man is {word}.,stereo,gender" for number, word in enumerate(("bad", "nice"))
    ]
    pairs.write_text("\n".join([",sent_more,sent_less,stereo_antistereo,bias_type", *rows]) + "\n", encoding="utf-8")
    folder = tiny_folder("GPT2LMHeadModel")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    tokenizer.pad_token = tokenizer.eos_token
    texts = [{"input_ids": (ids := tokenizer("she is a nurse")["input_ids"]), "labels": ids} for _ in range(6)]
    args = transformers.TrainingArguments(
        output_dir="out", max_steps=2, per_device_train_batch_size=2, use_cpu=True, report_to=[], disable_tqdm=True,
        save_strategy="no", logging_strategy="no",
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    trainer = transformers.Trainer(model=model, args=args, train_dataset=texts, processing_class=tokenizer)
    (example,) = [text for text in EXAMPLES if "AuditCallback" in text]
    exec(compile(example, str(PAGE), "exec"), {"trainer": trainer})
    assert list((tmp_path / "audits").glob("step-*/audit.json"))
