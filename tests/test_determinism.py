"""The same seed gives the same numbers in another process, whatever order sets and dictionaries have there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
import warnings

import pytest

SCRIPT = """
import json, sys, warnings
import numpy as np
import evenhand as eh
from evenhand.corpus.readers import Texts
from evenhand.words.probes import probe
from evenhand.words.probes.rows import stratified

warnings.simplefilter("ignore")
gender = eh.concept("gender")
words = {word for group in (*gender.groups.values(), *gender.names.values()) for word in group}
words |= set(eh.words.wordset("bolukbasi2016-professions")) | set(eh.query("weat-6").words) | set(eh.query("weat-8").words)
vectors = eh.Vectors.default()
vectors = vectors.restrict(sorted(word for word in words if word in vectors))
measures = [name for name in eh.measures.ids() if eh.measures.info(name).view == "vectors"]
left_out = {"generalised-weat", "rnsb", "indirect-bias", "analogy", "neighbours"}
measures = sys.argv[1:] or [name for name in measures if name not in left_out]
audit = eh.Audit.run(vectors, methods=["linear"] if sys.argv[1:] else ["double-hard"], measures=measures, seed=3)
found = {f"{r.label} {r.stage}": [r.measurement.value, r.measurement.interval, r.measurement.p_value] for r in audit.results}
found["rnsb"] = eh.measures.rnsb(vectors, "weat-6", seed=3).value
sample = stratified(probe("gender-occupation"), 200, seed=3)
found["sample"] = [np.asarray(part).tolist() for part in sample.points]
texts = [f"she is a {a} and he is a {b}" for a, b in zip(vectors.words[:80], vectors.words[80:160])]
bias = eh.corpus.bias(Texts(texts * 3), bootstrap=20, permutations=3, seed=3)
found["corpus"] = json.loads(json.dumps(bias.to_dict(), default=str))
found["corpus"].pop("seconds", None)
swap = eh.mitigations.get("cda")().fit(None, "gender")
found["swap"] = [swap.digest, swap("She told John that the nurse saw her.")]
found["random"] = eh.mitigations.get("random")().fit(vectors, "gender", seed=3).digest
print(json.dumps(found, sort_keys=True))
"""


def numbers(hash_seed: str, *measures: str) -> dict[str, object]:
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, *measures]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, object] = json.loads(done.stdout)
    return found


def numbers_here(monkeypatch: pytest.MonkeyPatch, *measures: str) -> dict[str, object]:
    """Run the script in this process, whose hash seed is another one."""
    printed = io.StringIO()
    monkeypatch.setattr(sys, "argv", ["script", *measures])
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        exec(compile(SCRIPT, "script", "exec"), {})
    found: dict[str, object] = json.loads(printed.getvalue())
    return found


@pytest.mark.parametrize(
    "measures", [("weat", "ripa"), pytest.param((), marks=pytest.mark.slow)], ids=["few", "all"]
)  # fmt: skip
def test_seeded_functions_agree_between_processes(measures: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = numbers_here(monkeypatch, *measures), numbers("4242", *measures)
    assert len(first) > 10
    differing = [name for name in first if first[name] != second[name]]
    assert differing == []
