"""The readers under fuzzing: for each, a file that the bytes go into, the call, and valid files to start from.

Each target wraps the bytes of the fuzzer into a file whose frame is valid (a length in front, a compression around), so
that mutations reach the parser behind it. A reader answers or raises an `EvenhandError` with a printable message.
"""

from __future__ import annotations

import functools
import gzip
import importlib.util
import json
import struct
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import fuzz_pages
import fuzz_seeds as seeds

from evenhand.errors import UNSAFE, EvenhandError

Read = Callable[[Path], object]
LONGEST_MESSAGE = 5000


@dataclass(frozen=True)
class Target:
    """A reader.

    Attributes:
        name: also the folder of its found inputs.
        file: name of the file that the bytes are written to.
        read: called with the path of the file.
        seeds: valid files, before `wrap`.
        wrap: turns the bytes of the fuzzer into the content of the file.
        beside: other files of the folder, written once.
        tokens: pieces of the format for the mutator.
        needs: packages without which the target is left out.
    """

    name: str
    file: str
    read: Read
    seeds: Callable[[], list[bytes]]
    wrap: Callable[[bytes], bytes] = bytes
    beside: Mapping[str, bytes] = field(default_factory=dict)
    tokens: tuple[bytes, ...] = ()
    needs: tuple[str, ...] = ()

    @property
    def missing(self) -> str:
        """The first package that is not installed, or the empty string."""
        return next((name for name in self.needs if importlib.util.find_spec(name) is None), "")

    def prepare(self, folder: Path) -> Path:
        """Write what lies beside the file; return the path of the file."""
        for name, content in self.beside.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return folder / self.file

    def execute(self, path: Path, data: bytes) -> bool:
        """Read a file of these bytes; return whether the reader accepted it. Errors of other types pass through."""
        path.write_bytes(self.wrap(data))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                self.read(path)
            except EvenhandError as error:
                message = str(error)
                if len(message) > LONGEST_MESSAGE:
                    raise AssertionError(f"a message of {len(message)} characters: {message[:200]}") from error
                if bad := UNSAFE.search(message):
                    raise AssertionError(f"a message holds {bad[0]!r}: {message[:200]!r}") from error
                message.encode()  # no lone surrogates
                return False
        return True


TARGETS: dict[str, Target] = {}


def target(
    name: str, file: str, seeds: Callable[[], list[bytes]], **options: object
) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    """Register the decorated call as a target."""

    def register(read: Read) -> Read:
        TARGETS[name] = Target(name, file, read, seeds, **options)  # type: ignore[arg-type]
        return read

    return register


def framed(data: bytes) -> bytes:
    """Put the length of the header in front: the bytes up to the first zero byte are the header of a safetensors file."""
    header, _, body = data.partition(b"\0")
    return struct.pack("<Q", len(header)) + header + body


def unframed(content: bytes) -> bytes:
    """Return the bytes that `framed` turns into this file."""
    (length,) = struct.unpack_from("<Q", content)
    return content[8 : 8 + length].rstrip(b" ") + b"\0" + content[8 + length :]


def gzipped(data: bytes) -> bytes:
    """Compress, as cheaply as possible."""
    return gzip.compress(data, 1, mtime=0)


JSON_TOKENS = (b'{"', b'":', b"[", b"]", b"{}", b"null", b"true", b"1e999", b"NaN", b'"\\ud800"', b"-1", b"[" * 64)
TABLE_TOKENS = (b",", b"\t", b'"', b'""', b"\r\n", b"\0", b"\xef\xbb\xbf", b"\xff")


def _vectors(format_: str | None) -> Read:
    def read(path: Path) -> object:
        from evenhand import Vectors

        return Vectors.load(path, cache=False, format=format_)

    return read


VOCABULARY = {"x.vocab": "\n".join(seeds.WORDS).encode()}
for _name, _suffix, _format in (
    ("vectors-text", ".txt", "glove"),
    ("vectors-header", ".vec", "fasttext"),
    ("vectors-word2vec-bin", ".bin", "word2vec-bin"),
    ("vectors-npy", ".npy", "npy"),
    ("vectors-wink", ".json", "wink"),
    ("vectors-fasttext-bin", ".ft.bin", "fasttext-bin"),
    ("vectors-any", ".txt", None),
):
    target(
        _name, f"x{_suffix}", functools.partial(seeds.vectors, _suffix), beside=VOCABULARY,
        tokens=(b"1 2\n", b"nan", b"inf", b"1e999", b" ", b"\r\n", b"\x93NUMPY", *JSON_TOKENS[:4]),
    )(_vectors(_format))  # fmt: skip
target(
    "vectors-safetensors", "x.safetensors", lambda: [unframed(s) for s in seeds.vectors(".safetensors")], wrap=framed,
    tokens=JSON_TOKENS,
)(_vectors("safetensors"))  # fmt: skip
target("vectors-gzip", "x.txt.gz", functools.partial(seeds.vectors, ".txt"), wrap=gzipped)(_vectors(None))
target("vectors-parquet", "x.parquet", seeds.vocabulary_parquet, beside={"m.npy": seeds.MATRIX})(
    _vectors("parquet-npy")
)


def _corpus(format_: str) -> Read:
    def read(path: Path) -> object:
        from evenhand.corpus.readers import Corpus, ReadLog

        texts = []
        for skip_bad in (False, True):
            corpus = Corpus(path, format=format_, documents="line", skip_bad=skip_bad, max_record=4096)
            try:
                texts.append([text for shard in corpus.shards() for text in corpus.fragments(shard, ReadLog(skip_bad))])
            except EvenhandError:
                if skip_bad:
                    raise
        if len(texts) == 2 and texts[0] != texts[1]:
            raise AssertionError("a file without bad records reads differently with skip_bad")
        return texts

    return read


for _name in ("text", "jsonl", "csv", "tsv", "warc", "mediawiki", "parquet", "arrow"):
    _tokens = JSON_TOKENS if _name == "jsonl" else (*TABLE_TOKENS, *seeds.MARKUP.get(_name, ()))
    target(f"corpus-{_name}", "c.txt", functools.partial(seeds.corpus, _name), tokens=_tokens)(_corpus(_name))
target("corpus-text-gzip", "c.txt.gz", functools.partial(seeds.corpus, "text"), wrap=gzipped)(_corpus("text"))


@target("corpus-arrow-index", "c.arrow", functools.partial(seeds.corpus, "arrow"))
def _arrow(path: Path) -> object:
    from evenhand.columnar import ArrowBatches

    with path.open("rb") as stream:
        return sum(len(batch) for batch in ArrowBatches(stream, path.name, 4096, 8 * 4096))


@target("zstd", "x.zst", seeds.zstd_streams)
def _zstd(path: Path) -> object:
    from evenhand.files import open_bytes

    with open_bytes(path) as stream:
        return sum(len(chunk) for chunk in iter(lambda: stream.read(1 << 14), b""))


@target("gguf", "m.gguf", seeds.gguf, tokens=(b"GGUF", bytes(8), b"\xff" * 8, b"\x01" + bytes(7)))
def _gguf(path: Path) -> object:
    from evenhand.models.gguf import open_gguf

    file = open_gguf(path)
    for name in list(file.arrays)[:4]:
        with _refusals():
            file.array(name)
    for call in (file.tokens, file.token_types, lambda: file.token_id("tokenizer.ggml.bos_token_id")):
        with _refusals():
            call()
    return file


@contextmanager
def _refusals() -> Iterator[None]:
    """Let a refusal pass: it is an answer, and the next question follows."""
    try:
        yield
    except EvenhandError as error:
        str(error).encode()


@target("onnx", "m.onnx", seeds.onnx, beside={"vocab.txt": b"[UNK]\na\nb\n"})
def _onnx(path: Path) -> object:
    from evenhand.models.onnx_import import bert_weights, read_graph

    return bert_weights(read_graph(path), path)


@target("elmo-options", "options.json", seeds.elmo_options, tokens=JSON_TOKENS)
def _elmo_options(path: Path) -> object:
    from evenhand.models.encoders.elmo.files import ElmoOptions

    return ElmoOptions.load(path)


TOML_TOKENS = (
    b"[concept]\n",
    b"[[queries]]\n",
    b'"""',
    b"'''",
    b" = ",
    b"[",
    b"]",
    b"\n",
    b'"\\ud800"',
    b"{",
    b"[" * 64,
)


@target("concept-toml", "c.toml", seeds.concepts, tokens=TOML_TOKENS)
def _concept(path: Path) -> object:
    from evenhand import words

    return words.concept(path)


@target("word-file", "w.toml", seeds.word_files, tokens=TOML_TOKENS)
def _word_file(path: Path) -> object:
    from evenhand.words.library import load_file

    return load_file(path)


@target("word-file-json", "w.json", seeds.word_files_json, tokens=JSON_TOKENS)
def _word_file_json(path: Path) -> object:
    return _word_file(path)


@target("audit-plan", "plan.toml", seeds.plans, tokens=TOML_TOKENS)
def _plan(path: Path) -> object:
    from evenhand.audit.plan import Plan

    return Plan.read(path)


def _predictions(path: Path) -> object:
    from evenhand.models.nli.predictions import PredictionsFile

    return PredictionsFile(path, max_record=4096).predict(["a b"], ["a c"])


target("predictions-jsonl", "p.jsonl", seeds.predictions_jsonl, tokens=JSON_TOKENS)(_predictions)
target("predictions-csv", "p.csv", seeds.predictions_csv, tokens=TABLE_TOKENS)(_predictions)


def _pairs(path: Path) -> object:
    from evenhand.models.nli.labelled_pairs import read_pairs

    return read_pairs(path, labels=("entailment", "neutral", "contradiction"), max_record=4096)


target("nli-pairs-jsonl", "p.jsonl", seeds.pairs_jsonl, tokens=JSON_TOKENS)(_pairs)
target("nli-pairs-tsv", "p.tsv", seeds.pairs_tsv, tokens=TABLE_TOKENS)(_pairs)
target("nli-pairs-csv", "p.csv", seeds.pairs_csv, tokens=TABLE_TOKENS)(_pairs)


@target("audit-record", "audit.json", seeds.audits, tokens=JSON_TOKENS)
def _audit(path: Path) -> object:
    from evenhand import Audit
    from evenhand.report.markdown import markdown

    audit = Audit.load(path.parent)
    return markdown(audit)


def with_digest(data: bytes) -> bytes:
    """Put the digest of a cell in front of what is JSON, so that a reader looks at the content."""
    from evenhand.audit.schema import content_digest

    try:
        content = json.loads(data)
        return json.dumps({"sha256": content_digest(["cells", "k", content]), "content": content}).encode()
    except (ValueError, RecursionError):
        return data


@target("audit-cell", "cells/k.json", seeds.cells, beside={"cells/note": b""}, tokens=JSON_TOKENS, wrap=with_digest)
def _cell(path: Path) -> object:
    from evenhand.audit.cells import CellStore

    return CellStore(path.parents[1]).cell("k")


@target("map", "m.safetensors", lambda: [unframed(s) for s in seeds.maps()], wrap=framed, tokens=JSON_TOKENS)
def _map(path: Path) -> object:
    from evenhand import VectorMap

    return VectorMap.load(path)


@target("site-change", "c.safetensors", lambda: [unframed(s) for s in seeds.site_changes()], wrap=framed)
def _site_change(path: Path) -> object:
    from evenhand.mitigations.maps.site_change import SiteChange

    return SiteChange.load(path)


@target("text-change", "c.json", seeds.text_changes, tokens=JSON_TOKENS)
def _text_change(path: Path) -> object:
    from evenhand.mitigations.text.text_change import TextChange

    return TextChange.load(path)


@target("decoding-change", "c.json", seeds.decoding_changes, tokens=JSON_TOKENS)
def _decoding_change(path: Path) -> object:
    from evenhand.mitigations.decoding.self_debias import DecodingChange

    return DecodingChange.load(path)


@target("cooccurrence", "c.safetensors", lambda: [unframed(s) for s in seeds.cooccurrences()], wrap=framed)
def _cooccurrence(path: Path) -> object:
    from evenhand.corpus.cooccurrence import Cooccurrence

    return Cooccurrence.load(path)


@target(
    "nli-model", "m.safetensors", lambda: [unframed(s) for s in seeds.nli_models()], wrap=framed, tokens=JSON_TOKENS
)
def _nli_model(path: Path) -> object:
    from evenhand.models.nli.over_vectors import load

    return load(path, seeds.V, device="cpu")


@target("model-header", "m.safetensors", lambda: [unframed(s) for s in seeds.nli_models()], wrap=framed)
def _model_header(path: Path) -> object:
    from evenhand.models.model_files import read_header, read_tensor

    return [read_tensor(info, name) for name, info in read_header(path).items()]


@target(
    "lm-config", "config.json", seeds.lm_configs, beside={"vocabulary.txt": b"<unk>\n<eos>\na\n"}, tokens=JSON_TOKENS
)
def _lm_config(path: Path) -> object:
    from evenhand.models.lm.awd_lstm.model_folder import read_folder_config, read_vocabulary

    return read_folder_config(path.parent), read_vocabulary(path.parent)


@target(
    "nli-checkpoint",
    "c.safetensors",
    lambda: [unframed(s) for s in seeds.checkpoints()],
    wrap=framed,
    needs=("torch",),
)
def _nli_checkpoint(path: Path) -> object:
    from evenhand.models.training import read_checkpoint

    return read_checkpoint(path, {})


@target("crows-pairs", "c.csv", seeds.crows_pairs, tokens=TABLE_TOKENS)
def _crows(path: Path) -> object:
    from evenhand.measures.likelihood.stereotype_pairs import read_crows_pairs

    return read_crows_pairs(path)


@target("stereoset", "s.json", seeds.stereoset, tokens=JSON_TOKENS)
def _stereoset(path: Path) -> object:
    from evenhand.measures.likelihood.stereoset import read_stereoset

    return read_stereoset(path)


@target("bbq", "Age.jsonl", seeds.bbq, beside={"additional_metadata.csv": seeds.BBQ_METADATA}, tokens=JSON_TOKENS)
def _bbq(path: Path) -> object:
    from evenhand.measures.likelihood.bbq_items import read_bbq

    return read_bbq(path.parent, ("Age",))


@target("bbq-metadata", "m.csv", lambda: [seeds.BBQ_METADATA], tokens=TABLE_TOKENS)
def _bbq_metadata(path: Path) -> object:
    from evenhand.measures.likelihood.bbq_items import read_metadata

    return read_metadata(path)


@target("winobias", "w.txt", seeds.winobias)
def _winobias(path: Path) -> object:
    from evenhand.measures.likelihood import winobias

    content = path.read_bytes()
    for name in seeds.WINOBIAS_FILES:
        (path.parent / name).write_bytes(content)
    return winobias.read_winobias(path.parent)


@target("winogender", "all_sentences.tsv", seeds.winogender, beside=seeds.WINOGENDER, tokens=TABLE_TOKENS)
def _winogender(path: Path) -> object:
    from evenhand.measures.likelihood.winogender import read_winogender

    return read_winogender(path.parent)


@target("winogenerated", "winogenerated_examples.jsonl", seeds.winogenerated, tokens=JSON_TOKENS)
def _winogenerated(path: Path) -> object:
    from evenhand.measures.likelihood.pronoun_share import read_winogenerated

    return read_winogenerated(path.parent)


@target("holistic-bias", "descriptors.json", seeds.holistic, beside=seeds.HOLISTIC, tokens=JSON_TOKENS)
def _holistic(path: Path) -> object:
    from evenhand.measures.likelihood.holistic_bias import read_holistic_bias

    return read_holistic_bias(path.parent)


@target("hurtlex", "hurtlex_EN.tsv", seeds.hurtlex, tokens=TABLE_TOKENS)
def _hurtlex(path: Path) -> object:
    from evenhand.measures.likelihood.honest import read_hurtlex

    return read_hurtlex(path.parent)


@target("honest", "binary/en_template.tsv", seeds.honest, beside={"binary/note": b""}, tokens=TABLE_TOKENS)
def _honest(path: Path) -> object:
    from evenhand.measures.likelihood.honest import read_templates

    return read_templates(path.parents[1])


@target("sentence-test", "sent-x.jsonl", seeds.sentence_tests, tokens=JSON_TOKENS)
def _sentence_test(path: Path) -> object:
    from evenhand.measures.sentences.encoded_query import read_test

    return read_test(path)


@target("sentence-modules", "modules.json", seeds.modules, tokens=JSON_TOKENS)
def _modules(path: Path) -> object:
    from evenhand.models.encoders.sentences import read_modules

    return read_modules(path.parent)


@target("model-config", "config.json", seeds.model_configs, tokens=JSON_TOKENS)
def _model_config(path: Path) -> object:
    from evenhand.models.huggingface_folder import read_config

    return read_config(path.parent)


@target("archive-zip", "a.zip", seeds.zips)
def _zip(path: Path) -> object:
    return seeds.unpack(path)


@target("archive-tar", "a.tar", seeds.tars)
def _tar(path: Path) -> object:
    return seeds.unpack(path)


for _name, _requests in (
    ("pages-explore", fuzz_pages.explore_requests),
    ("pages-runs", fuzz_pages.run_requests),
    ("pages-audits", fuzz_pages.audit_requests),
    ("pages-guard", fuzz_pages.guarded_requests),
):
    target(_name, "request.txt", _requests, tokens=fuzz_pages.TOKENS, needs=("starlette",))(fuzz_pages.ask)

import fuzz_folder_targets  # noqa: E402, F401 (they register more targets, with the functions above)
import fuzz_model_targets  # noqa: E402, F401
import fuzz_outside_targets  # noqa: E402, F401
import fuzz_record_targets  # noqa: E402, F401
