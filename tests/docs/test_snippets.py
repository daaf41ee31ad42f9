"""Every Python and shell block of the documentation runs, or the page says why it cannot run in the tests."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from page_runner import ROOT, SHELL, blocks, run_page
from stand_in_data import write_sentence_sets
from stand_ins import MODELS, TEXTS, add_chat_template, write_chat_model, write_data, write_predictions

import evenhand as eh

DOCS = ROOT / "docs"
FOLDERS = ("measures", "methods", "tutorials")
ALSO = (
    "how-to/own-words.md", "how-to/debias-a-model.md", "how-to/audit-predictions.md", "how-to/logs.md",
    "reference/methods.md", "reference/sentence-sets.md", "reference/words.md",
)  # fmt: skip
COMMANDS_APART = ("debias-a-model.md",)  # whose shell blocks run in test_how_to, because they take long
LOGS = {"lm-eval-output": "lm-eval", "bbq.eval": "inspect/bbq.eval"}  # of tests/interop/logs
PAGES = [path for folder in FOLDERS for path in sorted((DOCS / folder).glob("*.md")) if blocks(path)]
PAGES += [DOCS / name for name in ALSO]
CHAT_MODEL = "qwen2.5-coder-0.5b"
WITH_A_SERVER = ("audit-a-chat-model.md",)  # which starts one in a second terminal
SLOW = "<!-- slow page -->"


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_data(tmp_path_factory.mktemp("data"))
    write_sentence_sets(folder)
    return folder


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory with a text and no data sets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EVENHAND_DATA", str(tmp_path))
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    return tmp_path


def prepare(page: Path, text: str, workplace: Path, tiny_folder: Callable[..., Path]) -> None:
    """Write what a page fetches, and what it calls yours."""
    for name, (class_name, options) in MODELS.items():
        if name in text and "<!-- own models -->" not in text:
            (workplace / name).symlink_to(tiny_folder(class_name, **options))
    if page.name == "decisions.md":
        add_chat_template(tiny_folder("GPT2LMHeadModel", n_positions=256), workplace / "my-model")
    if page.name == "sentence-sets.md":
        (workplace / "my-model").symlink_to(tiny_folder("BertForMaskedLM", num_hidden_layers=4))
    if CHAT_MODEL in text:
        write_chat_model(write_data(workplace / "data"), CHAT_MODEL)
    if "predictions.csv" in text:
        write_predictions(workplace / "predictions.csv")
    for name, log in LOGS.items():
        if name in text:
            (workplace / name).symlink_to(ROOT / "tests" / "interop" / "logs" / log)
    if "my.vec" in text and 'my.vec")' not in text:
        eh.Vectors.default().head(5000).save("my.vec")


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(path, id=path.relative_to(DOCS).as_posix(), marks=[pytest.mark.slow] if SLOW in path.read_text(encoding="utf-8") else [])
        for path in PAGES
    ],
)  # fmt: skip
def test_the_page_runs_from_top_to_bottom(
    page: Path,
    workplace: Path,
    small_data: Path,
    tiny_folder: Callable[..., Path],
    server: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if page.parent.name == "measures" or page.name == "sentence-sets.md":
        monkeypatch.setenv("EVENHAND_DATA", str(small_data))
    prepare(page, page.read_text(encoding="utf-8"), workplace, tiny_folder)
    if CHAT_MODEL in page.read_text(encoding="utf-8"):
        monkeypatch.setenv("EVENHAND_DATA", str(workplace / "data"))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*its content differs from the catalog")
        warnings.filterwarnings("ignore", message=".*words are split by the tokenizer")  # it has few words
        run_page(page, ("python",) if page.name in COMMANDS_APART else ("python", *SHELL), smaller=server)


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


def test_every_other_block_says_why_it_does_not_run() -> None:
    """The how-to pages, the README and docs/README.md have tests of their own."""
    for page in sorted(DOCS.glob("*/*.md")):
        if page not in PAGES and page.parent.name not in ("how-to", "decisions"):
            assert all(block.reason for block in blocks(page) if block.language in ("python", *SHELL)), page.name


@pytest.mark.parametrize("page", [page.relative_to(DOCS).as_posix() for page in sorted(DOCS.rglob("*.md"))])
def test_every_command_stands_in_a_block_that_is_run(page: str) -> None:
    """A block without a language would never be run."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", (DOCS / page).read_text(encoding="utf-8"), flags=re.M | re.S)
    assert not [
        code for language, code in fences if language not in SHELL and re.match(r"(\$ )?(evenhand|python) ", code)
    ]
