"""Readers of files that lie in a folder with others, and of plain texts: one of the files is under fuzzing at a time."""

from __future__ import annotations

import functools
import gzip
import io
import json
import struct
import tarfile
import tempfile
from pathlib import Path

import fuzz_seeds as seeds
import numpy as np
from fuzz_targets import JSON_TOKENS, TABLE_TOKENS, framed, target, unframed

CODES, CENTROIDS = bytes([0, 1, 1, 0]), np.arange(8, dtype="<f4").tobytes()
NAVEC = {
    "meta.json": b'{"id": "tiny", "protocol": 1}',
    "vocab.bin": struct.pack("<3I", 2, 5, 20) + b"a\nb",
    "pq.bin": struct.pack("<4I", 2, 4, 2, 2) + CODES + CENTROIDS,
}
WORDS = ["she", "he", "nurse"]


def _in_archive(name: str, data: bytes) -> bytes:
    """Return a navec archive with this member; the vocabulary is compressed here."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for other, content in {**NAVEC, name: data}.items():
            stored = gzip.compress(content, 1, mtime=0) if other == "vocab.bin" else content
            member = tarfile.TarInfo(other)
            member.size = len(stored)
            archive.addfile(member, io.BytesIO(stored))
    return stream.getvalue()


def _load(path: Path) -> object:
    from evenhand import Vectors

    return Vectors.load(path, cache=False)


for _member in NAVEC:
    target(
        f"vectors-navec-{_member.partition('.')[0]}", "x.tar", functools.partial(lambda name: [NAVEC[name]], _member),
        wrap=functools.partial(_in_archive, _member),
    )(_load)  # fmt: skip


def _spacy() -> dict[str, bytes]:
    from evenhand.models.vectors.formats.spacy_vocab import murmur_hashes

    entries = [b"\xcf" + key.to_bytes(8, "big") + bytes([row]) for row, key in enumerate(murmur_hashes(WORDS).tolist())]
    stream = io.BytesIO()
    np.save(stream, np.arange(6, dtype=np.float32).reshape(3, 2) + 1)
    return {
        "key2row": b"\xde" + len(entries).to_bytes(2, "big") + b"".join(entries),
        "strings.json": json.dumps(WORDS).encode(),
        "vectors": stream.getvalue(),
    }


SPACY = _spacy()
for _file, _tokens in (
    ("key2row", (b"\xcf", b"\xcd", b"\xde", b"\xdf")),
    ("strings.json", JSON_TOKENS),
    ("vectors", ()),
):
    target(
        f"vectors-spacy-{_file.partition('.')[0]}", f"vocab/{_file}",
        functools.partial(lambda name: [SPACY[name]], _file), tokens=_tokens,
        beside={f"vocab/{name}": content for name, content in SPACY.items() if name != _file},
    )(lambda path: _load(path.with_name("key2row")))  # fmt: skip

target("vectors-vocabulary", "x.vocab", lambda: ["\n".join(seeds.WORDS).encode()], beside={"x.npy": seeds.MATRIX})(
    lambda path: _load(path.with_name("x.npy"))
)
HISTORY = {"x.txt": b"a 1 2\nb 3 4\n"}


@target("vectors-history", "x.txt.history.json", lambda: [
    json.dumps({"layout": "evenhand-history-1", "sha256": "0" * 64, "history": [{"step": "load"}]}).encode()
], beside=HISTORY, tokens=JSON_TOKENS)  # fmt: skip
def _history(path: Path) -> object:
    from evenhand.models.vectors.files import read_history_file

    return read_history_file(path.with_name("x.txt"), "0" * 64)


@target("rated-pairs", "r.csv", lambda: [b"# pairs\nshe,he,3.5\nnurse,doctor,8\n", b"a b\tc\t1\n"], tokens=TABLE_TOKENS)
def _rated(path: Path) -> object:
    from evenhand.measures.quality.rated_sets import rated_pairs

    return rated_pairs(path)


@target("analogy-questions", "q.txt", lambda: [b": capitals\nathens greece oslo norway\n"])
def _questions(path: Path) -> object:
    from evenhand.measures.quality.rated_sets import questions

    return questions(path)


TEXTS = [b"She is a nurse.\nHe is a doctor.\n", "Zo\u00eb\r\n\u2028she".encode()]


@target("texts-counterfactual", "t.txt", lambda: TEXTS)
def _counterfactual(path: Path) -> object:
    from evenhand.measures.labels.counterfactual import case_set

    return case_set(path, seeds.SMALL)


@target("texts-perplexity", "t.txt", lambda: TEXTS)
def _perplexity(path: Path) -> object:
    from evenhand.measures.likelihood.perplexity import read_lines

    return read_lines(path)


@target("texts-sites", "t.txt", lambda: TEXTS)
def _site_texts(path: Path) -> object:
    from evenhand.mitigations.site_examples import read_sentences

    return read_sentences(str(path))


@target("texts-training", "t.txt", lambda: TEXTS)
def _training_text(path: Path) -> object:
    from evenhand.models.lm.awd_lstm.corpus import tokens_of

    return list(tokens_of(path))


@functools.cache
def _elmo() -> tuple[object, bytes]:
    import h5py

    from evenhand.models.encoders.elmo.files import ElmoOptions, hdf5_datasets

    options = ElmoOptions(character_dim=1, filters=((1, 1),), highways=1, projection=1, cells=1, layers=1)
    with tempfile.TemporaryDirectory() as folder:
        with h5py.File(Path(folder) / "w", "w") as file:
            for parts in hdf5_datasets(options).values():
                for part in parts:
                    file[part.name] = np.full(part.shape, 0.5, np.float32)
        return options, (Path(folder) / "w").read_bytes()


@target("elmo-weights", "x_weights.hdf5", lambda: [_elmo()[1]], needs=("h5py",))
def _elmo_weights(path: Path) -> object:
    from evenhand.models.encoders.elmo.files import read_hdf5

    return read_hdf5(path, _elmo()[0])  # type: ignore[arg-type]


def _site_maps() -> list[bytes]:
    from safetensors.numpy import save

    about = {"format": 1, "maps": [{"site": "layer:1", "sha256": "0" * 64, "norm_limit": None}]}
    arrays = {f"0.{name}": np.ones((2, 2) if name != "bias" else 2) for name in ("left", "right", "bias")}
    return [unframed(save(arrays, metadata={"evenhand-sites": json.dumps(about)}))]


@target("encoder-maps", "evenhand-sites.safetensors", _site_maps, wrap=framed, needs=("torch",))
def _encoder_maps(path: Path) -> object:
    from evenhand.models.encoders.hooks import stored_maps

    return stored_maps(path.parent)


def _augmented() -> list[bytes]:
    counts = {"documents": 1, "words": 2, "swaps": {"she -> he": 1}, "kept_in_names": {}, "uncertain_pronouns": {}}
    return [json.dumps({**_augmentation_about(), "files": {"a.txt": {"source": [1, 2], "counts": counts}}}).encode()]


@functools.cache
def _augmentation() -> tuple[object, object]:
    import evenhand as eh
    from evenhand.corpus.readers.text import TextOptions

    return eh.mitigations.get("cda")().fit(None, seeds.SMALL), TextOptions()


def _augmentation_about() -> dict[str, object]:
    from dataclasses import asdict

    change, options = _augmentation()
    return {"change": change.digest, "options": asdict(options)}  # type: ignore[attr-defined, call-overload]


@target("augmentation-record", "out/.augmentation.json", _augmented, beside={"out/a.txt": b"she"}, tokens=JSON_TOKENS)
def _augmentation_record(path: Path) -> object:
    from evenhand.mitigations.text.augmentation import _FinishedFiles

    change, options = _augmentation()
    done = _FinishedFiles(path.parent, change, options, single=False)  # type: ignore[arg-type]
    return done.find(str(path.parent / "a.txt"), path.parent / "a.txt")
