"""Use an installed evenhand that has no extra: the core works, and the rest says what to install."""

import subprocess
import sys
from pathlib import Path

import evenhand as eh

EVENHAND = Path(sys.executable).with_name("evenhand")
Path("text.txt").write_text("she is a nurse\nhe is a doctor\n" * 50)
Path("pairs.jsonl").write_text('{"premise": "a", "hypothesis": "b", "label": "neutral"}\n' * 3)
# What each command needs, by extra.
COMMANDS = {
    "models": [
        ["lm", "train", "text.txt", "--valid", "text.txt", "--test", "text.txt", "--out", "none"],
        ["nli", "train", "--train", "pairs.jsonl", "--dev", "pairs.jsonl", "--out", "none"],
    ],
    "ray": [["corpus", "bias", "text.txt", "--engine", "ray"]],
    "gensim": [["corpus", "sgns", "text.txt", "--out", "none"]],
}

vectors = eh.Vectors.default()
assert eh.measures.weat(vectors, "weat-6").value is not None
assert eh.mitigations.get("leace")().fit(vectors, "gender")(vectors).dim == vectors.dim
assert eh.Audit.load("run").labels
assert eh.corpus.bias("text.txt").scores
for extra, commands in COMMANDS.items():
    for command in commands:
        done = subprocess.run([str(EVENHAND), *command], capture_output=True, text=True, check=False)
        told = f'pip install "evenhand[{extra}]"'
        assert done.returncode == 1, (command, done.returncode, done.stderr)
        assert told in done.stderr, (command, done.stderr)
        assert "Traceback" not in done.stderr, (command, done.stderr)
sys.stdout.write("the core works; what needs an extra names it\n")
