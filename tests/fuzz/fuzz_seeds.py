"""Small valid files of every format, from which the fuzzer starts."""

from __future__ import annotations

import functools
import io
import json
import struct
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import evenhand as eh

WORDS = ["the", "of", ". .", "Zoë", "女", "nan"]
V = eh.Vectors(WORDS, np.round(np.random.default_rng(0).standard_normal((6, 3)), 2), source={"from": "nowhere"})
WINK = b'{"dimensions":2,"words":["a","b"],"vectors":{"a":[1,2,3,0],"b\\u00e9":[-1.5e-3,2,3,1]},"unkVector":[0,0]}'
FASTTEXT = struct.pack("<2i12id", 793712314, 12, 2, 5, 5, 1, 5, 1, 1, 2, 4, 2, 3, 100, 1e-4)
FASTTEXT += struct.pack("<3i2q", 2, 2, 0, 9, -1) + b"he\0" + struct.pack("<qb", 5, 0) + b"she\0"
FASTTEXT += struct.pack("<qb", 4, 0) + struct.pack("<B2q", 0, 6, 2) + np.ones((6, 2), "<f4").tobytes()
FASTTEXT += struct.pack("<B2q", 0, 2, 2) + bytes(16)


def written(write: Callable[[Path], object], name: str = "x") -> bytes:
    """Return the bytes that a function writes to a file."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder) / name)
        return (Path(folder) / name).read_bytes()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.asarray(V.matrix))
    return stream.getvalue()


MATRIX = _npy()


@functools.cache
def _vectors(suffix: str) -> bytes:
    if suffix in (".json", ".ft.bin"):
        return WINK if suffix == ".json" else FASTTEXT
    words = [word.replace(" ", "_") for word in WORDS] if suffix == ".bin" else WORDS
    return written(eh.Vectors(words, V.matrix).save, f"x{suffix}")


def vectors(suffix: str) -> list[bytes]:
    """Return vector files with this suffix; for text also with a header, quoted words and line ends of both kinds."""
    found = [_vectors(suffix)]
    if suffix == ".txt":
        found += [_vectors(".vec"), _vectors(".bin"), MATRIX, WINK, b"a 1 2\r\nb 3 4\r\n", b"2 2\na 1 2\nb 3 4\n"]
    return found


def vocabulary_parquet() -> list[bytes]:
    """Return a Parquet file of words."""
    import polars as pl

    return [written(lambda path: pl.DataFrame({"word": WORDS}).write_parquet(path))]


MARKUP = {
    "mediawiki": (b"<title>", b"</title>", b"<text>", b"</text>", b"{{", b"}}", b"[[", b"]]", b"{|", b"|}", b"<ref", b"<!--"),
    "warc": (b"WARC/1.0\r\n", b"Content-Length: ", b"\r\n\r\n", b"WARC-Type: conversion\r\n"),
}  # fmt: skip
WIKI = b"""<mediawiki><siteinfo><namespace key="1" case="x">Talk</namespace></siteinfo>
<page><title>A</title><text bytes="3">'''She''' is [[nurse|a nurse]] {{cite|{{x}}}} <ref>no</ref> <!-- c --> [http://a b]
{| class
| cell
|}
&lt;math&gt;x&lt;/math&gt; end</text></page><page><title>Talk:B</title><text>not</text></page></mediawiki>
"""
WARC = b"WARC/1.0\r\nWARC-Type: conversion\r\nContent-Length: 5\r\n\r\nhe is\r\n\r\n"
WARC += b"WARC/1.0\r\nWARC-Type: warcinfo\r\nContent-Length: 2\r\n\r\nab\r\n\r\n"


def corpus(format_: str) -> list[bytes]:
    """Return corpora in a format."""
    import polars as pl

    frame = pl.DataFrame({"text": ["he is here", "she is there"], "other": ["1", "2"]})
    made: dict[str, Callable[[], list[bytes]]] = {
        "text": lambda: [b"she is a nurse\nhe is a doctor\n", "Zoë ist älter\r\n\ufeff".encode()],
        "jsonl": lambda: [b'{"text": "she is"}\n{"text": "\\u00e9\\ud83d\\ude00", "x": [1, {}]}\n\n'],
        "csv": lambda: [b'id,text\n1,"a ""b"" c"\n2,"two\nlines"\n'],
        "tsv": lambda: [b"id\ttext\n1\ta b\n2\tc\n"],
        "warc": lambda: [WARC],
        "mediawiki": lambda: [WIKI],
        "parquet": lambda: [written(frame.write_parquet)],
        "arrow": lambda: [written(frame.write_ipc), written(frame.write_ipc_stream)],
    }
    return made[format_]()


def zstd_streams() -> list[bytes]:
    """Return streams of one frame, of several, and with a skippable one."""
    import zstandard

    one = zstandard.ZstdCompressor(write_checksum=True).compress(b"she is a nurse\n" * 50)
    two = zstandard.ZstdCompressor(write_content_size=False).compress(bytes(range(256)))
    skipped = struct.pack("<2I", 0x184D2A50, 3) + b"abc"
    return [one, one + skipped + two, two]


def gguf() -> list[bytes]:
    """Return a file with metadata of every type, and arrays plain and in blocks."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    metadata = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 1),
        text("tokenizer.ggml.tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("tokenizer.ggml.token_type") + struct.pack("<IIQii", 9, 5, 2, 1, 3),
        text("tokenizer.ggml.bos_token_id") + struct.pack("<II", 4, 1),
        text("x") + struct.pack("<If", 6, 1.5),
        text("y") + struct.pack("<I?", 7, True),
    ]
    arrays = [
        text("token_embd.weight") + struct.pack("<IQQIQ", 2, 4, 2, 0, 0),
        text("output.weight") + struct.pack("<IQQIQ", 2, 32, 1, 8, 32),
    ]
    index = b"GGUF" + struct.pack("<IQQ", 3, len(arrays), len(metadata)) + b"".join(metadata) + b"".join(arrays)
    return [index + bytes(-len(index) % 32) + np.arange(8, dtype="<f4").tobytes() + bytes(range(34))]


def varint(value: int) -> bytes:
    """Return the protobuf form of a number."""
    low = bytes([value & 127 | (128 if value > 127 else 0)])
    return low + (varint(value >> 7) if value > 127 else b"")


def proto(number: int, value: int | bytes) -> bytes:
    """Return a protobuf field."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def onnx() -> list[bytes]:
    """Return a graph with a word table, a linear layer and a constant."""

    def tensor(name: bytes, array: np.ndarray) -> bytes:
        return (
            b"".join(proto(1, size) for size in array.shape) + proto(2, 1) + proto(8, name) + proto(9, array.tobytes())
        )

    table = tensor(b"embeddings.word_embeddings.weight", np.ones((2, 2), "<f4"))
    matrix = tensor(b"onnx::MatMul_1", np.ones((2, 2), "<f4"))
    bias = tensor(b"encoder.layer.0.dense.bias", np.ones(2, "<f4"))
    node = proto(1, b"x") + proto(1, b"onnx::MatMul_1") + proto(2, b"y")
    node += (
        proto(3, b"/encoder/layer.0/dense/MatMul") + proto(4, b"MatMul") + proto(5, proto(1, b"transB") + proto(3, 1))
    )
    constant = proto(2, b"h") + proto(4, b"Constant") + proto(5, proto(1, b"value") + proto(5, matrix))
    graph = b"".join(proto(5, part) for part in (table, matrix, bias)) + proto(1, node) + proto(1, constant)
    return [proto(1, 8) + proto(7, graph)]


def elmo_options() -> list[bytes]:
    """Return the published options, and small ones."""
    from evenhand.models.encoders.elmo.files import ElmoOptions

    return [json.dumps(options.to_dict()).encode() for options in (ElmoOptions(), ElmoOptions(8, 4, filters=((1, 2),)))]


CONCEPT = """[concept.mine]
positive = "a"
direction = { how = "pair", words = ["she", "he"], normalise = true }
pairs = [["she", "he"], ["woman", "man"]]
limits = \"\"\"Two groups.\"\"\"
neutral = ["nurse"]
[concept.mine.groups]
a = ["she", "woman"]
b = ["he", "man"]
"""
QUERY = """
[query.q]
concept = "mine"
[query.q.targets]
a = ["nurse", "cook"]
b = ["doctor", "pilot"]
[query.q.attributes]
x = ["she", "woman"]
y = ["he", "man"]
"""


def concepts() -> list[bytes]:
    """Return a word file with one concept."""
    return [CONCEPT.encode()]


def word_files() -> list[bytes]:
    """Return word files in TOML."""
    return [(CONCEPT + QUERY).encode(), QUERY.encode(), b'[wordset.w]\nwords = ["a", "b"]\n']


def word_files_json() -> list[bytes]:
    """Return the same in JSON."""
    return [json.dumps(tomllib.loads(text.decode())).encode() for text in word_files()]


def plans() -> list[bytes]:
    """Return the plan of a small audit."""
    from evenhand.audit import Plan

    return [Plan.default([eh.open(V)], methods=["linear"], only=["weat"], queries=["weat-6"]).to_toml().encode()]


ROWS = '{"premise": "a b", "hypothesis": "a c", "label": "entailment", "entailment": 0.5, "neutral": 0.25, "contradiction": 0.25}\n'


def predictions_jsonl() -> list[bytes]:
    """Return predictions as JSON lines."""
    return [ROWS.encode()]


def predictions_csv() -> list[bytes]:
    """Return predictions as a table."""
    return [b'premise,hypothesis,entailment,neutral,contradiction\na b,"a c",0.5,0.25,0.25\n']


def pairs_jsonl() -> list[bytes]:
    """Return labelled pairs as JSON lines."""
    return [
        (
            ROWS
            + '{"sentence1": "x", "sentence2": "y", "gold_label": "neutral"}\n{"premise": "x", "hypothesis": "y", "label": 2}\n'
        ).encode()
    ]


def pairs_tsv() -> list[bytes]:
    """Return labelled pairs as SNLI and HANS have them."""
    return [
        b"gold_label\tsentence1\tsentence2\nentailment\ta b\ta c\nneutral\ta\tb\n-\ta\tb\n",
        b"premise\thypothesis\tlabel\na\tb\t0\na\tc\t1\n",
    ]


def pairs_csv() -> list[bytes]:
    """Return labelled pairs as a table."""
    return [b'premise,hypothesis,label\n"a, b",a c,e\na,b,n\n']


SMALL = eh.Concept("mine", groups={"a": ["she", "woman"], "b": ["he", "man"]}, pairs=[["she", "he"], ["woman", "man"]])


@functools.cache
def _audit() -> eh.Audit:
    vectors = eh.Vectors.default().restrict(["nurse", "cook", "doctor", "pilot", "she", "he", "woman", "man"])
    return eh.Audit.run(vectors, methods=["linear"], concept=SMALL, measures=["direct-bias", "weat"])


def _shortened(value: object) -> object:
    """Return plain data with at most two entries in each list."""
    if isinstance(value, dict):
        return {key: _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value[:2]] if isinstance(value, list) else value


def audits() -> list[bytes]:
    """Return the record of a small audit, and those of earlier schemas.

    All are marked as schema 2: a record of schema 3 is refused by its digest before anything else of it matters.
    """
    old = sorted(Path(__file__).parents[1].glob("audit/old_runs/*.json"))
    records = [_shortened(_audit().to_dict()), *(json.loads(path.read_text()) for path in old)]
    for record in records:
        if record.pop("sha256", ""):
            record["schema"] = 2
    return [json.dumps(record).encode() for record in records]


def cells() -> list[bytes]:
    """Return a stored cell."""
    from evenhand.audit.cells import Cell

    return [json.dumps(Cell((_audit().results[0].measurement,), ("a note",)).to_dict()).encode()]


def maps() -> list[bytes]:
    """Return maps of several kinds."""
    from evenhand.mitigations.maps import Affine, SoftProjection

    projection, affine = SoftProjection(np.eye(3)[:1], [1.0]), Affine(np.eye(3))
    return [written(vm.save) for vm in (projection, affine, projection @ affine)]


def site_changes() -> list[bytes]:
    """Return a change at one site."""
    from evenhand.mitigations.maps import SoftProjection
    from evenhand.mitigations.maps.site_change import SiteChange
    from evenhand.models.encoders.sites import Site

    change = SiteChange(((Site.parse("layer:1"), SoftProjection(np.eye(3)[:1], [1.0])),), {"method": "linear"})
    return [written(change.save)]


def text_changes() -> list[bytes]:
    """Return a fitted counterfactual augmentation."""
    from evenhand.mitigations.text.text_change import _build

    about = json.loads(written(eh.mitigations.get("cda")().fit(None, SMALL).save))
    about = {key: _shortened(value) for key, value in about.items()}
    return [json.dumps({**about, "sha256": _build(about).digest}).encode()]


def decoding_changes() -> list[bytes]:
    """Return a change of decoding."""
    from evenhand.mitigations.decoding.self_debias import DecodingChange

    return [written(DecodingChange(("The following is biased:",), 50.0, 0.01, {}).save)]


def cooccurrences() -> list[bytes]:
    """Return counts of a short text."""
    from evenhand.corpus import cooccurrence
    from evenhand.corpus.readers import Texts

    return [written(cooccurrence(Texts(["she is a nurse he is"]), 2).save)]


def nli_models() -> list[bytes]:
    """Return a decomposable attention model of dimension 3."""
    from evenhand.models.nli.decomposable import array_shapes
    from evenhand.models.nli.over_vectors import write_model_file

    arrays = {name: np.full(shape, 0.5, np.float32) for name, shape in array_shapes(3, 2, 2).items()}
    config = {"lower": True, "normalise": False, "name": "x", "words": {"name": "v", "history": []}}
    return [written(lambda path: write_model_file(path, kind="decomposable-attention", arrays=arrays, config=config))]


def lm_configs() -> list[bytes]:
    """Return the configuration of a language model."""
    from evenhand.models.lm.awd_lstm.model_folder import LMSettings

    config = {"format": 1, "kind": "awd-lstm", "words": 3, "settings": LMSettings().to_dict(), "manifest": {}}
    return [json.dumps(config).encode()]


def checkpoints() -> list[bytes]:
    """Return a checkpoint of a training."""
    from safetensors.numpy import save

    content = {"format": 1, "fingerprint": {}, "state": {"done": 1, "history": [{"epoch": 1}]}}
    return [save({"network.x": np.ones(2, np.float32)}, metadata={"evenhand-checkpoint": json.dumps(content)})]


def crows_pairs() -> list[bytes]:
    """Return two pairs."""
    return [
        b"sent_more,sent_less,stereo_antistereo,bias_type\nShe cooks.,He cooks.,stereo,gender\nA.,B.,antistereo,age\n"
    ]


def stereoset() -> list[bytes]:
    """Return one example of each task."""
    sentences = [
        {"gold_label": label, "id": label, "sentence": "a"} for label in ("stereotype", "anti-stereotype", "unrelated")
    ]
    item = {"id": "1", "target": "t", "bias_type": "gender", "context": "BLANK is", "sentences": sentences}
    return [json.dumps({"data": {"intrasentence": [item], "intersentence": [item]}}).encode()]


BBQ_METADATA = b"category,question_index,example_id,target_loc,label_type\nAge,1,0,0,label\nAge,1,1,,name\n"


def bbq() -> list[bytes]:
    """Return one item."""
    info = {f"ans{number}": ["x", group] for number, group in enumerate(("old", "nonOld", "unknown"))}
    item = {"ans0": "a", "ans1": "b", "ans2": "c", "answer_info": info, "category": "Age", "question_index": "1",
            "example_id": 0, "context_condition": "ambig", "label": 2, "context": "c", "question": "q",
            "question_polarity": "neg"}  # fmt: skip
    return [json.dumps(item).encode() + b"\n"]


WINOBIAS_FILES = [
    f"{side}_stereotyped_type{kind}.txt.{split}"
    for side in ("pro", "anti")
    for kind in (1, 2)
    for split in ("dev", "test")
]
WINOBIAS_FILES += ["male_occupations.txt", "female_occupations.txt"]


def winobias() -> list[bytes]:
    """Return two lines."""
    return [b"1 [The developer] argued with the designer because [he] did not like it.\n2 nurse\n"]


WINOGENDER = {"occupations-stats.tsv": b"occupation\tother\tbls\tc\ntechnician\t1\t40.3\t2\n"}


def winogender() -> list[bytes]:
    """Return the three versions of a sentence."""
    lines = [f"technician.customer.1.{gender}.txt\tthe technician told the customer that {word} paid."
             for gender, word in (("male", "he"), ("female", "she"), ("neutral", "they"))]  # fmt: skip
    return ["\n".join(["sentid\tsentence", *lines, ""]).encode()]


def winogenerated() -> list[bytes]:
    """Return one sentence."""
    item = {"index": 1, "sentence_with_blank": "the nurse said _ came", "occupation": "nurse",
            "pronoun_options": ["he", "she", "they"], "BLS_percent_women_2019": 88.9}  # fmt: skip
    return [json.dumps(item).encode() + b"\n"]


HOLISTIC = {
    "nouns.json": b'{"female": [["woman", "women"]]}',
    "sentence_templates.json": b'{"I am {noun_phrase}.": {}}',
}


def holistic() -> list[bytes]:
    """Return two descriptors."""
    return [b'{"ability": {"auditory": ["Deaf", {"descriptor": "hard-of-hearing", "preference": "preferred"}]}}']


def hurtlex() -> list[bytes]:
    """Return two words."""
    return [
        b"id\tpos\tcategory\tstereotype\tlemma\tlevel\nEN1\tn\tcds\tno\tfool\tconservative\nEN2\tn\tan\tno\tape\tinclusive\n"
    ]


def honest() -> list[bytes]:
    """Return one template."""
    return [
        b"template_masked\traw\tidentity\ttype\tcategory\tnumber\nthe woman is [M].\t[I] is [M].\tthe woman\tterm\tfemale\tsingular\n"
    ]


def sentence_tests() -> list[bytes]:
    """Return a test of four sets."""
    roles = {
        role: {"category": role, "examples": ["This is a cat.", "A cat."]}
        for role in ("targ1", "targ2", "attr1", "attr2")
    }
    return [json.dumps(roles).encode()]


def modules() -> list[bytes]:
    """Return the modules of a sentence encoder."""
    listed = [
        {"idx": 0, "path": "", "type": "st.models.Transformer"},
        {"idx": 1, "path": "1_Pooling", "type": "st.models.Pooling"},
    ]
    return [json.dumps(listed).encode()]


def model_configs() -> list[bytes]:
    """Return a configuration of transformers."""
    return [
        b'{"architectures": ["BertForMaskedLM"], "model_type": "bert", "vocab_size": 3, "id2label": {"0": "entailment"}}'
    ]


def zips() -> list[bytes]:
    """Return a zip archive with a wanted member and one that climbs."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b.txt", "she is")
        archive.writestr("../c.txt", "he is")
    return [stream.getvalue()]


def tars() -> list[bytes]:
    """Return the same as a tar archive, with a link."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("x", "a/b.txt"):
            info = tarfile.TarInfo(name)
            info.size = 6
            archive.addfile(info, io.BytesIO(b"she is"))
        link = tarfile.TarInfo("l")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return [stream.getvalue()[:2560]]


def unpack(path: Path) -> object:
    """Extract one member, which must arrive inside the folder and nowhere else."""
    from evenhand.data.catalog import File
    from evenhand.data.packages import Wanted, extract

    target = path.parent / "out" / "b.txt"
    extract(path, {"a/b.txt": Wanted(target, File("b.txt", sha256="", size=6))})
    return target.read_bytes()
