"""Co-occurrence counts by definition, PMI, csPMI and the genderedness of equation 7."""

import json
import math
from collections import Counter
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import corpus, words
from evenhand.corpus.cooccurrence import Cooccurrence
from evenhand.errors import DegenerateError, FormatError, UsageError, VocabularyError

WEIGHTS = {"flat": lambda d, k: 1, "harmonic": lambda d, k: 1 / d, "dynamic": lambda d, k: (k - d + 1) / k}
documents = st.lists(st.lists(st.sampled_from("abcde"), max_size=20), min_size=1, max_size=4)


def counted(texts, window=5, **options):
    return corpus.cooccurrence(corpus.Texts([" ".join(t) for t in texts]), window, **options)


def by_definition(texts, window, weight):
    table = Counter()
    for text in texts:
        for i, j in combinations(range(len(text)), 2):
            if j - i <= window:
                table[text[i], text[j]] += weight(j - i, window)
                table[text[j], text[i]] += weight(j - i, window)
    return table


@given(documents, st.integers(1, 6), st.sampled_from(sorted(WEIGHTS)), st.integers(1, 3))
def test_counts_equal_the_definition(texts, window, weighting, min_count):
    seen = Counter(word for text in texts for word in text)
    kept = [[word for word in text if seen[word] >= min_count] for text in texts]
    found = counted(texts, window, weighting=weighting, min_count=min_count)
    wanted = by_definition(kept, window, WEIGHTS[weighting])
    assert dict(zip(found.words, found.occurrences.tolist(), strict=True)) == {
        word: count for word, count in seen.items() if count >= min_count
    }
    dense = found.matrix.toarray()
    for (i, a), (j, b) in ((x, y) for x in enumerate(found.words) for y in enumerate(found.words)):
        assert dense[i, j] == pytest.approx(wanted[a, b], abs=1e-12)


def test_pieces_do_not_change_the_counts():
    rng = np.random.default_rng(0)
    texts = [rng.choice(list("abcdef"), size=n).tolist() for n in (50, 0, 7, 90)]
    whole = counted(texts, 4, weighting="harmonic")
    cut = counted(texts, 4, weighting="harmonic", piece=9)
    assert cut.words == whole.words
    np.testing.assert_allclose(cut.matrix.toarray(), whole.matrix.toarray(), rtol=1e-12)


def test_words_come_by_frequency():
    assert counted([list("abbccc")]).words == ("c", "b", "a")


def test_pmi_and_cspmi_by_hand():
    table = counted([["x", "y"], ["x", "z"]], 1)
    # Four ordered pairs: xy yx xz zx.
    assert table.pmi("x", "y") == pytest.approx(math.log((1 / 4) / ((2 / 4) * (1 / 4))))
    assert table.cspmi("x", "y") == pytest.approx(math.log(2) + math.log(1 / 4))
    matrix = table.pmi_matrix()
    assert matrix[table.row("x"), table.row("y")] == pytest.approx(table.pmi("x", "y"))
    assert matrix.nnz == 4
    with pytest.raises(DegenerateError, match="'y' and 'z' never co-occur"):
        table.pmi("y", "z")
    with pytest.raises(VocabularyError, match="'q'"):
        table.pmi("x", "q")


def test_saved_and_read_again(tmp_path):
    table = counted([["she", "naïve", "she"], ["東京", "she"]], 2, weighting="dynamic")
    table.save(tmp_path / "counts.safetensors")
    again = Cooccurrence.load(tmp_path / "counts.safetensors")
    assert again.words == table.words
    assert (again.matrix != table.matrix).nnz == 0
    assert again.occurrences.tolist() == table.occurrences.tolist()
    assert again.params["weighting"] == "dynamic"


def test_other_files_are_refused(tmp_path):
    from safetensors.numpy import save_file

    path = tmp_path / "counts.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(FormatError, match=r"counts\.safetensors"):
        Cooccurrence.load(path)
    save_file({"x": np.zeros(1)}, path)
    with pytest.raises(FormatError, match="not a file of co-occurrence counts"):
        Cooccurrence.load(path)


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2"])
def test_numbers_of_a_kind_that_numpy_lacks_are_an_error(tmp_path, dtype):
    path = tmp_path / "counts.safetensors"
    counts = corpus.cooccurrence(corpus.Texts(["she is a nurse"]), 2)
    counts.save(path)
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    for tensor in header.values():
        if "dtype" in tensor:
            width = 2 if dtype == "BF16" else 1
            start, end = tensor["data_offsets"]
            tensor.update(dtype=dtype, shape=[(end - start) // width])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data[8 + size :])
    with pytest.raises(FormatError, match=r"counts\.safetensors: damaged co-occurrence counts \("):
        Cooccurrence.load(path)


def test_misuse():
    for options in ({"weighting": "cubic"}, {"window": 0}, {"min_count": 0}):
        with pytest.raises(UsageError):
            counted([["a"]], **options)


def test_empty_text_gives_an_empty_matrix():
    assert counted([[]]).matrix.shape == (0, 0)


def test_genderedness_by_hand():
    texts = [["she", "nurse"]] * 3 + [["he", "nurse"]] + [["she", "he"]] + [["he", "doctor"]] * 2
    table = counted(texts, 1)
    (found,) = corpus.genderedness(table, "nurse", pairs=[("she", "he")], alpha=-0.5, lambda_=2.0)
    both = 1 / 14
    cspmi = math.log(both / ((4 / 14) * (4 / 14))) + math.log(both)
    wanted = (1 / math.sqrt(2)) / math.sqrt(-cspmi - 0.5) * math.log((3 / 4) / (1 / 4))
    assert found.value == pytest.approx(wanted)
    assert found.by_pair == {("she", "he"): pytest.approx(wanted)}
    (flipped,) = corpus.genderedness(table, ["nurse"], pairs=[("he", "she")], alpha=-0.5, lambda_=2.0)
    assert flipped.value == pytest.approx(-wanted)


def test_pairs_that_fall_out_say_why():
    texts = [["she", "nurse"]] * 3 + [["he", "nurse"]] + [["she", "he"]] + [["he", "doctor"]] * 2
    table = counted(texts, 1)
    asked = [("she", "he"), ("woman", "man"), ("nurse", "doctor")]
    (doctor,) = corpus.genderedness(table, "doctor", pairs=asked)
    assert doctor.value is None
    assert "never near 'she'" in doctor.lost["she", "he"]
    assert "'woman' is not in the text" in doctor.lost["woman", "man"]
    assert "never co-occur" in doctor.lost["nurse", "doctor"]
    (nurse,) = corpus.genderedness(table, "nurse", pairs=asked, min_pairs=2)
    assert nurse.value is None
    assert len(nurse.by_pair) == 1
    (none,) = corpus.genderedness(table, "nurse", pairs=asked[:1], alpha=-50)
    assert "not above 0" in none.lost["she", "he"]
    with pytest.raises(VocabularyError, match="'absent'"):
        corpus.genderedness(table, "absent")
    with pytest.raises(UsageError, match="lambda"):
        corpus.genderedness(table, "nurse", lambda_=0)


def test_genderedness_takes_the_pairs_of_the_paper_unless_told():
    table = counted([["she", "nurse", "he"]], 2)
    (found,) = corpus.genderedness(table, "nurse", alpha=0.0)
    assert set(found.by_pair) | set(found.lost) == set(words.pairs("ethayarajh2019-pairs"))
    assert set(found.by_pair) == {("she", "he")}


def test_the_same_counts_are_the_same_bytes(tmp_path):
    table = counted([["she", "nurse", "he"], ["he", "doctor"]], 2)
    for number in range(8):  # metadata of several entries would come in one of two orders
        table.save(tmp_path / str(number))
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1
    corpus.Cooccurrence.load(tmp_path / "0").save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "0").read_bytes()
