"""`evenhand nli`: train and evaluate models of natural language inference over word vectors, or fine-tune encoders."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import MEGABYTE, Json, MaxRecord, notes_on_stderr
from evenhand.cli.options import load as load_vectors
from evenhand.cli.screens.nli import describe_skipped, show_accuracy, show_models
from evenhand.cli.screens.terminal import note, progress, show_json
from evenhand.cli.verbs.nli_fine_tuning import fine_tune
from evenhand.errors import UsageError, counted, require, shown

if TYPE_CHECKING:
    from evenhand.models.nli import NLIModel
    from evenhand.models.nli.labelled_pairs import LabelledPairs
    from evenhand.models.nli.training import NLITrainingSettings, TrainedNLI
    from evenhand.models.vectors import Vectors
    from evenhand.subjects.nli_models import NLISubject

VectorsOption = Annotated[str, typer.Option("--vectors", help="Word vectors that the model reads.")]
MapOption = Annotated[Path | None, typer.Option("--map", help="Fitted map to apply to the vectors first.")]
LabelOrder = Annotated[
    str | None,
    typer.Option("--labels", help="Names of numeric labels in order, such as entailment,neutral,contradiction."),
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")]

MAX_SEEDS = 10_000


def train(
    train_file: Annotated[Path, typer.Option("--train", help="Labelled pairs: SNLI, MultiNLI, .jsonl, .tsv, .csv.")],
    dev_file: Annotated[Path, typer.Option("--dev", help="Labelled pairs for early stopping.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for models, train.json and the checkpoint.")],
    vectors: VectorsOption = "glove-embedded",
    map_file: MapOption = None,
    test_file: Annotated[list[Path] | None, typer.Option("--test", help="Pairs for the final accuracy.")] = None,
    architecture: Annotated[str, typer.Option(help="decomposable or bilstm.")] = "decomposable",
    seeds: Annotated[
        str, typer.Option(help="Number of seeds, or a list: 3,4,7. For one specific seed write `7,`.")
    ] = "5",
    epochs: Annotated[int, typer.Option(help="Maximum number of epochs.")] = 20,
    patience: Annotated[int, typer.Option(help="Epochs without improvement on --dev before stopping.")] = 5,
    hidden: Annotated[int, typer.Option(help="Width of the hidden layers.")] = 200,
    batch: Annotated[int, typer.Option(help="Pairs per step.")] = 256,
    optimiser: Annotated[str, typer.Option(help="adam or adagrad.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Learning rate.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Weight of the L2 penalty.")] = 0.0,
    dropout: Annotated[float, typer.Option(help="Dropout rate.")] = 0.2,
    intra_attention: Annotated[
        bool, typer.Option("--intra-attention", help="Attention within sentences (decomposable only).")
    ] = False,
    lower: Annotated[bool, typer.Option(help="Look words up in lower case.")] = True,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale vectors to unit length.")] = False,
    labels: LabelOrder = None,
    max_record: MaxRecord = 128,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or auto (bfloat16 on a GPU).")] = "auto",
    stack: Annotated[int | None, typer.Option(help="Models trained at once.", show_default="CPU 1, GPU all")] = None,
    dtype: Annotated[str, typer.Option(help="Precision of the model files: float32 or float16.")] = "float32",
    as_json: Json = False,
) -> None:
    """Train one model per seed; rerun the same command to resume."""
    require("torch", extra="models")
    from evenhand.models.nli.training import NLITrainingSettings

    settings = NLITrainingSettings(
        architecture=architecture, epochs=epochs, patience=patience, hidden=hidden, batch=batch, optimiser=optimiser,
        learning_rate=learning_rate, weight_decay=weight_decay, dropout=dropout, intra_attention=intra_attention,
        lower=lower, normalise=normalise, device=device, precision=precision,
    )  # fmt: skip
    if dtype not in ("float32", "float16"):
        raise UsageError(f"dtype must be float32 or float16, got {dtype!r}")
    numbers = parse_seeds(seeds)
    _require_writable(out)
    require_models_folder(out)
    files = (train_file, dev_file, *(test_file or []))
    pairs, dev, *tests = (_read_pairs(path, labels, max_record) for path in files)
    for kind, data in (("train", pairs), ("dev", dev)):
        note(f"{kind}: {len(data):,} pairs of {data.source}{describe_skipped(data.skipped)}")
    trained = _train(pairs, dev, _load_mapped(vectors, map_file), numbers, out, settings, stack)
    models = [_save(one, tests, out, dtype) for one in trained]
    _write_json({"models": models}, out / "train.json")
    if as_json:
        show_json({"models": models})
    else:
        show_models(models)
    note(f"wrote {counted(len(models), 'model')} and train.json to {out}")
    others = sorted({path.name for path in out.glob("seed-*.safetensors")} - {model["file"] for model in models})
    if others:
        note(f"note: {', '.join(others)} in {out} belong to an earlier training run and are not in train.json")


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Any model that `evenhand probe` accepts.")],
    files: Annotated[list[Path], typer.Argument(help="Labelled pairs.", show_default=False)],
    vectors: VectorsOption = "glove-embedded",
    map_file: MapOption = None,
    labels: LabelOrder = None,
    max_record: MaxRecord = 128,
    outputs: Annotated[
        str | None,
        typer.Option(
            "--outputs", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """Evaluate the accuracy of a model on labelled pairs."""
    from evenhand.mitigations import VectorMap
    from evenhand.models.nli.labelled_pairs import evaluate as run
    from evenhand.subjects.nli_models import open_models

    data = [_read_pairs(path, labels, max_record, one_class=True) for path in files]
    with notes_on_stderr(), progress(model) as bar:
        change = VectorMap.load(map_file) if map_file else None
        subject = open_models([model], vectors=vectors, change=change, device=device, labels=outputs)
        results = [(one.name, run(one, pairs, progress=bar)) for one in _predicting(subject) for pairs in data]
    if as_json:
        show_json({"results": [{"model": name, **accuracy.to_dict()} for name, accuracy in results]})
    else:
        for name, accuracy in results:
            show_accuracy(name, accuracy)
    if subject.ensemble.note:
        note(f"note: {subject.ensemble.note}")


def sub_app(guarded: Callable[[Callable[..., None]], Callable[..., None]] = lambda verb: verb) -> typer.Typer:
    """Return the sub-app; `guarded` turns errors into messages and exit codes."""
    app = typer.Typer(name="nli", help="Train and evaluate NLI models.", no_args_is_help=True)
    verbs: dict[str, Callable[..., None]] = {"train": train, "fine-tune": fine_tune, "eval": evaluate}
    for name, verb in verbs.items():
        app.command(name)(guarded(verb))
    return app


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


def _read_pairs(path: Path, labels: str | None, megabytes: int, *, one_class: bool = False) -> LabelledPairs:
    from evenhand.models.nli.labelled_pairs import read_pairs

    order = [part.strip() for part in labels.split(",")] if labels else None
    return read_pairs(path, labels=order, one_class=one_class, max_record=megabytes * MEGABYTE)


def require_models_folder(out: Path) -> None:
    """Raise an error for a folder whose files are not those of an earlier training."""
    from evenhand.outputs import require_own_folder

    def is_training(folder: Path) -> bool:
        return (folder / "train.json").is_file() or any(folder.glob("*checkpoint*"))

    require_own_folder(out, [file.name for file in out.glob("seed-*")], is_training)


def _require_writable(out: Path) -> None:
    """Raise an error for an unwritable folder before anything is read or trained."""
    from evenhand.files import output_errors

    with output_errors(out), TemporaryDirectory(dir=_nearest_existing(out)):
        pass


def _nearest_existing(path: Path) -> Path:
    """Return the path itself, or the nearest parent that exists."""
    return next(folder for folder in (path, *path.absolute().parents) if folder.exists())


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


def _train(
    pairs: LabelledPairs,
    dev: LabelledPairs,
    vectors: Vectors,
    seeds: list[int],
    out: Path,
    settings: NLITrainingSettings,
    stack: int | None,
) -> tuple[TrainedNLI, ...]:
    from evenhand.models.nli.training import train as run

    with notes_on_stderr(), progress("training") as bar:
        return run(
            pairs, dev, vectors, seeds=seeds, stack=stack, checkpoint=out / "checkpoint", progress=bar,
            **settings.to_dict(),
        )  # fmt: skip


def _save(one: TrainedNLI, tests: list[LabelledPairs], out: Path, dtype: str) -> dict[str, Any]:
    """Save a model, evaluate it on the test pairs, and return its record."""
    from evenhand.models.nli.labelled_pairs import evaluate as run

    record = {**one.to_dict(), "test": [run(one.model, pairs).to_dict() for pairs in tests]}
    about = {key: record[key] for key in ("seed", "dev_accuracy", "epoch", "data", "words", "settings", "packages")}
    path = one.model.save(out / f"seed-{one.seed}.safetensors", dtype=dtype, **about)
    return {"file": path.name, **record}


def _write_json(document: dict[str, Any], path: Path) -> None:
    import json

    from evenhand.files import write_text

    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
