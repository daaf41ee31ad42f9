"""The examples of docs/how-to/extend.md run, in a script and as a package with entry points."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

pytest.importorskip("torch")

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "extend.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
DEFINITIONS = BLOCKS[::2]  # each is followed by an example of its use
MODULES = (
    "centroid_gap",
    "pronoun_lean",
    "first_pair",
    "neutral_titles",
    "shouting",
    "words_found",
    "csv",
    "bag_of_words",
    "subtitles",
    "portuguese",
)
LANGUAGE, POINTS = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
ENTRY_POINTS = tomllib.loads(POINTS)["project"]["entry-points"]
CHECK = """
from evenhand.measures.registry import MEASURES
from evenhand.mitigations.registry import MITIGATIONS
from evenhand.models.nli.over_vectors import NLI_MODELS
from evenhand.models.nli.networks import ARCHITECTURES
from evenhand.models.vectors.formats import FORMATS
from evenhand.report.charts import CHARTS
from evenhand.subjects import SUBJECTS
from evenhand.subjects.judges import JUDGES

names = {
    "measures": MEASURES, "mitigations": MITIGATIONS, "charts": CHARTS, "formats": FORMATS,
    "architectures": ARCHITECTURES, "nli_models": NLI_MODELS, "subjects": SUBJECTS, "judges": JUDGES,
}
from evenhand.language import codes, language
from evenhand.words.grammar import agree

assert "pt" in codes()
assert language("pt").genders == ("feminine", "masculine")
assert agree("o/a", "feminine", "portuguese") == "a"
for group, points in ENTRY_POINTS.items():
    if group == "evenhand.languages":
        continue
    registry = names[group.removeprefix("evenhand.")]
    for id, target in points.items():
        assert id in registry.ids(), (group, registry.ids())
        assert registry.get(id).__class__ is not str
        assert "my_package" in target
print("found", len(ENTRY_POINTS))
"""


def run(script: str, folder: Path) -> str:
    source = str(Path(__file__).parents[2] / "src")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([source, str(folder)])}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    assert len(DEFINITIONS) == len(MODULES)
    (tmp_path / "pt.toml").write_text(LANGUAGE, encoding="utf-8")
    output = run("\n".join(BLOCKS), tmp_path)
    assert "centroid-gap:weat-6" in output
    assert "Mx. Hill said that Mx. Hill is a doctor" in output
    assert "neutral-titles works on corpora only; glove-embedded is word vectors" in output
    assert "Measurement('pronoun-lean:words', -0.6931 [-0.6931, -0.6931], p = 0.25, n = 3)" in output
    assert "SubtitlesSubject('film.srt', offers text)" in output
    assert "Portuguese A professora está cansada." in output
    assert "Words found" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_another_distribution_brings_the_same_objects(tmp_path: Path) -> None:
    package = tmp_path / "my_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "pt.toml").write_text(LANGUAGE, encoding="utf-8")
    for module, definition in zip(MODULES, DEFINITIONS, strict=True):
        (package / f"{module}.py").write_text(definition, encoding="utf-8")
    information = tmp_path / "my_package-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    sections = [
        f"[{group}]\n" + "".join(f"{id} = {target}\n" for id, target in points.items())
        for group, points in ENTRY_POINTS.items()
    ]
    (information / "entry_points.txt").write_text("\n".join(sections))
    assert run(f"ENTRY_POINTS = {ENTRY_POINTS!r}\n{CHECK}", tmp_path).strip() == "found 9"


@pytest.mark.parametrize("module", ["torch", "sklearn", "scipy.stats", "polars"])
def test_recognising_a_file_imports_no_heavy_library(module: str, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom evenhand.models.vectors.formats import FORMATS\nassert len(FORMATS.values()) == 11\n"
        f"print({module!r} in sys.modules)"
    )
    assert run(script, tmp_path).strip() == "False"
