"""The shell commands of the how-to pages run, on small stand-ins for what a reader has.

Their Python runs in other tests. A block with `<!-- not run: reason -->` above it is left out. Nothing is downloaded: a stand-in
takes the place of what `evenhand fetch` brings. `SMALLER` makes long trainings short.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
import stand_in_data as write
from page_runner import ROOT, SHELL, blocks, run_page
from stand_ins import MODELS
from test_snippets import ALSO

from evenhand.words import probes

HOW_TO = ROOT / "docs" / "how-to"
SMALLER = {
    r"--epochs \d+": "--epochs 1",
    r"steps=2000": "steps=2",
    r"--seeds \d": "--seeds 1",
    r"--samples \d+ --tokens \d+": "--samples 40 --tokens 60",
    r"--sample \d+": "--sample 500",
    r"--workers 8|--jobs 4": "",  # one process computes the same, sooner
    r"--sweep-lambda \S+": "--sweep-lambda 0,0.1 --samples 20 --tokens 100",
    r"--limit 100": "--limit 2",
    r"--time-limit 600": "--epochs 1",
    r"probe hf:./models/bert/seed-0$": "probe hf:./models/bert/seed-0 --sample 500",
    r"lm measure model ": "lm measure model --samples 40 --tokens 60 ",
    r"audit hf:smollm$": "audit hf:smollm --measure pronoun-share",
    r"/srv/runs": "srv/runs",
}
QUICK = (
    "audit-a-classifier.md", "audit-a-language-model.md", "audit-an-endpoint.md", "corpus.md", "explain-a-model.md",
    "fetch.md", "serve.md", "shell-completion.md", "vectors-from-text.md",
)  # fmt: skip
SLOW = (
    "augment.md", "ci.md", "cluster.md", "debias-a-model.md", "elmo.md", "language-models.md", "languages.md", "nli-models.md", "papers.md", "sentence-encoders.md",
)  # fmt: skip
PYTHON_APART = ("debias-a-model.md", "language-models.md", "nli-models.md")  # whose Python has a test of its own
ELSEWHERE = {"audit.md", *(name.removeprefix("how-to/") for name in ALSO if name.startswith("how-to/"))}
NLI = {"id2label": {0: "entailment", 1: "neutral", 2: "contradiction"}, "num_labels": 3}
STAND_INS = MODELS | {
    "toxicity": MODELS["my-classifier"],
    "my-gpt": MODELS["my-gpt2"],
    "MODEL": ("BertForMaskedLM", {}),
    "MY-FRENCH-NLI-MODEL": MODELS["my-nli-model"],
    "bert": ("BertModel", {}),
}


Tiny = Callable[..., Path]


def prepare(name: str, text: str, place: Path, data: Path, tiny: Tiny) -> None:
    """Write what a page fetches, and what it calls yours."""
    write.write_texts(place)
    write.write_vectors(place)
    (place / "runs").mkdir()
    for model, (class_name, options) in STAND_INS.items():
        if f"hf:{model}" in text or f"hf:./{model}" in text:
            (place / model).symlink_to(tiny(class_name, **options))
    if name in NEEDED:
        NEEDED[name](place, data, tiny)


def prepare_classifier(place: Path, data: Path, tiny: Tiny) -> None:
    """Write what the page fetches and converts, and labelled comments."""
    (place / "toxicity").unlink()
    write.write_toxicity_model(data, tiny("BertForSequenceClassification"))
    write.write_comments(place)


def prepare_nli(place: Path, data: Path, tiny: Tiny) -> None:
    """Write pairs, a map, the probe that the page prints, and predictions for it."""
    (place / "pairs.jsonl").unlink()  # which the page writes
    write.write_pairs(place)
    write.write_map_of_pieces(place)
    (probe,) = (block.code for block in blocks(HOW_TO / "nli-models.md") if block.language == "toml")
    (place / "mine.toml").write_text(probe, encoding="utf-8")
    row = '{"entailment": 0.2, "neutral": 0.7, "contradiction": 0.1}\n'
    (place / "predictions.jsonl").write_text(row * probes.probe(place / "mine.toml").n_pairs, encoding="utf-8")


NEEDED: dict[str, Callable[[Path, Path, Tiny], None]] = {
    "ci.md": lambda place, data, tiny: (place / ".ci").symlink_to(ROOT / ".ci"),
    "audit-a-classifier.md": prepare_classifier,
    "audit-a-language-model.md": lambda place, data, tiny: write.write_sentence_sets(data),
    "audit-an-endpoint.md": lambda place, data, tiny: write.write_sentence_sets(data),
    "elmo.md": lambda place, data, tiny: write.write_elmo(data),
    "fetch.md": lambda place, data, tiny: write.write_fetched(data),
    "language-models.md": lambda place, data, tiny: write.write_language_models(data),
    "languages.md": lambda place, data, tiny: write.write_other_languages(data),
    "nli-models.md": prepare_nli,
    "sentence-encoders.md": lambda place, data, tiny: write.write_encoder(
        data, "all-minilm-l6-v2", tiny("BertModel", num_hidden_layers=4)
    ),
    "serve.md": lambda place, data, tiny: write.write_runs(place),
}


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_commands_of_the_page_run(
    name: str,
    tmp_path: Path,
    tiny_folder: Callable[..., Path],
    server: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    page = HOW_TO / name
    place, data = tmp_path / "place", tmp_path / "data"
    place.mkdir()
    data.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("EVENHAND_DATA", str(data))
    monkeypatch.setenv("MY_API_KEY", "a key")
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*its content differs from the catalog")
        warnings.filterwarnings("ignore", message=".*words are split by the tokenizer")  # it has few words
        prepare(name, page.read_text(encoding="utf-8"), place, data, tiny_folder)
        run_page(page, SHELL if name in PYTHON_APART else (*SHELL, "python"), smaller=SMALLER | server)


def test_every_page_with_commands_is_run() -> None:
    pages = {page.name for page in HOW_TO.glob("*.md") if any(b.runs and b.language in SHELL for b in blocks(page))}
    assert pages <= {*QUICK, *SLOW, *ELSEWHERE}
