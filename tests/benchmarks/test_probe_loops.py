"""The loops that benchmarks time beside ours compute the same probabilities."""

import sys
from pathlib import Path

import numpy as np
import pytest

from evenhand import Vectors
from evenhand.models.nli import BiLSTM, DecomposableAttention, bilstm, decomposable

torch = pytest.importorskip("torch")

PREMISES = ["a nurse ate a bagel", "the doctor can afford a car"]
HYPOTHESES = ["a man ate a bagel", "the woman can afford a car"]


@pytest.mark.parametrize("kind", ["attention", "bilstm"])
def test_the_loop_of_torch_is_the_model(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import probe_loops

    words = sorted({word for text in (*PREMISES, *HYPOTHESES) for word in text.split()})
    vectors = Vectors(words, np.random.default_rng(0).standard_normal((len(words), 6)).astype(np.float32))
    if kind == "attention":
        model = DecomposableAttention(decomposable.random_arrays(6, 8), vectors)
        loop = probe_loops.AttentionModule(model).eval()
    else:
        model = BiLSTM(bilstm.random_arrays(6, 8), vectors)
        loop = probe_loops.BiLSTMModule(model).eval()
    expected = model.predict(PREMISES, HYPOTHESES).matrix
    with torch.inference_mode():
        for row, (premise, hypothesis) in enumerate(zip(PREMISES, HYPOTHESES, strict=True)):
            rows = [torch.tensor([model.lookup.sentence(text)]) for text in (premise, hypothesis)]
            np.testing.assert_allclose(loop(*rows).numpy()[0], expected[row], atol=1e-6)
    sys.modules.pop("probe_loops", None)
