"""Memory does not grow with the text: eight times the text, the same peak."""

import tracemalloc

import pytest

from evenhand import corpus


def peak(path, **reach):
    tracemalloc.start()
    try:
        corpus.bias(path, {"f": ["she"], "m": ["he"]}, tokenizer="whitespace", piece=1 << 14, **reach)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("reach", [{"window": 10}, {"decay": 0.95}])
@pytest.mark.parametrize("end", ["\n", " "])
def test_memory_is_flat(tmp_path, monkeypatch, reach, end):
    monkeypatch.setattr("evenhand.corpus.readers.text.BLOCK", 1 << 14)
    sentence = " ".join(["she nurse he doctor", *(f"w{i}" for i in range(300))]) + end
    peaks = []
    for times in (160, 160, 1280):  # the first run also imports
        path = tmp_path / f"{times}.txt"
        path.write_text(sentence * times)
        peaks.append(peak(path, documents="line", **reach))
    assert peaks[2] < 1.2 * peaks[1]
