"""`evenhand nli fine-tune`: fine-tune a Hugging Face encoder for natural language inference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json, notes_on_stderr
from evenhand.cli.screens.nli import describe_skipped, show_models
from evenhand.cli.screens.terminal import note, progress, show_json
from evenhand.errors import UsageError, counted, require

if TYPE_CHECKING:
    from evenhand.models.nli.fine_tuning import FineTunedNLI
    from evenhand.models.nli.labelled_pairs import LabelledPairs

PREFIX = "hf:"
CHECKPOINT = "seed-{seed}.checkpoint"


def fine_tune(
    body: Annotated[str, typer.Argument(metavar="ENCODER", help="hf:FOLDER of an encoder, such as BERT.")],
    train_file: Annotated[Path, typer.Option("--train", help="Labelled pairs: SNLI, MultiNLI, .jsonl, .tsv, .csv.")],
    dev_file: Annotated[Path, typer.Option("--dev", help="Labelled pairs, evaluated after each epoch.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the models, one folder per seed, and train.json.")],
    test_file: Annotated[list[Path] | None, typer.Option("--test", help="Pairs for the final accuracy.")] = None,
    map_file: Annotated[Path | None, typer.Option("--map", help="Fitted map to apply to the word-piece table.")] = None,
    when: Annotated[
        str, typer.Option(help="When the map applies: train+test, or test for the trained model only.")
    ] = "train+test",
    seeds: Annotated[
        str, typer.Option(help="Number of seeds, or a list: 3,4,7. For one specific seed write `7,`.")
    ] = "5",
    epochs: Annotated[int, typer.Option(help="Passes over the pairs.")] = 3,
    batch: Annotated[int, typer.Option(help="Pairs per step.")] = 48,
    learning_rate: Annotated[float, typer.Option(help="Largest learning rate, after warm-up.")] = 3e-5,
    weight_decay: Annotated[float, typer.Option(help="Decay of weight matrices.")] = 0.01,
    dropout: Annotated[float, typer.Option(help="Dropout rate inside the encoder.")] = 0.1,
    head: Annotated[
        str, typer.Option(help="linear: a linear layer on [CLS]; own: the head of the model's class.")
    ] = "linear",
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Names of numeric labels: entailment,neutral,contradiction."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or auto (bfloat16 on a GPU).")] = "auto",
    dtype: Annotated[str, typer.Option(help="Precision of the model files: float32 or float16.")] = "float32",
    as_json: Json = False,
) -> None:
    """Fine-tune an encoder, one model per seed; rerun the same command to resume."""
    from evenhand.cli.verbs.nli import parse_seeds, require_models_folder

    require("torch", extra="models")
    require("transformers", extra="models")
    if dtype not in ("float32", "float16"):
        raise UsageError(f"dtype must be float32 or float16, got {dtype!r}")
    settings = {
        "epochs": epochs,
        "batch": batch,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "dropout": dropout,
        "head": head,
        "device": device,
        "precision": precision,
        "when": when,
    }
    numbers = parse_seeds(seeds)
    require_models_folder(out)
    pairs, dev, *tests = (_read_pairs(path, labels) for path in (train_file, dev_file, *(test_file or [])))
    for kind, data in (("train", pairs), ("dev", dev)):
        note(f"{kind}: {len(data):,} pairs of {data.source}{describe_skipped(data.skipped)}")
    models = [_run(body.removeprefix(PREFIX), pairs, dev, tests, seed, out, map_file, dtype, settings)
              for seed in numbers]  # fmt: skip
    _write(out / "train.json", {"models": models})
    for seed in numbers:  # only now: a rerun of a stopped command finds its finished seeds
        (out / CHECKPOINT.format(seed=seed)).unlink(missing_ok=True)
    if as_json:
        show_json({"models": models})
    else:
        show_models(models, selected=False)
    note(f"wrote {counted(len(models), 'model')} and train.json to {out}")


def _run(
    body: str,
    pairs: LabelledPairs,
    dev: LabelledPairs,
    tests: list[LabelledPairs],
    seed: int,
    out: Path,
    map_file: Path | None,
    dtype: str,
    settings: dict[str, Any],
) -> dict[str, Any]:
    """Train, save and evaluate the model of a seed; return its record."""
    from evenhand.files import require_folder
    from evenhand.mitigations import VectorMap
    from evenhand.models.nli.fine_tuning import fine_tune as run
    from evenhand.models.nli.labelled_pairs import evaluate
    from evenhand.models.nli.transformer import TransformerNLI

    require_folder(out)
    name = f"seed-{seed}"
    with notes_on_stderr(), progress(f"seed {seed}") as bar:
        trained: FineTunedNLI = run(
            body,
            pairs,
            dev,
            seed=seed,
            change=VectorMap.load(map_file) if map_file else None,
            checkpoint=out / CHECKPOINT.format(seed=seed),
            progress=bar,
            **settings,
        )
        folder = trained.save(out / name, dtype=dtype)
        model = TransformerNLI(folder, device=settings["device"])
        accuracies = [evaluate(model, part).to_dict() for part in tests]
    return {"file": name, **trained.to_dict(), "epoch": len(trained.history), "test": accuracies}


def _read_pairs(path: Path, labels: str | None) -> LabelledPairs:
    from evenhand.models.nli.labelled_pairs import read_pairs

    return read_pairs(path, labels=[part.strip() for part in labels.split(",")] if labels else None)


def _write(path: Path, document: dict[str, Any]) -> None:
    import json

    from evenhand.files import write_text

    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
