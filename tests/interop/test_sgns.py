"""SGNS through gensim: reproducible bytes, word and context vectors, document boundaries, failures."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.corpus import Cooccurrence, Corpus, Texts, cooccurrence
from evenhand.corpus.counting.count import TokenFile, tokenise_to_file
from evenhand.corpus.counting.tokens import make_tokeniser
from evenhand.errors import DegenerateError, FormatError, InputMissingError, MissingExtraError, UsageError
from evenhand.models.vectors import Vectors

pytest.importorskip("gensim")
from evenhand.interop.gensim import CONTEXTS, SGNS, WORDS, reconstruction, train_sgns

SEA, FARM = ["ship", "wave", "sail", "port"], ["cow", "barn", "corn", "plough"]


def sea_and_farm(documents: int = 120, seed: int = 0) -> Texts:
    """Documents about one of two things; the words of one never meet those of the other."""
    rng = np.random.default_rng(seed)
    return Texts(" ".join(rng.choice(SEA if i % 2 else FARM, size=30)) for i in range(documents))


def small(**more: Any) -> SGNS:
    return train_sgns(sea_and_farm(), 8, **{"window": 2, "epochs": 3, "min_count": 1, **more})


def test_the_same_seed_gives_the_same_bytes() -> None:
    one, two, other = small(), small(), small(seed=1)
    assert one.words == two.words
    assert one.contexts == two.contexts
    assert one.words != other.words


def test_the_same_training_is_the_same_files(tmp_path: Path) -> None:
    for name in "ab":
        small().save(tmp_path / name)
    for file in (WORDS, CONTEXTS):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_hash_seed() -> None:
    code = (
        "from evenhand.interop.gensim import train_sgns; from evenhand.corpus import Texts;"
        "m = train_sgns(Texts(['a b c d e f g h'] * 9), 4, min_count=1, epochs=1);"
        "print(*(v.matrix.tobytes().hex() + ','.join(v.words) for v in (m.words, m.contexts)))"
    )
    outputs = [
        subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(outputs[0].split()) == 2
    assert outputs[0] == outputs[1]


def test_cooccurring_words_have_large_dot_products() -> None:
    model = small(epochs=20)
    words, contexts = (dict(zip(side.words, side.matrix, strict=True)) for side in (model.words, model.contexts))
    within = [words[a] @ contexts[b] for group in (SEA, FARM) for a in group for b in group]
    across = [words[a] @ contexts[b] for a in SEA for b in FARM]
    assert min(within) > max(across)


def test_words_are_those_of_the_counts_in_their_order() -> None:
    texts = Texts(["b a a c", "a b d e e e", "c c e f"])
    counts = cooccurrence(texts, 5, weighting="dynamic", min_count=2)
    model = train_sgns(texts, 4, min_count=2, epochs=1)
    assert model.words.words == counts.words == ("e", "a", "c", "b")
    assert model.manifest["tokens"] == 14
    assert model.manifest["tokens_kept"] == 12
    assert model.manifest["documents"] == 3


def test_saved_and_loaded_it_is_the_same(tmp_path: Path) -> None:
    model = small()
    again = SGNS.load(model.save(tmp_path / "model"))
    assert again.words == model.words
    assert again.contexts == model.contexts
    assert again.params == model.params
    assert again.manifest == model.manifest
    assert Vectors.load(tmp_path / "model" / WORDS).source["side"] == "words"


def test_two_halves_of_different_trainings_are_refused(tmp_path: Path) -> None:
    small().save(tmp_path / "one")
    small(seed=1).save(tmp_path / "two")
    (tmp_path / "two" / CONTEXTS).replace(tmp_path / "one" / CONTEXTS)
    with pytest.raises(FormatError, match=r"one: words and contexts do not come from one training"):
        SGNS.load(tmp_path / "one")
    with pytest.raises(InputMissingError, match="contexts"):
        SGNS.load(tmp_path / "two")
    with pytest.raises(FormatError, match="belong to different models"):
        SGNS(Vectors(["a"], [[1.0]]), Vectors(["b"], [[1.0]]))


@given(
    st.lists(st.lists(st.sampled_from("abcde"), max_size=12), min_size=1, max_size=8),
    st.integers(1, 3),
    st.integers(1, 5),
)
def test_stretches_are_documents_without_rare_words(documents: list[list[str]], min_count: int, longest: int) -> None:
    counted = {letter: sum(document.count(letter) for document in documents) for letter in "abcde"}
    kept = [[word for word in document if counted[word] >= min_count] for document in documents]
    expected = [part[i : i + longest] for part in kept for i in range(0, len(part), longest)]
    source = Texts(" ".join(document) for document in documents)
    if not any(kept):
        with pytest.raises(DegenerateError, match=f"no word of the text occurs {min_count} times"):
            tokenise_to_file(source, make_tokeniser(), min_count=min_count).__enter__()
        return
    with tokenise_to_file(source, make_tokeniser(), min_count=min_count) as spool:
        for _ in range(2):
            assert [[spool.words[n] for n in part] for part in spool.stretches(longest)] == expected


def test_a_document_longer_than_a_block_keeps_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenhand.corpus.counting.count.BLOCK", 7)
    text = [f"w{i % 11}" for i in range(100)]
    with tokenise_to_file(Texts([" ".join(text), "w1 w2"]), make_tokeniser()) as spool:
        parts = [[spool.words[n] for n in part] for part in spool.stretches(10)]
    assert [word for part in parts for word in part] == [*text, "w1", "w2"]
    assert {len(part) for part in parts[:-1]} == {10}


def test_errors_while_gensim_reads_are_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: TokenFile, longest: int) -> Iterator[Any]:
        yield np.array([0, 1])
        raise FormatError("the disk is gone")

    monkeypatch.setattr(TokenFile, "stretches", breaks)
    with pytest.raises(FormatError, match="the disk is gone"):
        small()


def test_progress_is_reported_by_epoch() -> None:
    seen: list[tuple[int, int, str]] = []
    small(progress=lambda done, total, what: seen.append((done, total, what)))
    assert seen == [(0, 1, "reading"), (0, 3, "training"), (1, 3, "training"), (2, 3, "training")]


def test_misuse_names_the_value() -> None:
    for wrong in ({"window": 0}, {"epochs": 0}, {"workers": 0}, {"negative": 0}):
        with pytest.raises(UsageError, match=f"{next(iter(wrong))} must be at least 1, got 0"):
            small(**wrong)
    with pytest.raises(UsageError, match="sample must be at least 0 and below 1"):
        small(sample=2.0)
    with pytest.raises(UsageError, match="min_count must be at least 1"):
        small(min_count=0)
    with pytest.raises(DegenerateError, match=r"occurs 5000 times \(3,600 words read\)"):
        small(min_count=5000)


def test_without_gensim_the_pip_line_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.split(".")[0] == "gensim"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(MissingExtraError, match=r"pip install \"evenhand\[gensim\]\""):
        small()


def test_bad_files_are_named_and_skipped_only_on_request(tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("a b c d " * 20)
    (tmp_path / "bad.txt").write_bytes(b"a b \xff\xfe c")
    with pytest.raises(FormatError, match=r"bad.txt, line 1: not valid UTF-8"):
        train_sgns(tmp_path, 4, min_count=1, epochs=1)
    model = train_sgns(Corpus(tmp_path, skip_bad=True), 4, min_count=1, epochs=1)
    assert [Path(bad["path"]).name for bad in model.manifest["bad_files"]] == ["bad.txt"]


def exact(lambda_: float, exponent: float) -> tuple[SGNS, Cooccurrence]:
    """Vectors whose products are exactly what SGNS should reconstruct from these counts, contexts apart from words."""
    rng = np.random.default_rng(3)
    from scipy.sparse import csr_array

    upper = np.triu(rng.gamma(4.0, 5.0, size=(12, 12)))
    table = upper + upper.T
    words = tuple(f"w{i}" for i in range(12))
    often = rng.integers(10, 1000, size=12)
    row = table.sum(axis=1)
    p, q = often / often.sum(), often**exponent / (often**exponent).sum()
    wanted = np.log(table * table.sum() / np.outer(row, row)) + np.log(p / q) - np.log(5)
    counts = Cooccurrence(words, csr_array(table), often)
    sides = (Vectors(words, lambda_ * np.eye(12)), Vectors(words, wanted.T / lambda_))
    return SGNS(*sides, {"negative": 5, "ns_exponent": exponent}), counts


@pytest.mark.parametrize("exponent", [0.75, 1.0])
def test_exact_vectors_are_recognised(exponent: float) -> None:
    found = reconstruction(*exact(1.5, exponent))
    assert found.slope == pytest.approx(1, abs=1e-6)
    assert found.intercept == pytest.approx(0, abs=1e-6)
    assert found.correlation == pytest.approx(1, abs=1e-6)
    assert found.pairs == 144


def test_contexts_that_are_multiples_of_words_give_the_multiple() -> None:
    model, counts = exact(1.0, 1.0)
    contexts = Vectors(model.words.words, 0.4 * model.words.matrix)
    found = reconstruction(SGNS(model.words, contexts), counts)
    assert found.lambda_ == pytest.approx(0.4)
    assert found.proportional == pytest.approx(1)
    strange = SGNS(Vectors(["x"], [[1.0]]), Vectors(["x"], [[1.0]]))
    with pytest.raises(DegenerateError, match="no pair of words of the vectors co-occurs"):
        reconstruction(strange, counts)


def test_a_header_whose_length_looks_like_a_pickle_is_read(tmp_path: Path) -> None:
    path = tmp_path / "v.safetensors"
    Vectors(["a"], [[1.0]], source={"note": ""}).save(path)
    length = int.from_bytes(path.read_bytes()[:8], "little")
    Vectors(["a"], [[1.0]], source={"note": "x" * (0x0480 - length)}).save(path)
    assert path.read_bytes()[:2] == b"\x80\x04"
    assert "a" in Vectors.load(path)
