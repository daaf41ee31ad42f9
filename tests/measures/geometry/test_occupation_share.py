from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

import evenhand as eh
from evenhand.errors import UnknownNameError, UsageError
from evenhand.measures import get
from evenhand.models.vectors import Vectors
from evenhand.words import WordSet

occupation_share = get("occupation-share")
JOBS = WordSet("jobs", ("smith", "baker", "clerk", "nurse"), scores={"women": (5, 40, 70, 90), "men": (95, 60, 30, 10)})


def vectors(*leans: float) -> Vectors:
    angles = np.pi / 4 - np.array(leans)
    jobs = np.column_stack([np.cos(angles), np.sin(angles)])
    return Vectors(("she", "he", *JOBS), np.vstack([np.eye(2), jobs]), name="toy")


def test_it_is_the_correlation_of_score_and_share() -> None:
    v = vectors(-0.3, 0.1, 0.0, 0.5)
    rows = v.take(JOBS)[0]
    leans = rows[:, 0] - rows[:, 1]  # unit words, she = x and he = y
    m = occupation_share(v, JOBS)
    assert m.value == pytest.approx(pearsonr(leans, JOBS.scores["women"]).statistic, abs=1e-6)
    assert m.details["spearman"] == pytest.approx(spearmanr(leans, JOBS.scores["women"]).statistic)
    assert occupation_share(v, JOBS, statistic="spearman").value == pytest.approx(0.8)
    assert m.items[0] == {"word": "smith", "value": pytest.approx(leans[0], abs=1e-6), "share": 5.0}


def test_another_column_and_the_other_way_round() -> None:
    v = vectors(-0.3, 0.1, 0.0, 0.5)
    value = occupation_share(v, JOBS).value
    assert occupation_share(v, JOBS, column="men").value == pytest.approx(-value)
    assert occupation_share(v, JOBS, pair=("he", "she")).value == pytest.approx(-value)


def test_undefined_results_and_invalid_arguments() -> None:
    assert "is constant" in occupation_share(vectors(0.2, 0.2, 0.2, 0.2), JOBS).reason
    assert occupation_share(vectors(0, 0, 0, 0).restrict(["she", "he", "smith"]), JOBS).status == "undefined"
    assert "she" in occupation_share(vectors(0, 1, 0, 1).restrict([*JOBS]), JOBS).reason
    with pytest.raises(UsageError, match="has no numbers"):
        occupation_share(vectors(0, 0, 0, 0), WordSet("plain", ("smith",)))
    with pytest.raises(UnknownNameError, match="children"):
        occupation_share(vectors(0, 0, 0, 0), JOBS, column="children")
    with pytest.raises(UsageError, match="statistic must be pearson or spearman"):
        occupation_share(vectors(0, 0, 0, 0), JOBS, statistic="kendall")


def test_the_embedded_vectors_follow_the_labour_market() -> None:
    m = occupation_share(eh.Vectors.default())
    assert 0.2 < m.value < 0.8
    assert m.interval is not None
    assert -0.05 < m.interval[0] < m.value < m.interval[1]
    assert m.coverage.missing == ("construction_worker",)
