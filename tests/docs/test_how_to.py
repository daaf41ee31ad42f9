"""The shell commands of the how-to pages run, on small stand-ins for what a reader has.

Their Python runs in other tests. A block with `<!-- not run: reason -->` above it is left out. `evenhand fetch` is not run, because
nothing is downloaded here: the names must be in the catalog, and a stand-in takes the place of what it brings.
"""

from __future__ import annotations

import gzip
import json
import shlex
import shutil
import warnings
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from page_runner import NAMED, ROOT, SHELL, blocks, commands, run_command
from stand_ins import MODELS, TEXTS
from test_snippets import ALSO

from evenhand.data import catalog

HOW_TO = ROOT / "docs" / "how-to"
QUICK = ["corpus.md", "explain-a-model.md", "vectors-from-text.md"]
SLOW = ["audit-a-classifier.md", "augment.md", "debias-a-model.md", "papers.md", "sentence-encoders.md"]
PEOPLE = ["The gay man is late.", "My straight neighbor sings.", "The straight couple left.", "It rains."]
FETCHED = {"all-minilm-l6-v2": "BertModel"}  # what a page fetches, and the class of its stand-in


def write_texts(folder: Path, page: str) -> None:
    """Write the texts that a page names into a folder."""
    lines = [*TEXTS, *PEOPLE]
    plain = "\n".join(lines) + "\n"
    for name in (
        "articles/one.txt",
        "articles/two.txt",
        "corpus/one.txt",
        "reviews.txt",
        "training.txt",
        "generated.txt",
    ):
        if name.split("/")[0] in page:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(plain, encoding="utf-8")
    for name in ("comments.txt", "wiki.txt"):
        (folder / name).write_text(plain, encoding="utf-8")
    records = "".join(json.dumps({"body": line}) + "\n" for line in lines).encode()
    (folder / "articles.jsonl.zst").write_bytes(zstandard.compress(records))
    (folder / "shard-0.txt.gz").write_bytes(gzip.compress(plain.encode()))
    pairs = [{"premise": line, "hypothesis": other} for line, other in pairwise(lines)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")


def run_shell_blocks(page: Path) -> int:
    """Run the commands of a page in the working directory, and return how many there were."""
    count = 0
    for block in blocks(page):
        if named := NAMED.match(block.code):
            Path(named[1]).write_text(block.code, encoding="utf-8")
        for line in commands(block.code) if block.runs and block.language in SHELL else ():
            count += 1
            words = shlex.split(line, comments=True)
            if words[:2] == ["evenhand", "fetch"]:
                assert set(words[2:]) <= set(catalog()), line
            else:
                run_command(line, page)
    return count


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_the_commands_of_the_page_run(
    name: str, tmp_path: Path, tiny_folder: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    page = HOW_TO / name
    text = page.read_text(encoding="utf-8")
    data = tmp_path / "data"
    place = tmp_path / "place"
    place.mkdir()
    data.mkdir()
    monkeypatch.chdir(place)
    monkeypatch.setenv("EVENHAND_DATA", str(data))
    write_texts(place, text)
    models = MODELS | {"toxicity": MODELS["my-classifier"]}
    for model, (class_name, options) in models.items():
        if model in text:
            (place / model).symlink_to(tiny_folder(class_name, **options))
    for entry, class_name in FETCHED.items():
        if entry in text:
            shutil.copytree(tiny_folder(class_name, num_hidden_layers=4), data / entry)
            for file in catalog()[entry].files:
                if not (path := data / entry / file.name).exists():
                    path.parent.mkdir(exist_ok=True)
                    path.write_text("{}", encoding="utf-8")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*its content differs from the catalog")
        warnings.filterwarnings("ignore", message=".*words are split by the tokenizer")  # it has few words
        assert run_shell_blocks(page)


RUN_ELSEWHERE = {"audit.md", *(name.removeprefix("how-to/") for name in ALSO if name.startswith("how-to/"))}


@pytest.mark.parametrize("name", sorted({page.name for page in HOW_TO.glob("*.md")} - {*QUICK, *SLOW} - RUN_ELSEWHERE))
def test_every_other_shell_block_says_why_it_does_not_run(name: str) -> None:
    left = [block for block in blocks(HOW_TO / name) if block.language in SHELL and not block.reason]
    assert not left, left
