"""Fit a map once, apply it to an array, save it and load it again."""

from pathlib import Path
from tempfile import mkdtemp

import numpy as np

import evenhand as eh

vectors = eh.Vectors.default()
fitted = eh.mitigations.LinearProjection().fit(vectors, "gender")

new = np.stack([vectors["nurse"], vectors["engineer"]])  # any rows of the same width
direction = vectors["she"] - vectors["he"]
direction /= np.linalg.norm(direction)
print("before", np.round(new @ direction, 2), "after", np.round(fitted(new) @ direction, 2))

path = Path(mkdtemp()) / "linear.safetensors"
fitted.save(path)
print("same after loading:", np.array_equal(eh.VectorMap.load(path)(new), fitted(new)))
