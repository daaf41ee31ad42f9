"""Every Python and shell block of the documentation runs, or the page says why it cannot run in the tests."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from page_runner import ROOT, SHELL, blocks, run_page
from stand_ins import MODELS, TEXTS, write_chat_model, write_data, write_predictions

import evenhand as eh

DOCS = ROOT / "docs"
FOLDERS = ("measures", "methods", "tutorials")
ALSO = (
    "how-to/own-words.md", "how-to/debias-a-model.md", "how-to/audit-predictions.md", "how-to/logs.md",
    "reference/methods.md", "reference/words.md",
)  # fmt: skip
COMMANDS_APART = ("debias-a-model.md",)  # whose shell blocks run in test_how_to, because they take long
LOGS = {"lm-eval-output": "lm-eval", "bbq.eval": "inspect/bbq.eval"}  # of tests/interop/logs
PAGES = [path for folder in FOLDERS for path in sorted((DOCS / folder).glob("*.md")) if blocks(path)]
PAGES += [DOCS / name for name in ALSO]
CHAT_MODEL = "qwen2.5-coder-0.5b"
WITH_A_SERVER = ("audit-a-chat-model.md",)  # whose blocks need a second terminal, or take minutes
SLOW = "<!-- slow page -->"


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_data(tmp_path_factory.mktemp("data"))


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a text and no data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.relative_to(DOCS).as_posix(), marks=[pytest.mark.slow] if SLOW in path.read_text(encoding="utf-8") else [])
        for path in PAGES
    ],
)  # fmt: skip
def test_the_page_runs_from_top_to_bottom(
    page: Path, workplace: Path, small_data: Path, tiny_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = page.read_text(encoding="utf-8")
    if page.parent.name == "measures":
        monkeypatch.setenv("EVENHAND_DATA", str(small_data))
    for name, (class_name, options) in MODELS.items():
        if name in text and "<!-- own models -->" not in text:
            (workplace / name).symlink_to(tiny_folder(class_name, **options))
    if CHAT_MODEL in text:
        write_chat_model(write_data(workplace / "data"), CHAT_MODEL)
        monkeypatch.setenv("EVENHAND_DATA", str(workplace / "data"))
    if "predictions.csv" in text:
        write_predictions(workplace / "predictions.csv")
    for name, log in LOGS.items():
        if name in text:
            (workplace / name).symlink_to(ROOT / "tests" / "interop" / "logs" / log)
    if "my.vec" in text and 'my.vec")' not in text:
        eh.Vectors.default().head(5000).save("my.vec")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*its content differs from the catalog")
        warnings.filterwarnings("ignore", message=".*words are split by the tokenizer")  # it has few words
        run_page(page, ("python",) if page.name in COMMANDS_APART else ("python", *SHELL))


@pytest.mark.parametrize("folder", ["measures", "methods"])
def test_every_page_of_a_measure_or_method_has_an_example(folder: str) -> None:
    for path in (DOCS / folder).glob("*.md"):
        if path.name != "README.md":
            assert any(block.language == "python" and block.runs for block in blocks(path)), path.name


@pytest.mark.parametrize("page", [path.name for path in sorted((DOCS / "tutorials").glob("*.md"))])
def test_a_tutorial_runs_all_its_blocks(page: str) -> None:
    every = [block for block in blocks(DOCS / "tutorials" / page) if block.language in ("python", *SHELL)]
    left = [block for block in every if not block.runs and not (page in WITH_A_SERVER and block.reason)]
    assert not left, left


def test_shell_blocks_of_the_reference_that_do_not_run_say_why() -> None:
    assert all(block.reason for block in blocks(DOCS / "reference/sentence-sets.md") if block.language in SHELL)
