"""Parameters in chains, sweeps with their controls, and the chart of a sweep."""

from pathlib import Path

import pytest

import evenhand as eh
from evenhand.audit.cells import change_key
from evenhand.audit.plan import at_site, method_of, split_chain, step_parts, swept
from evenhand.errors import EvenhandError, UsageError
from evenhand.report.charts import figures
from evenhand.report.charts.attribution import swept_stages


def test_steps_have_parameters_and_sites() -> None:
    chain = "steering(strength=0.5;seed=3)@layer:4.leace@mlp:2.linear"
    assert split_chain(chain) == ("steering(strength=0.5;seed=3)@layer:4", "leace@mlp:2", "linear")
    assert step_parts("leace") == ("leace", {})
    assert method_of(split_chain(chain)[0]).params()["strength"] == 0.5
    assert at_site("random(k=2).leace@mlp:2", "layer:1") == "random(k=2)@layer:1.leace@mlp:2"
    for wrong in ("random(k)", "random(=2)", "random(k=2"):
        with pytest.raises(UsageError):
            method_of(wrong)
    with pytest.raises(EvenhandError, match="parameter of random"):
        method_of("random(j=2)")


def test_a_sweep_tries_every_value_and_the_control() -> None:
    assert swept(["random", "span"], "k=1,2") == ("random(k=1)", "random(k=2)", "span")
    chains = swept(["steering@layer:2"], "strength=-1,1")
    assert chains == (
        "steering(strength=-1)@layer:2", "steering(strength=1)@layer:2",
        "steering(strength=-1;direction=random)@layer:2", "steering(strength=1;direction=random)@layer:2",
    )  # fmt: skip
    for text in ("strength", "strength=", "nothing=1"):
        with pytest.raises(UsageError):
            swept(["steering"], text)


def test_values_and_files_of_parameters_are_part_of_the_key(tmp_path: Path) -> None:
    concept, file = eh.concept("gender"), tmp_path / "prompts.tsv"
    file.write_text("one\ttwo\n", encoding="utf-8")
    chains = ["random(k=1)", "random(k=2)", f"steering(prompts={file})"]
    keys = {change_key("subject", chain, concept, 0) for chain in chains}
    file.write_text("one\tthree\n", encoding="utf-8")
    keys.add(change_key("subject", chains[-1], concept, 0))
    assert len(keys) == 4


def test_the_chart_of_a_sweep_has_every_value(tmp_path: Path) -> None:
    assert swept_stages(["original", "linear", "random(k=1)"]) == []
    audit = eh.Audit.run(
        "glove-embedded", measures=["weat", "similarity"], methods=["random(k=1)", "random(k=2)", "random(k=5)"]
    )
    (figure,) = figures(audit, "glove-embedded", ["strength"])
    assert [line[:2] for line in figure.table] == [("random", "1"), ("random", "2"), ("random", "5")]
    assert "broken line" in figure.caption
    page = audit.to_html(tmp_path / "report.html").read_text(encoding="utf-8")
    assert "What k does and costs" in page


def test_a_sweep_from_the_command_line(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from evenhand.cli import app

    line = ["audit", "glove-embedded", "-m", "random", "--measure", "weat", "--query", "weat-6", "-o", str(tmp_path)]
    done = CliRunner().invoke(app, [*line, "--sweep", "k=1,2", "--json"])
    assert done.exit_code == 0, done.output
    assert '"random(k=2)"' in done.stdout
    refused = CliRunner().invoke(app, ["audit", "glove-embedded", "--sweep", "k=1,2", "-o", str(tmp_path)])
    assert refused.exit_code == 2
    assert "none was named" in refused.output
