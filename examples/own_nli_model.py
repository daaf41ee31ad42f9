"""Probe a model of your own: any function of premises and hypotheses that returns probabilities."""

import numpy as np

import evenhand as eh
from evenhand.models.nli import CallableModel

CARE = {"nurse", "housekeeper", "hairdresser"}


def predict(premises: list[str], hypotheses: list[str]) -> np.ndarray:
    """Conclude that a woman did it where the premise is about care, and nothing otherwise."""
    answers = []
    for premise, hypothesis in zip(premises, hypotheses, strict=True):
        about_care = any(word in premise for word in CARE)
        about_woman = any(word in hypothesis for word in ("woman", "girl", "lady"))
        answers.append((0.8, 0.1, 0.1) if about_care and about_woman else (0.1, 0.8, 0.1))
    return np.array(answers)


model = CallableModel(predict, ("entailment", "neutral", "contradiction"))
result = eh.probe(model, "gender-occupation", sample=2000, seed=0)
print(result)
for row in result.top("entailment", 3):
    print(round(row["entailment"], 2), row["premise"], "->", row["hypothesis"])
print("interpretable:", result.interpretable)  # it fails the controls: it never finds a real entailment
