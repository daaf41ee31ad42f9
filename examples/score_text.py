"""Score the words of a text by the group they occur with, before and after swapping the groups."""

from pathlib import Path
from tempfile import mkdtemp

import evenhand as eh

lines = ["she is a nurse", "she was a nurse", "he is a nurse", "he is a doctor", "he was a doctor", "she is a doctor"]
folder = Path(mkdtemp())
(folder / "text.txt").write_text("\n".join(lines * 20), encoding="utf-8")

swap = eh.mitigations.CounterfactualAugmentation().fit(None, "gender")
(folder / "both.txt").write_text("\n".join(swap.documents(lines * 20)), encoding="utf-8")

groups = {"female": ["she", "her"], "male": ["he", "his"]}
for name in ("text.txt", "both.txt"):
    scores = eh.corpus.bias(folder / name, groups=groups, documents="line").scores
    print(name, {word: round(scores[word], 2) for word in ("nurse", "doctor")})
