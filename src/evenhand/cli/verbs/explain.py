"""`evenhand explain`: where in a network the difference between two texts comes from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from evenhand.cli.options import Json, Only, Opening, Overwrite, with_groups
from evenhand.cli.terminal import escape, note, notes_on_stderr, show, show_json, show_table
from evenhand.errors import UsageError
from evenhand.outputs import output_file

if TYPE_CHECKING:
    from evenhand.models.attribution.pairs import PairAttribution
    from evenhand.subjects import Subject

COLUMNS = 8  # sites beside the tokens on a screen of 80 columns
LONGEST = 24  # characters of a token's name
VIEWS = ("inference", "labels", "likelihood")


@with_groups
def explain(
    subject: Annotated[str, typer.Argument(metavar="MODEL", help="hf:FOLDER or a GGUF file.", show_default=False)],
    *,
    pair: Annotated[
        tuple[str, str],
        typer.Option(
            "--pair", metavar="FIRST SECOND", help="Two texts that differ in a few words.", show_default=False
        ),
    ],
    answers: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--answers",
            metavar="WORD WORD",
            help="Language models: compare the probabilities of two next words, or of two words at the mask.",
            show_default="score the tokens that both texts have",
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", help="Classifiers: whose log-odds are compared.", show_default="last, or entailment"),
    ] = None,
    premise: Annotated[
        str | None,
        typer.Option("--premise", help="Inference models: the premise of both texts.", show_default=False),
    ] = None,
    hypothesis: Annotated[
        str | None,
        typer.Option("--hypothesis", help="Inference models: the hypothesis of both texts.", show_default=False),
    ] = None,
    opening: Annotated[Opening, Only("device", "precision", "labels", "allow_pickle")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write a page with charts (.html).", show_default=False)
    ] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Show which layers and tokens of a model decide that it scores two texts differently."""
    from evenhand.models.attribution.pairs import explain_pair

    (opened,) = opening.subjects([subject])
    with output_file(out, sources=[subject], overwrite=overwrite):
        with notes_on_stderr():
            view, texts = _question(opened, pair, premise, hypothesis)
            result = explain_pair(view, texts[0], texts[1], answers=answers, label=label)
        if out:
            from evenhand.report.attribution import write_attribution

            write_attribution(result, out)
    if as_json:
        show_json(result.to_dict())
    else:
        _show(result)
    if out:
        note(f"wrote {out}")


def _question(
    subject: Subject, pair: tuple[str, str], premise: str | None, hypothesis: str | None
) -> tuple[object, Sequence[str | tuple[str, str]]]:
    """Return the view that is explained and its two inputs."""
    name = next((view for view in VIEWS if view in subject.offers), "")
    if not name:
        offers = ", ".join(subject.offers) or "no view"
        raise UsageError(
            f"{subject.name} is {subject.title}, which offers {offers}; explain needs likelihood, labels or inference",
            hint="open a language model, a classifier or an inference model",
        )
    if subject.network is None:
        raise UsageError(f"{subject.name} is {subject.title}, not a transformer", hint="open a model: hf:FOLDER")
    view = subject.view(name)
    if name != "inference":
        if premise or hypothesis:
            raise UsageError(
                f"--premise and --hypothesis are for inference models; {subject.name} is {subject.title}",
                hint="leave them out",
            )
        return view, pair
    if (premise is None) == (hypothesis is None):
        raise UsageError(
            "an inference model compares a premise with a hypothesis: name one of them for both texts",
            hint="--premise TEXT if the pair are hypotheses, --hypothesis TEXT if they are premises",
        )
    model = view.members[0]
    return model, [(premise, text) if premise is not None else (text, str(hypothesis)) for text in pair]


def _show(result: PairAttribution) -> None:
    from evenhand.measures.numbers import number
    from evenhand.models.attribution.pairs import ALIGNMENT
    from evenhand.report.attribution import attribution_findings

    for sentence in attribution_findings(result):
        show(escape(sentence))
    shares = result.shares
    values = result.effects if shares is None else 100 * shares
    chosen = _spread(len(result.sites))
    columns = ["token", *(_site(result.sites[row]) for row in chosen), "grad 1", "grad 2"]
    rows = []
    for place, unit in enumerate(result.units):
        name = unit.name if len(unit.name) <= LONGEST else f"{unit.name[: LONGEST - 1]}…"
        cells = [number(float(values[row, place]), 1 if shares is None else 0) for row in chosen]
        rows.append(
            [f"{'*' if unit.changed else ''}{name}", *cells, *(number(float(g[place]), 2) for g in result.gradients)]
        )
    show("")
    show_table("By token and layer" + (" (% of the difference)" if shares is not None else ""), columns, rows)
    show(
        "[dim]A cell: how far the score of the second text moves to that of the first with the activations of the "
        "first at this token and layer. grad 1, grad 2: gradient times input in the first and the second text. "
        f"* differs; {ALIGNMENT}.[/]"
    )
    if len(chosen) < len(result.sites):
        show(f"[dim]{len(chosen)} of {len(result.sites)} layers are shown; --json and --out have all.[/]")


def _spread(count: int) -> list[int]:
    """Return up to `COLUMNS` numbers of sites, the first and the last among them."""
    if count <= COLUMNS:
        return list(range(count))
    return [round(place * (count - 1) / (COLUMNS - 1)) for place in range(COLUMNS)]


def _site(site: str) -> str:
    return "table" if site == "embeddings" else site.partition(":")[2]
