"""The training texts of the paper: fixed-window mean and deviation as published, infinite context as it comes out."""

import pytest

from evenhand import corpus

PUBLISHED = {
    "ptb/ptb.train.txt": ("bordia2019-ptb", 0.83, 1.00),
    "wikitext-2/train.txt": ("bordia2019-wt2", 0.80, 1.00),
}
pytestmark = pytest.mark.data


def scored(data_folder, name, lists, **reach):
    path = data_folder / name
    if not path.exists():
        pytest.skip(f"{name} is not in EVENHAND_DATA")
    return corpus.bias(path, lists=lists, tokenizer="whitespace", stop_words="english", **reach)


@pytest.mark.parametrize("name", PUBLISHED)
def test_fixed_window_is_as_published(data_folder, name):
    lists, mu, sigma = PUBLISHED[name]
    b = scored(data_folder, name, lists, window=10)
    assert b.mu == pytest.approx(mu, abs=0.02)
    assert b.sigma == pytest.approx(sigma, abs=0.02)


@pytest.mark.parametrize("name", PUBLISHED)
def test_infinite_context_is_wider_than_published(data_folder, name):
    # Published are 3.81 and 4.65 (PTB), 3.70 and 4.60 (WikiText-2); the exact weights of the text give more, because
    # words far from every gendered word have tiny weights and so great log ratios.
    b = scored(data_folder, name, PUBLISHED[name][0], decay=0.95)
    assert b.lost["zero_count"] == 0
    assert b.sigma > 10
    often = b.values[b.cooccurrence.min(axis=0) > 1]
    assert often.std(ddof=1) < 1.2
