"""`evenhand nli`: train models of natural language inference over word vectors, and see how often they are right."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from evenhand.cli.options import Json, notes_on_stderr
from evenhand.cli.options import load as load_vectors
from evenhand.cli.screens.nli import show_accuracy, show_models, skipped
from evenhand.cli.screens.terminal import note, progress, show_json
from evenhand.errors import UsageError, counted, require

if TYPE_CHECKING:
    from evenhand.models.nli import NLIModel
    from evenhand.models.nli.labelled_pairs import LabelledPairs
    from evenhand.models.nli.training import Trained
    from evenhand.models.vectors import Vectors
    from evenhand.subjects.nli_models import NLISubject

VectorsOption = Annotated[str, typer.Option("--vectors", help="The vectors that the model reads.")]
MapOption = Annotated[Path | None, typer.Option("--map", help="A fitted map, applied to the vectors first.")]
LabelOrder = Annotated[
    str | None, typer.Option("--labels", help="What numbers as labels mean, in order, such as entailment,neutral,...")
]
Device = Annotated[str, typer.Option("--device", help="cpu, cuda or auto.")]

SETTINGS = (
    *("architecture", "epochs", "patience", "hidden", "batch", "optimiser", "learning_rate", "weight_decay", "dropout"),
    *("intra_attention", "lower", "normalise", "device", "precision", "stack"),
)


def train(
    train_file: Annotated[Path, typer.Option("--train", help="Labelled pairs: SNLI, MultiNLI, .jsonl, .tsv, .csv.")],
    dev_file: Annotated[Path, typer.Option("--dev", help="Labelled pairs that decide when to stop.")],
    out: Annotated[Path, typer.Option("--out", help="Folder for models, train.json and the checkpoint.")],
    vectors: VectorsOption = "glove-embedded",
    map_file: MapOption = None,
    test_file: Annotated[list[Path] | None, typer.Option("--test", help="Pairs for the final accuracy.")] = None,
    architecture: Annotated[str, typer.Option(help="decomposable or bilstm.")] = "decomposable",
    seeds: Annotated[
        str, typer.Option(help="How many (0, 1, ...), or which: 3,4,7. A single one has a comma: 7,")
    ] = "5",
    epochs: Annotated[int, typer.Option(help="At most so many.")] = 20,
    patience: Annotated[int, typer.Option(help="Stop after so many epochs without a better accuracy on --dev.")] = 5,
    hidden: Annotated[int, typer.Option(help="Width of the hidden layers.")] = 200,
    batch: Annotated[int, typer.Option(help="Pairs in a step.")] = 256,
    optimiser: Annotated[str, typer.Option(help="adam or adagrad.")] = "adam",
    learning_rate: Annotated[float, typer.Option(help="Step size.")] = 1e-3,
    weight_decay: Annotated[float, typer.Option(help="Weight of the L2 penalty.")] = 0.0,
    dropout: Annotated[float, typer.Option(help="Share of values left out in training.")] = 0.2,
    intra_attention: Annotated[
        bool, typer.Option("--intra-attention", help="Decomposable: word order matters.")
    ] = False,
    lower: Annotated[bool, typer.Option(help="Look words up in lower case.")] = True,
    normalise: Annotated[bool, typer.Option("--normalise", help="Scale vectors to length one.")] = False,
    labels: LabelOrder = None,
    device: Device = "auto",
    precision: Annotated[str, typer.Option(help="float32, bf16 or auto (bf16 on a GPU).")] = "auto",
    stack: Annotated[int | None, typer.Option(help="Models trained at once.", show_default="cpu 1, GPU all")] = None,
    dtype: Annotated[str, typer.Option(help="Of the files written: float32 or float16.")] = "float32",
    as_json: Json = False,
) -> None:
    """Train one model for each seed; the same command goes on where it was stopped."""
    given = locals()
    settings = {name: given[name] for name in SETTINGS}
    require("torch", extra="models")
    if dtype not in ("float32", "float16"):
        raise UsageError(f"models are written as float32 or float16, not {dtype!r}")
    wanted = _seeds(seeds)
    _refuse_early(settings, out)
    pairs, dev, *tests = (_read(path, labels) for path in (train_file, dev_file, *(test_file or [])))
    for kind, some in (("train", pairs), ("dev", dev)):
        note(f"{kind}: {len(some):,} pairs of {some.source}{skipped(some.skipped)}")
    models = _trained(pairs, dev, _mapped(vectors, map_file), wanted, out, settings)
    document = {"models": [_written(one, tests, out, dtype) for one in models]}
    _keep(document, out / "train.json")
    if as_json:
        show_json(document)
    else:
        show_models(document["models"])
    note(f"wrote {counted(len(models), 'model')} and train.json to {out}")
    earlier = sorted({path.name for path in out.glob("seed-*.safetensors")} - {m["file"] for m in document["models"]})
    if earlier:
        note(f"note: {', '.join(earlier)} in {out} are of an earlier training, and not in train.json")


def evaluate(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="Any model that `evenhand probe` takes.")],
    files: Annotated[list[Path], typer.Argument(help="Labelled pairs.", show_default=False)],
    vectors: VectorsOption = "glove-embedded",
    map_file: MapOption = None,
    labels: LabelOrder = None,
    outputs: Annotated[
        str | None,
        typer.Option(
            "--outputs", help="Order of the labels of a Hugging Face model: e,n,c.", show_default="its config"
        ),
    ] = None,
    device: Device = "auto",
    as_json: Json = False,
) -> None:
    """How often a model's likeliest label is the right one."""
    from evenhand.mitigations import VectorMap
    from evenhand.models.nli.evaluation import evaluate as run
    from evenhand.subjects.nli_models import open_models

    sets = [_read(path, labels, one_class=True) for path in files]
    with notes_on_stderr(), progress(model) as told:
        change = VectorMap.load(map_file) if map_file else None
        subject = open_models([model], vectors=vectors, change=change, device=device, labels=outputs)
        found = [(one.name, run(one, pairs, progress=told)) for one in _predicting(subject) for pairs in sets]
    if as_json:
        show_json({"results": [{"model": name, **accuracy.to_dict()} for name, accuracy in found]})
    else:
        for name, accuracy in found:
            show_accuracy(name, accuracy)
    if subject.ensemble.note:
        note(f"note: {subject.ensemble.note}")


def sub_app(guarded: Callable[[Callable[..., None]], Callable[..., None]] = lambda verb: verb) -> typer.Typer:
    """The verbs as an app of their own; `guarded` turns errors into messages and exit codes."""
    app = typer.Typer(name="nli", help="Models of natural language inference: train, evaluate.", no_args_is_help=True)
    verbs: dict[str, Callable[..., None]] = {"train": train, "eval": evaluate}
    for name, verb in verbs.items():
        app.command(name)(guarded(verb))
    return app


def _predicting(subject: NLISubject) -> list[NLIModel]:
    """Return the members that answer any pair; a file of predictions knows its own pairs only."""
    from evenhand.models.nli import NLIModel

    models = [member for member in subject.ensemble.members if isinstance(member, NLIModel)]
    if len(models) < len(subject.ensemble):
        raise UsageError(f"{subject.name} is a file of predictions, which cannot answer other pairs")
    return models


def _mapped(source: str, map_file: Path | None) -> Vectors:
    """Load vectors and apply a fitted map where one is given."""
    from evenhand.mitigations import VectorMap

    vectors = load_vectors(source)
    return VectorMap.load(map_file)(vectors) if map_file else vectors


def _read(path: Path, labels: str | None, *, one_class: bool = False) -> LabelledPairs:
    from evenhand.models.nli.labelled_pairs import read_pairs

    order = [part.strip() for part in labels.split(",")] if labels else None
    return read_pairs(path, labels=order, one_class=one_class)


def _refuse_early(settings: dict[str, Any], out: Path) -> None:
    """Settings that cannot be, or a folder that cannot be written to: before anything is read or trained."""
    from evenhand.files import told_as_output
    from evenhand.models.nli.training.settings import Settings

    Settings(**{name: value for name, value in settings.items() if name != "stack"})
    with told_as_output(out), TemporaryDirectory(dir=_existing(out)):
        pass


def _existing(path: Path) -> Path:
    """The path itself, or the nearest one above it that exists and would hold it."""
    return next(place for place in (path, *path.absolute().parents) if place.exists())


def _seeds(text: str) -> list[int]:
    """`5` is five seeds from 0 on; `3,4,7` and `7,` are these."""
    parts = [part.strip() for part in text.split(",")]
    if not parts[0].isdigit() or not all(part.isdigit() for part in parts if part) or text.strip() == "0":
        raise UsageError(f"--seeds {text}: neither how many nor which", hint="write --seeds 5 or --seeds 3,4,7")
    return list(range(int(text))) if len(parts) == 1 else [int(part) for part in parts if part]


def _trained(
    pairs: LabelledPairs, dev: LabelledPairs, vectors: Vectors, seeds: list[int], out: Path, settings: dict[str, Any]
) -> tuple[Trained, ...]:
    from evenhand.models.nli.training import train as run

    with notes_on_stderr(), progress("training") as told:
        return run(pairs, dev, vectors, seeds=seeds, checkpoint=out / "checkpoint", progress=told, **settings)


def _written(one: Trained, tests: list[LabelledPairs], out: Path, dtype: str) -> dict[str, Any]:
    """Save a model, ask it about the test pairs, and say what it is."""
    from evenhand.models.nli.evaluation import evaluate as run

    record = {**one.to_dict(), "test": [run(one.model, pairs).to_dict() for pairs in tests]}
    about = {key: record[key] for key in ("seed", "dev_accuracy", "epoch", "data", "words", "settings", "packages")}
    path = one.model.save(out / f"seed-{one.seed}.safetensors", dtype=dtype, **about)
    return {"file": path.name, **record}


def _keep(document: dict[str, Any], path: Path) -> None:
    import json

    from evenhand.files import write_text

    write_text(path, json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n")
