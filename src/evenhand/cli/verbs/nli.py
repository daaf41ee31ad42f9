"""`evenhand nli`: train and evaluate models of natural language inference over word vectors, or fine-tune encoders."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from evenhand.cli.options import MEGABYTE, Json, MaxRecord, with_groups
from evenhand.cli.options import load as load_vectors
from evenhand.cli.terminal import (
    arguments_named,
    escape,
    note,
    notes_on_stderr,
    plain_table,
    progress,
    show,
    show_json,
)
from evenhand.errors import UsageError, counted, require, shown
from evenhand.files import require_folder, write_text

if TYPE_CHECKING:
    from evenhand.mitigations import VectorMap
    from evenhand.models.nli import NLIModel
    from evenhand.models.nli.labelled_pairs import Accuracy, LabelledPairs
    from evenhand.models.nli.training import TrainedNLI
    from evenhand.models.vectors import Vectors
    from evenhand.subjects.nli_models import NLISubject


PairParts: TypeAlias = "tuple[LabelledPairs, LabelledPairs, list[LabelledPairs]]"
"""The pairs to train on, to select by and to test with."""
VectorsOption = Annotated[str, typer.Option("--vectors", help="Word vectors that the model reads.")]
MapOption = Annotated[Path | None, typer.Option("--map", help="Fitted map to apply to the vectors first.")]
LabelNames = Annotated[
    str | None,
    typer.Option("--labels", help="Names of numeric labels in order, such as entailment,neutral,contradiction."),
]
TrainingDevice = Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")]
TrainingPrecision = Annotated[str, typer.Option("--precision", help="float32, bfloat16 or auto (bfloat16 on a GPU).")]
FilePrecision = Annotated[str, typer.Option("--dtype", help="Precision of the model files: float32 or float16.")]
TrainFile = Annotated[Path, typer.Option("--train", help="Labelled pairs: SNLI, MultiNLI, .jsonl, .tsv, .csv.")]
TestFiles = Annotated[list[Path] | None, typer.Option("--test", help="Pairs for the final accuracy.")]
PairsPerStep = Annotated[int, typer.Option("--batch", help="Pairs per step.")]
Seeds = Annotated[
    str,
    typer.Option("--seeds", help="Number of seeds, or a list: 3,4,7. For one specific seed write `7,`."),
]

MAX_SEEDS = 10_000


def train(
    train_file: TrainFile,
    dev_file: Annotated[Path, typer.Option("--dev", help="Labelled pairs for early stopping.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for models, train.json and the checkpoint.")],
    vectors: VectorsOption = "glove-embedded",
    map_file: MapOption = None,
    test_file: TestFiles = None,
    architecture: Annotated[str, typer.Option(help="decomposable or bilstm.")] = "decomposable",
    seeds: Seeds = "5",
    epochs: Annotated[int, typer.Option(help="Maximum number of epochs.")] = 20,
    patience: Annotated[int, typer.Option(help="Epochs without improvement on --dev before stopping.")] = 5,
    hidden: Annotated[int, typer.Option(help="Width of the hidden layers.")] = 200,
    batch: PairsPerStep = 256,
    optimiser: Annotated[str, typer.Option(help="adam or adagrad.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Weight of the L2 penalty.")] = 0.0,
    dropout: Annotated[float, typer.Option(help="Dropout rate.")] = 0.2,
    intra_attention: Annotated[
        bool, typer.Option("--intra-attention", help="Attention within sentences (decomposable only).")
    ] = False,
    lower: Annotated[bool, typer.Option(help="Look words up in lower case.")] = True,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale vectors to unit length.")] = False,
    labels: LabelNames = None,
    max_record: MaxRecord = 128,
    device: TrainingDevice = "auto",
    precision: TrainingPrecision = "auto",
    stack: Annotated[int | None, typer.Option(help="Models trained at once.", show_default="CPU 1, GPU all")] = None,
    dtype: FilePrecision = "float32",
    as_json: Json = False,
) -> None:
    """Train one model per seed; rerun the same command to resume."""
    require("torch", extra="models")
    from evenhand.models.nli.training import NLITrainingSettings
    from evenhand.models.nli.training import train as run

    settings = NLITrainingSettings(
        architecture=architecture, epochs=epochs, patience=patience, hidden=hidden, batch=batch, optimiser=optimiser,
        learning_rate=learning_rate, weight_decay=weight_decay, dropout=dropout, intra_attention=intra_attention,
        lower=lower, normalise=normalise, device=device, precision=precision,
    )  # fmt: skip
    _require_dtype(dtype)
    numbers = parse_seeds(seeds)
    require_folder(out)
    _require_models_folder(out)
    pairs, dev, tests = _read_parts(train_file, dev_file, test_file or [], labels, max_record)
    mapped = _load_mapped(vectors, map_file)
    with notes_on_stderr(), progress("training") as bar:
        trained = run(
            pairs, dev, mapped, seeds=numbers, stack=stack, checkpoint=out / "checkpoint", progress=bar,
            **settings.to_dict(),
        )  # fmt: skip
    models = [_save(one, tests, out, dtype) for one in trained]
    _finish(models, out, as_json=as_json)
    others = sorted({path.name for path in out.glob("seed-*.safetensors")} - {model["file"] for model in models})
    if others:
        note(f"note: {', '.join(others)} in {out} belong to an earlier training run and are not in train.json")


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Any model that `evenhand probe` accepts.")],
    files: Annotated[list[Path], typer.Argument(help="Labelled pairs.", show_default=False)],
    vectors: VectorsOption = "glove-embedded",
    map_file: MapOption = None,
    labels: LabelNames = None,
    max_record: MaxRecord = 128,
    outputs: Annotated[
        str | None,
        typer.Option(
            "--outputs", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"
        ),
    ] = None,
    device: TrainingDevice = "auto",
    as_json: Json = False,
) -> None:
    """Evaluate the accuracy of a model on labelled pairs."""
    from evenhand.mitigations import VectorMap
    from evenhand.models.nli.labelled_pairs import evaluate as run
    from evenhand.subjects.nli_models import open_models

    data = [_read_pairs(path, labels, max_record, one_class=True) for path in files]
    with notes_on_stderr(), progress(model) as bar:
        change = VectorMap.load(map_file) if map_file else None
        with arguments_named(labels="outputs"):
            subject = open_models([model], vectors=vectors, change=change, device=device, labels=outputs)
        results = [(one.name, run(one, pairs, progress=bar)) for one in _predicting(subject) for pairs in data]
    if as_json:
        show_json({"results": [{"model": name, **accuracy.to_dict()} for name, accuracy in results]})
    else:
        for name, accuracy in results:
            _show_accuracy(name, accuracy)
    if subject.ensemble.note:
        note(f"note: {subject.ensemble.note}")


def _predicting(subject: NLISubject) -> list[NLIModel]:
    """Return the members that can answer any pair; a predictions file has its own pairs only."""
    from evenhand.models.nli import NLIModel

    models = [member for member in subject.ensemble.members if isinstance(member, NLIModel)]
    if len(models) < len(subject.ensemble):
        raise UsageError(f"{subject.name} is a predictions file, which cannot answer other pairs")
    return models


def _load_mapped(source: str, map_file: Path | None) -> Vectors:
    """Load vectors and apply a fitted map, if one is given."""
    from evenhand.mitigations import VectorMap

    vectors = load_vectors(source)
    return VectorMap.load(map_file)(vectors) if map_file else vectors


def _read_parts(train: Path, dev: Path, tests: list[Path], labels: str | None, megabytes: int = 128) -> PairParts:
    """Read the pairs to train on, to select by and to test with, and say how many there are."""
    pairs, selecting, *others = (_read_pairs(path, labels, megabytes) for path in (train, dev, *tests))
    for kind, data in (("train", pairs), ("dev", selecting)):
        note(f"{kind}: {len(data):,} pairs of {data.source}{_describe_skipped(data.skipped)}")
    return pairs, selecting, others


def _read_pairs(path: Path, labels: str | None, megabytes: int, *, one_class: bool = False) -> LabelledPairs:
    from evenhand.models.nli.labelled_pairs import read_pairs

    order = [part.strip() for part in labels.split(",")] if labels else None
    return read_pairs(path, labels=order, one_class=one_class, max_record=megabytes * MEGABYTE)


def _require_dtype(dtype: str) -> None:
    if dtype not in ("float32", "float16"):
        raise UsageError(f"dtype must be float32 or float16, got {dtype!r}")


def _require_models_folder(out: Path) -> None:
    """Raise an error for a folder whose files are not those of an earlier training."""
    from evenhand.outputs import require_own_folder

    def is_training(folder: Path) -> bool:
        return (folder / "train.json").is_file() or any(folder.glob("*checkpoint*"))

    require_own_folder(out, [file.name for file in out.glob("seed-*")], is_training)


def parse_seeds(text: str) -> list[int]:
    """Parse `5` as the seeds 0 to 4, and `3,4,7` or `7,` as these seeds."""
    parts = [part.strip() for part in text.split(",")]
    numbers = [int(part) for part in parts if re.fullmatch(r"[0-9]{1,9}", part)]
    wanted = [part for part in parts if part]
    if not numbers or len(numbers) < len(wanted) or (len(parts) == 1 and not 1 <= numbers[0] <= MAX_SEEDS):
        raise UsageError(
            f"--seeds {shown(text)} is neither a number of seeds (1 to {MAX_SEEDS}) nor a list of seeds",
            hint="write --seeds 5 or --seeds 3,4,7",
        )
    return list(range(numbers[0])) if len(parts) == 1 else numbers


def _save(one: TrainedNLI, tests: list[LabelledPairs], out: Path, dtype: str) -> dict[str, Any]:
    """Save a model, evaluate it on the test pairs, and return its record."""
    from evenhand.models.nli.labelled_pairs import evaluate as run

    record = {**one.to_dict(), "test": [run(one.model, pairs).to_dict() for pairs in tests]}
    about = {key: record[key] for key in ("seed", "dev_accuracy", "epoch", "data", "words", "settings", "packages")}
    path = one.model.save(out / f"seed-{one.seed}.safetensors", dtype=dtype, **about)
    return {"file": path.name, **record}


def _finish(models: list[dict[str, Any]], out: Path, *, selected: bool = True, as_json: bool) -> None:
    """Write and show the records of the trained models; `selected` says whether dev accuracy chose the epoch."""
    write_text(out / "train.json", json.dumps({"models": models}, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
    if as_json:
        show_json({"models": models})
    else:
        _show_models(models, selected=selected)
    note(f"wrote {counted(len(models), 'model')} and train.json to {out}")


PREFIX = "hf:"
CHECKPOINT = "seed-{seed}.checkpoint"


@dataclass(frozen=True)
class TuningOptions:
    """How an encoder is fine-tuned."""

    when: Annotated[str, typer.Option(help="When the map applies: train+test, or test for the trained model only.")] = (
        "train+test"
    )
    epochs: Annotated[int, typer.Option(help="Passes over the pairs.")] = 3
    batch: PairsPerStep = 48
    learning_rate: Annotated[float, typer.Option(help="Largest learning rate, after warm-up.")] = 3e-5
    weight_decay: Annotated[float, typer.Option(help="Decay of weight matrices.")] = 0.01
    dropout: Annotated[float, typer.Option(help="Dropout rate inside the encoder.")] = 0.1
    head: Annotated[str, typer.Option(help="linear: a linear layer on [CLS]; own: the head of the model's class.")] = (
        "linear"
    )
    device: TrainingDevice = "auto"
    precision: TrainingPrecision = "auto"


@with_groups
def fine_tune(
    body: Annotated[str, typer.Argument(metavar="ENCODER", help="hf:FOLDER of an encoder, such as BERT.")],
    train_file: TrainFile,
    dev_file: Annotated[Path, typer.Option("--dev", help="Labelled pairs, evaluated after each epoch.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for the models, one folder per seed, and train.json.")],
    *,
    test_file: TestFiles = None,
    map_file: Annotated[Path | None, typer.Option("--map", help="Fitted map to apply to the word-piece table.")] = None,
    seeds: Seeds = "5",
    tuning: TuningOptions,
    labels: Annotated[
        str | None,
        typer.Option("--labels", help="Names of numeric labels: entailment,neutral,contradiction."),
    ] = None,
    dtype: FilePrecision = "float32",
    as_json: Json = False,
) -> None:
    """Fine-tune an encoder, one model per seed; rerun the same command to resume."""
    require("torch", extra="models")
    require("transformers", extra="models")
    from evenhand.mitigations import VectorMap

    _require_dtype(dtype)
    numbers = parse_seeds(seeds)
    _require_models_folder(out)
    parts = _read_parts(train_file, dev_file, test_file or [], labels)
    change = VectorMap.load(map_file) if map_file else None
    require_folder(out)
    models = [_fine_tuned(body.removeprefix(PREFIX), parts, change, seed, out, tuning, dtype) for seed in numbers]
    _finish(models, out, selected=False, as_json=as_json)
    for seed in numbers:  # only now: a rerun of a stopped command finds its finished seeds
        (out / CHECKPOINT.format(seed=seed)).unlink(missing_ok=True)


def _fine_tuned(
    body: str, parts: PairParts, change: VectorMap | None, seed: int, out: Path, tuning: TuningOptions, dtype: str
) -> dict[str, Any]:
    """Train, save and evaluate the model of a seed; return its record."""
    from evenhand.models.nli.fine_tuning import fine_tune as run
    from evenhand.models.nli.labelled_pairs import evaluate
    from evenhand.models.nli.transformer import TransformerNLI

    pairs, dev, tests = parts
    name = f"seed-{seed}"
    with notes_on_stderr(), progress(f"seed {seed}") as bar:
        trained = run(
            body, pairs, dev, seed=seed, change=change, checkpoint=out / CHECKPOINT.format(seed=seed), progress=bar,
            **asdict(tuning),
        )  # fmt: skip
        folder = trained.save(out / name, dtype=dtype)
        model = TransformerNLI(folder, device=tuning.device)
        accuracies = [evaluate(model, part).to_dict() for part in tests]
    return {"file": name, **trained.to_dict(), "epoch": len(trained.history), "test": accuracies}


def _show_models(models: list[dict[str, Any]], *, selected: bool = True) -> None:
    """Show one line per trained model; `selected` says whether dev accuracy chose the epoch."""
    tests = [test["source"] for test in models[0]["test"]]
    table = plain_table("file", "seed", "epoch", "dev", *tests, left=["file"])
    for model in models:
        accuracies = [model["dev_accuracy"], *(test["accuracy"] for test in model["test"])]
        cells = (f"{accuracy:.1%}" for accuracy in accuracies)
        table.add_row(escape(model["file"]), str(model["seed"]), str(model["epoch"]), *cells)
    reason = " That on dev is optimistic, because it selected the epoch." if selected else ""
    show(table, f"[dim]Accuracy.{reason} Chance is about 33 %.[/]")


def _show_accuracy(name: str, result: Accuracy) -> None:
    """Show accuracy, recall by label and confusion matrix."""
    low, high = result.interval
    table = plain_table("label", "recall", *(f"as {label}" for label in result.labels), left=["label"])
    for label, counts in zip(result.labels, result.confusion.tolist(), strict=True):
        share = result.by_label[label]
        table.add_row(label, "" if share is None else f"{share:.1%}", *(f"{count:,}" for count in counts))
    interval = escape(f"[{low:.1%}, {high:.1%}]")
    show(
        f"[bold]{escape(name)}[/]  {escape(result.source)}: [bold]{result.accuracy:.1%}[/] {interval} of "
        f"{result.n:,} pairs{escape(_describe_skipped(result.skipped))}",
        table,
    )


def _describe_skipped(counts: Mapping[str, int]) -> str:
    """Return how many pairs of a file were skipped, and why."""
    return "".join(f", {count:,} skipped ({reason})" for reason, count in counts.items())


VERBS = {"train": train, "fine-tune": fine_tune, "eval": evaluate}
