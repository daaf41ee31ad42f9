"""Commands that train models or write model folders; all need torch."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
from fault_scenario import WORDS, add, command, done, write_corpus, write_vectors
from run_scenarios import digest, read_audit

TESTS = Path(__file__).parent.parent
sys.path[:0] = [str(TESTS), str(TESTS / "models"), str(TESTS / "models" / "lm")]  # they write tiny models

PAIRS = [(f"a {x} works", f"a {y} works", ("entailment", "neutral", "contradiction")[n % 3])
         for n, (x, y) in enumerate(zip(WORDS, WORDS[1:] + WORDS[:1], strict=True))]  # fmt: skip
TORCH: dict[str, object] = {"modules": ("torch",), "needs": ("torch",), "same_bytes": False}
TRANSFORMERS: dict[str, object] = {
    "modules": ("torch", "transformers", "transformers.models.bert.modeling_bert"), "needs": ("torch", "transformers"),
    "same_bytes": False,
}  # fmt: skip
SMALL = ("--set", "hidden=8", "--set", "embedding=8", "--set", "layers=1", "--set", "batch=4", "--set", "bptt=8",
         "--device", "cpu", "--seed", "1")  # fmt: skip
LM = ("lm", "train", "texts", "-o", "lm", "--epochs", "2", *SMALL)
NLI = ("nli", "train", "--train", "pairs.jsonl", "--dev", "pairs.jsonl", "--out", "nli", "--vectors", "in.txt", "--seeds", "2",
       "--epochs", "2", "--hidden", "4", "--batch", "4", "--device", "cpu")  # fmt: skip


def lm_texts(folder: Path) -> None:
    """Write training, validation and test text."""
    write_corpus(folder, 1)
    for number, name in enumerate(("train", "valid", "test")):
        path = folder / "texts" / f"{number}.txt"
        path.with_name(f"{name}.txt").write_text("\n".join(path.read_text().splitlines()[:20]) + "\n")
        path.unlink()


def _read_lm(folder: Path) -> object:
    from evenhand.models.lm.awd_lstm.model_folder import load

    model, vocabulary, manifest = load(folder / "lm")
    weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
    return [weights, list(vocabulary.words), manifest["epochs"]]


add("lm-train", lm_texts, command(*LM), _read_lm, kept=False, **TORCH)
LM_SWEEP = ("lm", "train", "texts", "-o", "sweep", "--epochs", "1", "--sweep-lambda", "0,0.1", "--samples", "2", "--tokens", "20",
            "--permutations", "2", *SMALL)  # fmt: skip


def _read_sweep(folder: Path) -> object:
    """Return the perplexities of the cells; a sweep in which one is missing is resumed and counts as none."""
    from evenhand.errors import InputMissingError

    path = folder / "sweep" / "sweep.json"
    cells = json.loads(path.read_text())["cells"] if path.exists() else []
    if len(cells) < 2 or not (folder / "sweep" / "table.md").exists():
        raise InputMissingError("the sweep is not complete")
    return [[cell["strength"], cell["test_perplexity"]] for cell in cells]


add("lm-sweep", lm_texts, command(*LM_SWEEP), _read_sweep, kept=False, **TORCH)


def _trained_lm(folder: Path) -> None:
    lm_texts(folder)
    done(folder, *LM)
    (folder / "out.txt").write_text("an earlier text\n")
    (folder / "page.html").write_text("an earlier page")


GENERATE = ("lm", "generate", "lm", "-o", "out.txt", "--samples", "3", "--tokens", "10", "--device", "cpu")
MEASURE = ("lm", "measure", "lm", "--train", "texts/train.txt", "--samples", "3", "--tokens", "40", "--permutations", "2",
           "--device", "cpu", "--keep", "out.txt", "--html", "page.html", "-o", "run")  # fmt: skip
add("lm-generate", _trained_lm, command(*GENERATE), digest("out.txt"), **{**TORCH, "shares": True})
add("lm-measure", _trained_lm, command(*MEASURE), read_audit, kept=False, **{**TORCH, "shares": True})


def nli_texts(folder: Path) -> None:
    """Write labelled pairs and vectors."""
    write_vectors(folder / "in.txt", 1)
    rows = [json.dumps({"premise": p, "hypothesis": h, "label": label}) for p, h, label in PAIRS]
    (folder / "pairs.jsonl").write_text("\n".join(rows) + "\n")


def _read_nli(folder: Path) -> object:
    from evenhand.errors import InputMissingError
    from evenhand.models.nli.over_vectors import read_model_file

    if not (folder / "nli" / "train.json").exists():
        raise InputMissingError("the training is not complete")
    files = [read_model_file(folder / "nli" / f"seed-{seed}.safetensors") for seed in (0, 1)]
    return [hashlib.sha256(b"".join(array.tobytes() for array in file.arrays.values())).hexdigest() for file in files]


add("nli-train", nli_texts, command(*NLI), _read_nli, kept=False, **TORCH)


def _with_model(class_name: str) -> Callable[[Path], None]:
    def prepare(folder: Path) -> None:
        from tiny_transformers import save_tiny

        nli_texts(folder)
        write_corpus(folder, 1)
        save_tiny(folder / "model", class_name)

    return prepare


def _read_folder(name: str) -> Callable[[Path], object]:
    def read(folder: Path) -> object:
        from transformers import AutoModel

        from evenhand.errors import InputMissingError

        if not (folder / name).exists():
            raise InputMissingError("there is no model")
        model = AutoModel.from_pretrained(folder / name)
        return [float(np.abs(p.detach().numpy()).sum()) for p in model.parameters()]

    return read


def _changed(folder: Path) -> None:
    _with_model("BertForMaskedLM")(folder)
    done(folder, "debias", "hf:model", "--method", "linear", "--concept", "race", "-o", "changed")


add(
    "debias-model", _changed, command("debias", "hf:model", "--method", "linear", "-o", "changed", "--device", "cpu"),
    _read_folder("changed"), **TRANSFORMERS,
)  # fmt: skip
TUNE = ("debias", "hf:model", "--method", "cda-tuning", "--set", "text=texts/0.txt", "--set", "steps=3", "--set", "tokens=64",
        "--set", "block=16", "-o", "tuned", "--device", "cpu")  # fmt: skip
add(
    "debias-tuning", _with_model("BertForMaskedLM"), command(*TUNE), _read_folder("tuned"), kept=False,
    refuses_again=True, **TRANSFORMERS,
)  # fmt: skip
FINE_TUNE = ("nli", "fine-tune", "model", "--train", "pairs.jsonl", "--dev", "pairs.jsonl", "--out", "nli", "--seeds", "1",
             "--epochs", "1", "--device", "cpu")  # fmt: skip
add(
    "nli-fine-tune",
    _with_model("BertModel"),
    command(*FINE_TUNE),
    _read_folder("nli/seed-0"),
    kept=False,
    **TRANSFORMERS,
)


def _onnx(folder: Path) -> None:
    from safetensors.numpy import load_file
    from test_onnx_import import beside, onnx_file

    from tiny_transformers import save_tiny

    save_tiny(folder / "model", "BertModel")
    source = beside(folder / "model", folder / "source")
    onnx_file(source / "model.onnx", load_file(folder / "model" / "model.safetensors"), heads=2)


def _gguf(folder: Path) -> None:
    from test_gguf import FACTS, arrays_of, small_model, write_gguf

    write_gguf(folder / "model.gguf", FACTS, arrays_of(small_model()))


for _name, _prepare, _source in (("convert-onnx", _onnx, "source"), ("convert-gguf", _gguf, "model.gguf")):
    add(
        _name, _prepare, command("convert", _source, "converted"), _read_folder("converted"), kept=False,
        refuses_again=True, **TRANSFORMERS,
    )  # fmt: skip
