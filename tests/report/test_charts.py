"""Every chart is drawn from stored records only, is readable without colour, and has its numbers as a table."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from evenhand.audit import ORIGINAL, Audit, Question, Result, Stage
from evenhand.cli import app
from evenhand.errors import UsageError
from evenhand.measures import Measurement
from evenhand.models.vectors import Coverage
from evenhand.report import charts
from evenhand.report.charts.directions import density
from evenhand.report.charts.figure import FIGURE_FORMATS, write_figure
from evenhand.report.charts.style import DARK, MOST_POINTS, PALETTE, RULE, dark_rules, spread, uncrowded
from evenhand.report.charts.words import ON_CELLS
from evenhand.report.html import page, picture

# `strength` is drawn where stages differ in a parameter alone, which these do not.
DRAWN = [id for id in charts.CHARTS.ids() if id != "strength"]
STAGES = (ORIGINAL, "linear", "span", "hard")
WORDS = [f"w{number}" for number in range(24)]
NEUTRALITY = {
    name: {"mean": 0.4, "interval": [0.3, 0.5]} for name in ("net_neutral", "fraction_neutral", "T:0.5", "T:0.7")
}


def values(**columns: float) -> tuple[dict[str, object], ...]:
    """Return an item for each word whose columns differ by word."""
    return tuple(
        {"word": word, "value": (row - 12) / 20} | {name: start + row / 50 for name, start in columns.items()}
        for row, word in enumerate(WORDS)
    )


def cells() -> Iterator[tuple[Question, Measurement]]:
    """Yield one question with its measurement for every chart."""

    def asked(measure: str, query: str, **fields: object) -> tuple[Question, Measurement]:
        variant = str(fields.pop("variant", ""))
        made = Measurement(measure, 0.4, 24, Coverage(()), query=query, interval=(0.2, 0.6), positive="female")
        return Question(measure, query, {}, variant), replace(made, **fields)

    groups = {"female": [0.2, 0.3, 0.4], "male": [-0.2, -0.3, -0.1]}
    scree = {"shares": [0.6, 0.4], "random": [0.55, 0.45], "random_low": [0.5, 0.4], "random_high": [0.6, 0.5]}
    yield asked("weat", "weat-6", positive="Male names with Career")
    yield asked("direct-bias", "professions", variant="old-direction", items=values(across=0.1))
    details = {"groups": groups, "scree": scree | {"pairs": 2, "draws": 10}}
    yield asked("direct-bias", "professions", variant="new-direction", items=values(across=0.1), details=details)
    yield asked("ripa", "professions", items=values())
    yield asked("clustering", "vocabulary", items=values(cluster=0, x=-0.5, y=-0.2), params={"pair": ["she", "he"]})
    yield asked("neighbours", "professions", items=values(neighbours=0.1), details={"k": 10})
    yield asked("occupation-share", "occupations", items=values(share=5.0))
    yield asked("nli-neutrality", "gender-occupation", details={"scores": NEUTRALITY})
    gap = values(first=0.1, second=0.3)
    yield asked("nli-gap", "gender-occupation", score="entailment", items=gap, details={"groups": ["female", "male"]})
    yield asked("seat", "sent-weat6")
    yield asked("layer-bias", "weat-6", items=values()[:4])
    yield asked("crows-pairs", "crows-pairs", value=60.0, interval=(50.0, 70.0))
    yield asked("pronoun-share", "occupations", score="pearson", items=values(share=0.1))
    yield asked("winogender", "winogender", score="share-correlation", items=values(share=5.0))
    yield asked("counterfactual", "texts", score="gap")
    answers = {name: {"mean": 0.5, "interval": [0.4, 0.6]} for name in ("female", "male")}
    decided = [{"word": f"scenario {n}", "value": 0.3 - n / 10, "groups": answers} for n in range(4)]
    yield asked("decisions", "decision-scenarios", score="gap", variant="explicit", items=tuple(decided))
    yield asked("corpus-bias", "words", score="beta", items=values(first=-0.2), details={"intercept": 0.0})
    rates = [{"word": g, "value": v, "interval": [v - 0.1, v + 0.1], "n": 50} for g, v in (("f", 0.3), ("m", 0.5))]
    for score in ("demographic-parity-difference", "accuracy-difference"):
        yield asked("group-metrics", "sex", score=score, items=tuple(rates))
    verdicts = {g: {"mean": m, "interval": [m - 0.05, m + 0.05], "prompts": 20} for g, m in (("f", 0.3), ("m", 0.2))}
    judges = {j: {"label": "toxic", "by_group": verdicts, "own_gap": {"gap": {"value": 0.01}}} for j in ("a", "b")}
    yield asked("judged-generations", "person-prompts", score="expected-maximum", details={"judges": judges})
    sites = [("layer:1", 0.9), ("layer:2", 0.4), ("attention:1", 0.1), ("mlp:1", 0.2)]
    shares = [{"word": s, "value": v, "interval": [v - 0.1, v + 0.1], "pairs": 24} for s, v in sites]
    yield asked("bias-by-site", "crows-pairs", items=tuple(shares))
    yield asked("similarity", "men")


@pytest.fixture(scope="module")
def audit() -> Audit:
    results = [Result("s", stage, question, cell) for question, cell in cells() for stage in STAGES]
    manifest = {
        "run": "run",
        "concept": {"name": "gender", "digest": "0"},
        "subjects": [{"name": "s", "kind": "vectors", "offers": ["vectors"], "address": "s", "sha256": "0"}],
        "arguments": {"effective": {"seed": 7, "methods": list(STAGES[1:])}, "given": {}},
        "evenhand": "0",
        "created": "2026-01-01",
        "python": "3.11",
        "packages": {},
        "status": "done",
        "seconds": 1.0,
        "warnings": [],
        "skipped": {},
        "cells_computed": 0,
    }
    return Audit(manifest, tuple(Stage(stage, "s") for stage in STAGES), tuple(results))


@pytest.fixture(scope="module")
def drawn(audit: Audit) -> dict[str, charts.Figure]:
    return {figure.id: figure for figure in charts.figures(audit, "s")}


def test_every_chart_draws_what_the_record_has(drawn: dict[str, charts.Figure]) -> None:
    assert sorted(drawn) == sorted(DRAWN)


@pytest.mark.parametrize("id", DRAWN)
def test_a_chart_says_what_it_shows(id: str, drawn: dict[str, charts.Figure]) -> None:
    figure = drawn[id]
    assert len(figure.alt) > 20
    assert "seed 7" in figure.caption.replace("Seed", "seed")
    assert re.search(r"better|ideal|order the words alike|share one direction|by construction", figure.caption)
    assert figure.table
    assert {len(line) for line in figure.table} == {len(figure.columns)}
    for axis in _axes(figure.spec):
        assert (
            axis.get("title", "") is None
            or "title" in axis
            or axis["field"] in ("value", "cosine", "density", "x", "y")
        )


@pytest.mark.parametrize("id", DRAWN)
def test_a_chart_is_drawn_in_colours_of_both_pages(id: str, drawn: dict[str, charts.Figure]) -> None:
    text = charts.svg(drawn[id].spec)
    gradient = "linearGradient" in text  # the cells of a heat map have colours between two of the palette
    used = set(re.findall(r'(?:fill|stroke)="(#[0-9a-f]{3,6})"', text)) - set(ON_CELLS)
    assert gradient or used <= set(DARK)


def test_stages_share_their_axes(drawn: dict[str, charts.Figure]) -> None:
    for figure in drawn.values():
        assert "resolve" not in figure.spec
        if "facet" in figure.spec:
            assert figure.spec["facet"]["sort"][0].startswith(
                (ORIGINAL, "linear", "weat-6", "selection rate", "a: P(toxic)", "output of the layer")
            )


def test_a_chart_is_left_out_where_its_cells_are_missing(audit: Audit) -> None:
    bare = [replace(r, measurement=replace(r.measurement, items=(), details={})) for r in audit.results]
    ids = {figure.id for figure in charts.figures(replace(audit, results=tuple(bare)), "s")}
    assert ids == {
        "bias-against-quality", "effect-sizes", "sentence-effect-sizes", "pair-preferences", "decision-changes"
    }  # fmt: skip
    assert charts.figures(replace(audit, results=()), "s", ["clusters"]) == []


def test_many_stages_are_cut_and_the_caption_says_so(audit: Audit) -> None:
    stages = tuple(f"stage-{number}" for number in range(9))
    question, cell = next(cells())
    results = tuple(Result("s", stage, question, cell) for stage in (ORIGINAL, *stages))
    record = replace(audit, results=results, stages=tuple(Stage(stage, "s") for stage in (ORIGINAL, *stages)))
    (figure,) = charts.figures(record, "s", ["effect-sizes"])
    assert "The first 6 of 10 stages are drawn" in figure.caption
    assert len(figure.columns) == 11


def test_the_page_folds_the_charts_of_single_views(audit: Audit) -> None:
    text = page(audit)
    assert text.count('role="img"') == len(DRAWN) == text.count("<figure")
    assert (
        text.index("Bias before and after") < text.index("What is left, and what it cost") < text.index("All numbers")
    )
    folded = re.findall(r'<details class="chart"><summary>Chart: ([^<]+)', text)
    assert "Do the pairs share one direction?" in folded
    assert "Association tests of words (WEAT)" not in folded
    ids = re.findall(r' id="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(ids)


def test_ids_of_two_pictures_differ(drawn: dict[str, charts.Figure]) -> None:
    spec = drawn["measure-agreement"].spec
    one, other = (set(re.findall(r'\bid="([^"]+)"', picture(spec, prefix))) for prefix in ("a-", "b-"))
    assert one
    assert not one & other


def luminance(code: str) -> float:
    full = "#" + "".join(2 * digit for digit in code[1:]) if len(code) == 4 else code
    parts = [int(full[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize("colour", [*PALETTE, RULE])
def test_marks_stand_out_on_both_pages(colour: str) -> None:
    """At least 3 to 1, which WCAG asks of graphics."""
    assert contrast(colour, "#fdfcf9") >= 3
    assert contrast(DARK[colour], "#1d1c1a") >= 3
    assert f'[fill="{colour}"] {{ fill: {DARK[colour]}; }}' in dark_rules(".picture")


def test_stages_differ_by_shape_and_lightness_too() -> None:
    """The first four are told apart in a grey print: neighbours differ in lightness or always in shape."""
    shades = [luminance(colour) for colour in PALETTE[:3]]
    assert shades == sorted(shades)
    assert min(after - before for before, after in pairwise(shades)) > 0.03


def test_no_chart_is_pink_and_blue(drawn: dict[str, charts.Figure]) -> None:
    for code in re.findall(r"#[0-9a-f]{6}", json.dumps([figure.spec for figure in drawn.values()])):
        red, green, blue = (int(code[i : i + 2], 16) for i in (1, 3, 5))
        assert not (blue > 1.5 * red and blue > 1.5 * green), code
        assert not (red > 200 and blue > 140 and green < 0.8 * blue), code


def test_points_are_spread_evenly() -> None:
    assert spread([1, 2, 3], 5) == [1, 2, 3]
    assert spread(list(range(101)), 3) == [0, 50, 100]
    assert len(spread(range(5000))) == MOST_POINTS


def test_labels_do_not_run_into_each_other() -> None:
    places = {"a": (0.0, 0.0), "b": (0.1, 0.01), "c": (0.1, 0.5), "d": (1.0, 1.0), "e": (0.9, 0.99)}
    assert uncrowded(places) == {"a", "c", "d"}


def test_a_density_integrates_to_one() -> None:
    grid = density([0.1, 0.2, 0.25, 0.3, 0.15], (-0.5, 1.0))
    step = grid[1][0] - grid[0][0]
    assert sum(y for _, y in grid) * step == pytest.approx(1.0, abs=0.02)
    assert max(grid, key=lambda point: point[1])[0] == pytest.approx(0.2, abs=0.03)


@pytest.mark.parametrize("ending", FIGURE_FORMATS)
def test_a_figure_is_written_in_every_format(ending: str, drawn: dict[str, charts.Figure], tmp_path: Path) -> None:
    first = {".svg": b"<svg", ".png": b"\x89PNG", ".pdf": b"%PDF", ".json": b"{"}[ending]
    assert write_figure(drawn["scree"], tmp_path / f"x{ending}").read_bytes().startswith(first)


def test_a_figure_needs_an_ending_of_a_picture(drawn: dict[str, charts.Figure], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no ending of a picture"):
        write_figure(drawn["scree"], tmp_path / "x.doc")


def test_an_unknown_figure_is_answered_with_the_known_ones(audit: Audit) -> None:
    with pytest.raises(UsageError, match="no figure 'scre'") as caught:
        charts.find_figure(audit, "scre")
    assert "did you mean: scree" in str(caught.value.hint)
    assert "clusters" in str(caught.value.hint)
    with pytest.raises(UsageError, match="needs items of clustering"):
        charts.find_figure(replace(audit, results=audit.results[:4]), "clusters")


def test_the_command_writes_figures(audit: Audit, tmp_path: Path) -> None:
    record = replace(audit, results=tuple(r for r in audit.results if r.question.measure in ("weat", "crows-pairs")))
    record.save(tmp_path)
    one = CliRunner().invoke(
        app, ["report", str(tmp_path), "--figure", "effect-sizes", "-o", str(tmp_path / "x.svg"), "--json"]
    )
    assert json.loads(one.stdout) == {"figures": [str(tmp_path / "x.svg")]}
    assert CliRunner().invoke(app, ["report", str(tmp_path), "--figures", str(tmp_path / "all")]).exit_code == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        "bias-against-quality.svg", "effect-sizes.svg", "pair-preferences.svg"
    ]  # fmt: skip
    for wrong in (["--figure", "nothing"], ["--figure", "scree"], ["--figure", "x", "--figures", "y"]):
        assert CliRunner().invoke(app, ["report", str(tmp_path), *wrong]).exit_code == 2


def _axes(spec: object) -> Iterator[dict[str, object]]:
    """Yield every quantitative channel of a specification."""
    if isinstance(spec, dict):
        if spec.get("type") == "quantitative":
            yield spec
        for part in spec.values():
            yield from _axes(part)
    elif isinstance(spec, list):
        for part in spec:
            yield from _axes(part)


def test_marks_that_coincide_share_one_label(drawn: dict[str, charts.Figure]) -> None:
    labels = [value["method"] for value in drawn["bias-against-quality"].spec["data"]["values"]]
    assert sorted(labels) == ["", "", "", "original, linear, span, hard"]


def test_occupations_stand_at_their_share_of_women(drawn: dict[str, charts.Figure]) -> None:
    def shares(id: str) -> list[float]:
        return [row["share"] for row in drawn[id].spec["data"]["values"]]

    assert min(shares("occupations")) == pytest.approx(5.0)
    assert max(shares("occupations")) == pytest.approx(5.0 + (len(WORDS) - 1) / 50)
    assert min(shares("pronouns-by-occupation")) == pytest.approx(100 * 0.1)
