"""Long audits: what they announce, how they are made small, what they keep, and what they say meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import evenhand as eh
from evenhand.audit import Plan, runner
from evenhand.audit.cells import cell_key
from evenhand.audit.plan import Question
from evenhand.audit.workload import SAMPLES, TOKENS, seconds_of
from evenhand.cli import terminal
from evenhand.measures.likelihood.stereotype_pairs import PairSet, StereotypePair

Folder = Callable[..., Path]
WRITTEN = {"methods": [], "measures": ["corpus-bias"], "samples": 70, "tokens": 12}


@pytest.fixture(autouse=True)
def _few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a model write 32 texts at once, so that 70 are several batches."""
    if find_spec("torch"):
        from evenhand.models.lm import causal

        monkeypatch.setattr(causal, "MOST_TEXTS", 32)


@pytest.fixture
def model(tiny_folder: Folder) -> str:
    return f"hf:{tiny_folder('GPT2LMHeadModel')}"


def question(plan: Plan, measure: str) -> Question:
    return next(question for question in plan.questions if question.measure == measure)


# Sizes -------------------------------------------------------------------------------------------------------------


def test_how_much_a_model_writes_is_part_of_the_question_and_of_its_key(model: str) -> None:
    subject, about = eh.open(model), eh.concept("gender")
    usual = question(Plan.default([subject]), "corpus-bias")
    more = question(Plan.default([subject], samples=300), "corpus-bias")
    longer = question(Plan.default([subject], tokens=30), "corpus-bias")
    assert usual.options == {"samples": SAMPLES, "tokens": TOKENS}
    assert more.options == {"samples": 300, "tokens": TOKENS}
    assert len({cell_key("stage", asked, about, 0) for asked in (usual, more, longer)}) == 3
    own = question(Plan.default([eh.open(model, samples=7, tokens=5)]), "corpus-bias")
    assert own.options == {"samples": 7, "tokens": 5}


def test_the_sizes_are_in_the_plan_file(model: str, tmp_path: Path) -> None:
    plan = Plan.default([eh.open(model)], only=["corpus-bias"], samples=300, tokens=30, budget=600)
    (tmp_path / "plan.toml").write_text(plan.to_toml())
    assert Plan.read(tmp_path / "plan.toml") == plan
    (tmp_path / "plan.toml").write_text(plan.to_toml().replace("budget = 600", 'budget = "10min"'))
    assert Plan.read(tmp_path / "plan.toml") == plan
    (tmp_path / "plan.toml").write_text(plan.to_toml().replace("budget = 600", 'budget = "soon"'))
    with pytest.raises(eh.EvenhandError, match="not a length of time"):
        Plan.read(tmp_path / "plan.toml")


def test_a_limit_makes_samples_smaller_never_larger(glove: eh.Vectors) -> None:
    subject = eh.open(glove)
    plan = Plan.default([subject], methods=[], limit=3000)
    assert question(plan, "gipe").options["sample"] == 3000
    assert "sample" not in question(plan, "retention").options  # it draws 2,000 anyway
    assert "sample" not in question(plan, "weat").options
    with pytest.raises(eh.EvenhandError, match="no measure of this audit asks more than 10 items"):
        Plan.default([subject], only=["weat"], limit=10)


def test_a_limit_is_stated_as_a_sample(glove: eh.Vectors) -> None:
    audit = eh.Audit.run(glove, methods=[], measures=["retention"], limit=40, seed=3)
    assert "a sample of at most 40 items, drawn with seed 3, was asked by retention" in audit.manifest["warnings"]
    assert audit.get("retention").params["sample"] == 40
    assert audit.results[0].to_dict()["options"]["sample"] == 40


def test_sentence_pairs_can_be_sampled() -> None:
    pairs = [StereotypePair(f"more {n}", f"less {n}", "stereo", "gender" if n % 3 else "age") for n in range(30)]
    asked = PairSet("pairs", tuple(pairs))
    some = asked.sampled(8, seed=1)
    assert [pair.category for pair in some.pairs].count("age") == 4
    assert some.pairs == asked.sampled(8, seed=1).pairs != asked.sampled(8, seed=2).pairs
    assert asked.sampled(None, seed=1) == asked == asked.sampled(100, seed=1)


@pytest.mark.parametrize("size", ["limit", "samples", "tokens", "budget"])
def test_a_size_must_be_above_zero(size: str, model: str) -> None:
    with pytest.raises(eh.EvenhandError, match=f"{size} must be above 0"):
        Plan.default([eh.open(model)], **{size: 0})


def test_texts_need_a_model_that_writes(glove: eh.Vectors) -> None:
    with pytest.raises(eh.EvenhandError, match="none does in this audit"):
        Plan.default([eh.open(glove)], samples=10)


@pytest.mark.parametrize("text", ["", "soon", "0", "-5min", "10 days", "nan"])
def test_a_time_that_is_none(text: str) -> None:
    with pytest.raises(eh.EvenhandError, match="not a length of time"):
        seconds_of(text)


# Texts that are kept -----------------------------------------------------------------------------------------------


class Batches(list[int]):
    """The sizes of the batches that a model really writes, in order."""

    stop = -1
    """Before which batch the run is interrupted."""


@pytest.fixture
def batches(monkeypatch: pytest.MonkeyPatch) -> Batches:
    from evenhand.models.lm.causal import CausalLM

    true_texts, sizes = CausalLM._texts, Batches()

    def counted(self: Any, first: list[Any], *rest: Any) -> list[str]:
        if len(sizes) == sizes.stop:
            raise KeyboardInterrupt
        sizes.append(len(first))
        return true_texts(self, first, *rest)

    monkeypatch.setattr(CausalLM, "_texts", counted)
    return sizes


def values(audit: eh.Audit) -> list[dict[str, object]]:
    return [result.to_dict() for result in audit.results]


def test_texts_are_kept_as_they_are_written_and_not_written_twice(model: str, tmp_path: Path, batches: Batches) -> None:
    whole = eh.Audit.run(model, **WRITTEN)
    assert batches == [32, 32, 6]
    batches.stop = 5
    with pytest.raises(KeyboardInterrupt):
        eh.Audit.run(model, folder=tmp_path, **WRITTEN)
    assert len(list(tmp_path.glob("texts/*/*.json"))) == 2
    batches.stop = -1
    resumed = eh.Audit.run(model, folder=tmp_path, **WRITTEN)
    assert batches == [32, 32, 6, 32, 32, 6]
    assert values(resumed) == values(whole)
    eh.Audit.run(model, folder=tmp_path, **{**WRITTEN, "samples": 100})  # the whole batches are the same
    assert batches[6:] == [32, 4]
    eh.Audit.run(model, folder=tmp_path, seed=1, **WRITTEN)
    assert batches[8:] == [32, 32, 6]


@pytest.mark.parametrize("damage", ["{", '{"texts": [1]}', "edited"])
def test_a_damaged_or_edited_text_is_written_again(damage: str, model: str, tmp_path: Path, batches: Batches) -> None:
    first = eh.Audit.run(model, folder=tmp_path, **WRITTEN)
    file = sorted(tmp_path.glob("texts/*/*.json"))[0]
    text = file.read_text()
    if damage == "edited":
        record = json.loads(text)
        record["texts"][0] = "he is a doctor"
        damage = json.dumps(record)
    file.write_text(damage)
    for cell in tmp_path.glob("cells/*.json"):
        cell.unlink()
    assert values(eh.Audit.run(model, folder=tmp_path, **WRITTEN)) == values(first)
    assert len(batches) == 4
    assert file.read_text() == text


def test_continuations_of_prompts_are_kept_too(model: str, tmp_path: Path, batches: Batches) -> None:
    asked = {"methods": [], "measures": ["counterfactual-text"]}
    first = eh.Audit.run(model, folder=tmp_path, **asked)
    written = len(batches)
    assert sum(batches) == 320
    for cell in tmp_path.glob("cells/*.json"):
        cell.unlink()
    assert values(eh.Audit.run(model, folder=tmp_path, **asked)) == values(first)
    assert len(batches) == written


def test_text_i_does_not_depend_on_where_a_call_begins(tiny_folder: Folder) -> None:
    from evenhand.models.lm.causal import CausalLM

    written = CausalLM(tiny_folder("GPT2LMHeadModel"))
    assert written.generate(6, 8, seed=3)[4:] == written.generate(2, 8, seed=3, first_text=4)


def test_a_killed_audit_goes_on_with_the_texts_it_has(model: str, tmp_path: Path, batches: Batches) -> None:
    script = textwrap.dedent(f"""
        import time, evenhand as eh
        from evenhand.models.lm import causal
        from evenhand.models.lm.causal import CausalLM
        causal.MOST_TEXTS = 32
        write = CausalLM._texts
        def slow(*args):
            time.sleep(0.5)
            return write(*args)
        CausalLM._texts = slow
        eh.Audit.run({model!r}, folder={str(tmp_path)!r}, **{WRITTEN!r})
    """)
    process = subprocess.Popen([sys.executable, "-c", script])
    for _ in range(1200):
        if list(tmp_path.glob("texts/*/*.json")) or process.poll() is not None:
            break
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    kept = len(list(tmp_path.glob("texts/*/*.json")))
    assert 1 <= kept < 3
    eh.Audit.run(model, folder=tmp_path, **WRITTEN)
    assert batches == [32, 32, 6][kept:]


# Time --------------------------------------------------------------------------------------------------------------


def test_a_budget_names_what_it_left_out_and_a_later_run_adds_it(
    glove: eh.Vectors, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_ask = runner.ask

    def slow(asked: Question, *args: object, **kwargs: object) -> object:
        time.sleep(0.6 if asked.query == "weat-7" else 0)
        return true_ask(asked, *args, **kwargs)

    monkeypatch.setattr(runner, "ask", slow)
    arguments = {"methods": ["linear"], "measures": ["weat"], "queries": ["weat-6", "weat-7", "weat-8"]}
    part = eh.Audit.run(glove, folder=tmp_path, budget=0.5, **arguments)
    left = [result for result in part.results if result.measurement.reason.startswith("left out: the budget of 0.5 s")]
    assert [(result.label, result.stage) for result in left] == [
        ("weat-8", "original"), ("weat-6", "linear"), ("weat-7", "linear"), ("weat-8", "linear")
    ]  # fmt: skip
    assert any("the budget of 0.5 s left out 4 cells (weat-8, original" in text for text in part.manifest["warnings"])
    part.save(tmp_path)
    assert "left out: the budget" in part.to_html(tmp_path / "report.html").read_text()
    whole = eh.Audit.run(glove, folder=tmp_path, **arguments)
    assert whole.manifest["cells_computed"] == 4
    assert values(whole) == values(eh.Audit.run(glove, **arguments))


def test_a_budget_ends_a_cell_between_two_batches(
    model: str, tmp_path: Path, batches: Batches, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evenhand.audit.schedule import Clock

    monkeypatch.setattr(Clock, "seconds_left", property(lambda clock: 1.0 - len(batches)))
    audit = eh.Audit.run(model, folder=tmp_path, budget=1, **WRITTEN)
    assert batches == [32]
    assert [result.measurement.reason for result in audit.results] == [
        "left out: the budget of 1 s was spent, or too small"
    ]
    assert len(list(tmp_path.glob("texts/*/*.json"))) == 1


def test_a_budget_holds_in_several_processes(tmp_path: Path) -> None:
    arguments = {"methods": ["linear"], "measures": ["weat", "direct-bias"]}
    part = eh.Audit.run("glove-embedded", folder=tmp_path, jobs=2, budget=1e-9, **arguments)
    assert {result.measurement.status for result in part.results} == {"undefined"}
    whole = eh.Audit.run("glove-embedded", folder=tmp_path, jobs=2, **arguments)
    assert whole.manifest["cells_computed"] == len(whole.results) == len(part.results)


def test_a_window_too_short_for_the_texts_leaves_out_their_measure_alone(tiny_folder: Callable[..., Path]) -> None:
    subject = eh.open(f"hf:{tiny_folder('GPT2LMHeadModel', n_positions=22)}")
    audit = eh.Audit.run(subject, methods=[], measures=["counterfactual-text", "perplexity"])
    found = {result.label: result.measurement for result in audit.results}
    assert found.pop("perplexity").status == "ok"
    assert {one.status for one in found.values()} == {"undefined"}
    assert all("more than the 22 that the model can read" in one.reason for one in found.values())


def test_an_audit_says_first_what_it_will_ask(model: str, tmp_path: Path) -> None:
    said: list[str] = []
    asked = {"methods": [], "measures": ["corpus-bias", "counterfactual-text"], "samples": 4, "tokens": 3}
    eh.Audit.run(model, folder=tmp_path, announce=said.append, **asked)
    eh.Audit.run(model, folder=tmp_path, announce=said.append, **asked)
    assert said[0].splitlines() == [
        "2 cells to measure: 1 of text, 1 of generation",
        "corpus-bias: the model writes 4 texts of up to 3 tokens",
        "counterfactual-text: the model writes 320 texts of up to 20 tokens",
    ]
    assert said[1] == "0 cells to measure; 2 cells of an earlier run will be reused"


def test_the_progress_is_that_of_the_running_cell(model: str) -> None:
    heard: list[tuple[int, int, str]] = []
    eh.Audit.run(model, progress=lambda *news: heard.append(news), **WRITTEN)
    assert [what for _, _, what in heard[1:-1]] == [
        "corpus-bias, original", *(f"corpus-bias, original: {n} of 70 texts" for n in (32, 64, 70))
    ]  # fmt: skip
    assert heard[-1] == (1, 1, "done")


def test_a_log_gets_a_line_while_a_step_computes_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(terminal, "SECONDS_BETWEEN_LINES", 0.05)
    with terminal.progress("audit") as report:
        report(3, 9, "weat-6, linear")
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) >= 2
    assert set(lines) == {"audit: 3 of 9, weat-6, linear"}


def test_a_long_description_keeps_its_end() -> None:
    assert terminal._shortened("corpus-bias, original: 3 of 9 texts, about 10 min left", 30).endswith(
        "about 10 min left"
    )
    assert len(terminal._shortened("x" * 99, 30)) == 30


def test_what_servers_will_be_asked_in_words() -> None:
    from evenhand.audit.workload import Foreseen
    from evenhand.models.endpoint.views import Demand

    assert str(Foreseen()) == ""
    asked = Foreseen({"a": Demand(2, 0, 1500.4, 20.0), "b": Demand(1, 0, 10.0, 5.0)})
    assert str(asked) == "3 requests to the server; billed are about 1,510 tokens read and at most 25 written"
    assert asked.to_dict() == {"foreseen": asked.total().to_dict()}
    rest = Foreseen({"a": Demand(1, 2, 1.0, 1.0)}, uncounted=1)
    assert str(rest).endswith("written; 2 answers of an earlier run will be reused; 1 cell could not be counted")
    assert Foreseen(uncounted=2).to_dict() == {}
