"""Convert ONNX files of BERT encoders and classifiers and of Llama models into Hugging Face folders.

An exported graph keeps the module path in the names of its nodes, although it renames the weights of linear layers.
Each weight is found by the node that uses it, 8-bit weights are converted to numbers, and the result is saved with
`model.safetensors`, so that every view of a transformer works. Only the protobuf messages that hold weights are read.
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import FormatError, InputMissingError, OutputError, UsageError
from evenhand.models.huggingface_folder import is_own_file
from evenhand.models.model_files import read_json
from evenhand.outputs import replacing_folder

GraphArray = NDArray[np.generic]
# Data types of TensorProto, and the field of a value that is not stored as raw bytes.
TYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 6: np.int32, 7: np.int64, 10: np.float16, 11: np.float64}
FLOATS, INTEGERS, LONGS = 4, 5, 7
EXTERNAL = 1  # data_location of weights in another file
LAYER = re.compile(r"encoder\.layer\.(\d+)\.")
TOKENIZER_FILES = ("vocab.txt", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
DROPPED = ("embeddings.position_ids",)
LLAMA_TABLE = "model.embed_tokens.weight"
LLAMA_PARTS = (
    "input_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
    "post_attention_layernorm", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj",
)  # fmt: skip
MOST_LAYERS = 1_000
AGAIN = "fetch it again"


@dataclass
class Node:
    """An operation of the graph."""

    op: str = ""
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    integers: dict[str, int] = field(default_factory=dict)
    constant: GraphArray | None = None


@dataclass
class Graph:
    """The operations and the weights."""

    path: Path
    nodes: list[Node]
    weights: dict[str, GraphArray]


def import_onnx(source: str | Path, out: str | Path, *, labels: Sequence[str] = ()) -> Path:
    """Write the Hugging Face folder of a BERT or Llama model from its ONNX file.

    Args:
        source: an .onnx file, or a folder that holds one, with vocab.txt or tokenizer.json in the same or in the
            folder above; a Llama model needs config.json and tokenizer.json.
        out: the folder to write; it must not exist or be empty.
        labels: names of the outputs of a classifier, in order; LABEL_0 and so on by default.

    Raises:
        FormatError: If the file is damaged, or holds another model.
        InputMissingError: If there is no .onnx file or no vocabulary.
    """
    from safetensors.numpy import save_file

    path = find_onnx(Path(source))
    target = Path(out)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise OutputError(f"{target} exists and is not empty", hint="name another folder")
    graph = read_graph(path)
    if any(name.startswith(LLAMA_TABLE) for name in graph.weights):
        weights, config = llama_model(graph, path, labels)
    else:
        weights = bert_weights(graph, path)
        config = _config(graph, weights, path, labels)
    tokenizer = _tokenizer_files(path)
    with replacing_folder(target) as partial:
        for file in tokenizer:
            shutil.copyfile(file, partial / file.name)
        if not (partial / "tokenizer_config.json").exists():
            lower = not any(word != word.lower() for word in _vocabulary(tokenizer) if not word.startswith("["))
            settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower, "model_max_length": 512}
            (partial / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
        (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        save_file(weights, partial / "model.safetensors", metadata={"format": "pt"})
    return target


def find_onnx(path: Path) -> Path:
    """Return the ONNX file: the path itself, or the only one in a folder or in its folder onnx."""
    if path.is_file():
        return path
    files = [file for folder in (path, path / "onnx") if folder.is_dir() for file in sorted(folder.glob("*.onnx"))]
    if len(files) == 1:
        return files[0]
    names = ", ".join(file.name for file in files) or "none"
    raise InputMissingError(f"{path}: one .onnx file is needed, found {names}", hint="name the file itself")


def bert_weights(graph: Graph, path: Path) -> dict[str, NDArray[np.float32]]:
    """Return the weights under the names of `transformers`, as 32-bit numbers."""
    weights: dict[str, NDArray[np.float32]] = {}
    for name, array in graph.weights.items():
        plain = name.removesuffix("_quantized")
        if plain.endswith((".bias", "LayerNorm.weight", "_embeddings.weight")) and plain not in DROPPED:
            weights[plain] = _dequantised(graph, name, array)
    weights |= _linear_weights(graph)
    table = [name for name in weights if name.endswith("embeddings.word_embeddings.weight")]
    lost = [f"{name[: -len('bias')]}weight" for name in weights if name.endswith("bias")]
    lost = [name for name in lost if name not in weights]
    if len(table) != 1 or lost:
        what = f"no weights for {lost[0]}" if lost else "no table embeddings.word_embeddings"
        raise FormatError(
            f"{path}: {what}, so it is not an exported BERT model",
            hint="only BERT encoders and classifiers and Llama models, of 32 or 8 bits, are converted",
        )
    return weights


def llama_model(
    graph: Graph, path: Path, labels: Sequence[str]
) -> tuple[dict[str, NDArray[np.float32]], dict[str, object]]:
    """Return weights and configuration of a Llama model; an output layer that the graph holds stays separate."""
    if labels:
        raise UsageError("labels apply to classifiers, and the file holds a language model", hint="leave them out")
    stored = next((p for p in (path.parent, path.parent.parent) if (p / "config.json").is_file()), None)
    if stored is None:
        raise InputMissingError(f"{path}: no config.json beside it", hint="fetch the whole package")
    config = dict(read_json(stored / "config.json"))
    layers = config.get("num_hidden_layers")
    if config.get("model_type") != "llama" or not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
        raise FormatError(f"{stored / 'config.json'}: not the configuration of a Llama model with its number of layers")
    weights = {
        name.removesuffix("_quantized"): _dequantised(graph, name, array)
        for name, array in graph.weights.items()
        if name.removesuffix("_quantized").endswith(("norm.weight", LLAMA_TABLE))
    } | _linear_weights(graph)
    wanted = [f"model.layers.{layer}.{part}.weight" for layer in range(layers) for part in LLAMA_PARTS]
    lost = [name for name in (LLAMA_TABLE, "model.norm.weight", *wanted) if name not in weights]
    if lost or len(weights[LLAMA_TABLE]) != config.get("vocab_size"):
        what = f"no weights for {lost[0]}" if lost else f"{len(weights[LLAMA_TABLE]):,} rows in the word table"
        raise FormatError(f"{path}: {what}, so it does not fit {stored / 'config.json'}", hint=AGAIN)
    tied = "lm_head.weight" not in weights
    return weights, config | {"architectures": ["LlamaForCausalLM"], "tie_word_embeddings": tied, "dtype": "float32"}


def _linear_weights(graph: Graph) -> dict[str, NDArray[np.float32]]:
    """Return the matrices of linear layers, by the nodes that use them."""
    weights = {}
    for node in graph.nodes:
        if node.op not in ("MatMul", "MatMulInteger", "Gemm"):
            continue
        matrices = [name for name in node.inputs[:2] if name in graph.weights and graph.weights[name].ndim == 2]
        module = _module(node.name)
        if not matrices or not module:
            continue
        matrix = _dequantised(graph, matrices[0], graph.weights[matrices[0]])
        kept = node.op == "Gemm" and node.integers.get("transB", 0) == 1
        weights[f"{module}.weight"] = np.ascontiguousarray(matrix if kept else matrix.T)
    return weights


def _module(node: str) -> str:
    """Return the path of the module that a node belongs to: /bert/pooler/dense/Gemm is bert.pooler.dense."""
    return ".".join(node.strip("/").split("/")[:-1])


def _dequantised(graph: Graph, name: str, array: GraphArray) -> NDArray[np.float32]:
    if not name.endswith("_quantized"):
        return np.ascontiguousarray(array, dtype=np.float32)
    stem = name.removesuffix("_quantized")
    numbers = [graph.weights.get(f"{stem}_{part}") for part in ("scale", "zero_point")]
    for part, values in zip(("scale", "zero_point"), numbers, strict=True):
        # One number for the matrix, or one for each column.
        if values is None or (values.size != 1 and values.shape != array.shape[-1:]):
            raise FormatError(f"{graph.path}: no {stem}_{part} that fits the 8-bit weights {name!r}", hint=AGAIN)
    scale, zero = (np.asarray(values, dtype=np.float32).reshape(-1) for values in numbers)
    return np.asarray((array.astype(np.float32) - zero) * scale, dtype=np.float32).reshape(array.shape)


def _config(
    graph: Graph, weights: dict[str, NDArray[np.float32]], path: Path, labels: Sequence[str]
) -> dict[str, object]:
    """Return the configuration: that of a config.json beside the file, else what the weights show."""
    classes = weights.get("classifier.bias")
    if labels and (classes is None or len(labels) != len(classes)):
        count = "no labels" if classes is None else f"{len(classes)} labels"
        raise UsageError(f"{len(labels)} labels were given, and the model has {count}", hint="name one for each output")
    table = _part(weights, "word_embeddings.weight", 2, path)
    layers = {match[1] for name in weights if (match := LAYER.search(name))}
    inner = _part(weights, "intermediate.dense.bias", 1, path)
    positions = _part(weights, "position_embeddings.weight", 2, path)
    types = table[:2]
    if any(name.endswith("token_type_embeddings.weight") for name in weights):
        types = _part(weights, "token_type_embeddings.weight", 2, path)
    stored = next((p for p in (path.parent, path.parent.parent) if (p / "config.json").is_file()), None)
    config: dict[str, object] = dict(read_json(stored / "config.json")) if stored else {"hidden_act": "gelu"}
    sizes: dict[str, object] = {
        "model_type": "bert",
        "architectures": ["BertModel" if classes is None else "BertForSequenceClassification"],
        "vocab_size": len(table),
        "hidden_size": table.shape[1],
        "num_hidden_layers": len(layers),
        "intermediate_size": len(inner),
        "max_position_embeddings": len(positions),
        "type_vocab_size": len(types),
    }
    for name, value in sizes.items():
        if name not in ("model_type", "architectures") and config.get(name, value) != value:
            raise FormatError(f"{path}: {name} is {value} in the weights and {config[name]} in config.json")
    if "num_attention_heads" not in config:
        config["num_attention_heads"] = _heads(graph, table.shape[1], path)
    if classes is not None:
        names = list(labels) or [f"LABEL_{number}" for number in range(len(classes))]
        sizes["id2label"] = {str(number): name for number, name in enumerate(names)}
        sizes["label2id"] = {name: number for number, name in enumerate(names)}
    return config | sizes


def _part(weights: dict[str, NDArray[np.float32]], name: str, dimensions: int, path: Path) -> NDArray[np.float32]:
    """Return the first array whose name ends so."""
    part = next((array for full, array in weights.items() if full.endswith(name)), None)
    if part is None or part.ndim != dimensions:
        what = "no" if part is None else f"{part.ndim} dimensions instead of {dimensions} in"
        raise FormatError(f"{path}: {what} {name}, so it is not an exported BERT model", hint=AGAIN)
    return part


def _heads(graph: Graph, width: int, path: Path) -> int:
    """Return the number of attention heads, which is a constant in the shape that queries are given."""
    constants = {
        node.outputs[0]: int(node.constant.ravel()[0])
        for node in graph.nodes
        if node.outputs and node.constant is not None and node.constant.size == 1 and node.constant.dtype.kind in "iu"
    }
    for node in graph.nodes:
        if node.op == "Concat" and "attention/self" in node.name and len(node.inputs) == 4:
            heads, size = (constants.get(name, 0) for name in node.inputs[2:])
            if heads * size == width:
                return heads
    raise FormatError(f"{path}: the number of attention heads is not in the graph", hint="put config.json beside it")


def _tokenizer_files(path: Path) -> list[Path]:
    for folder in (path.parent, path.parent.parent):
        if (folder / "vocab.txt").is_file() or (folder / "tokenizer.json").is_file():
            files = [folder / name for name in TOKENIZER_FILES if (folder / name).is_file()]
            if foreign := [file for file in files if not is_own_file(file, folder)]:
                raise FormatError(
                    f"{foreign[0]} is a link that leads out of the folder, and it would be copied",
                    hint="replace the link by the file",
                )
            return files
    raise InputMissingError(
        f"{path}: neither vocab.txt nor tokenizer.json is beside it", hint="fetch the whole package"
    )


def _vocabulary(files: Sequence[Path]) -> list[str]:
    vocabulary = next((file for file in files if file.name == "vocab.txt"), None)
    try:
        return vocabulary.read_text(encoding="utf-8").split("\n") if vocabulary else []
    except UnicodeDecodeError as error:
        raise FormatError(f"{vocabulary} is not UTF-8 text", hint=AGAIN) from error


# The protobuf messages ---------------------------------------------------------------------------------------------

Value: TypeAlias = memoryview | int  # of a field: the bytes of a text or message, or an integer


def read_graph(path: Path) -> Graph:
    """Read the nodes and weights of an ONNX file.

    Raises:
        FormatError: If it is damaged, or its weights lie in another file.
    """
    try:
        (graph,) = _fields(memoryview(path.read_bytes()))[7]
        fields = _fields(_bytes(graph))
        nodes = [_node(_bytes(part)) for part in fields[1]]
        tensors = [_tensor(_bytes(part)) for part in fields[5]]
    except FormatError as error:
        raise FormatError(f"{path}: {error.message}", hint=error.hint) from error
    except (ValueError, IndexError, TypeError, OSError, UnicodeDecodeError) as error:
        raise FormatError(f"{path} is not an ONNX file, or is damaged", hint=AGAIN) from error
    return Graph(path, nodes, dict(tensors))


def _fields(data: memoryview) -> defaultdict[int, list[Value]]:
    """Return the values of each field of a message, by the number of the field."""
    fields: defaultdict[int, list[Value]] = defaultdict(list)
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, place = _varint(data, place)
            fields[number].append(value)
            continue
        length = {1: 8, 5: 4}.get(kind, -1)
        if kind == 2:
            length, place = _varint(data, place)
        if length < 0 or place + length > len(data):
            raise ValueError("a field is longer than its message")
        fields[number].append(data[place : place + length])
        place += length
    return fields


def _varint(data: memoryview, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, place
        if shift > 63:
            raise ValueError("a number is too long")


def _bytes(value: Value) -> memoryview:
    if isinstance(value, int):
        raise TypeError("a number where a message is expected")
    return value


def _texts(values: Sequence[Value]) -> list[str]:
    return [bytes(_bytes(value)).decode() for value in values]


def _integers(values: Sequence[Value]) -> list[int]:
    """Return integers, single or in packed lists; negative ones are stored as 64-bit two's complements."""
    numbers = []
    for value in values:
        place = 0
        if isinstance(value, int):
            numbers.append(value)
            continue
        while place < len(value):
            number, place = _varint(value, place)
            numbers.append(number)
    return [number - (1 << 64) if number >= 1 << 63 else number for number in numbers]


def _node(data: memoryview) -> Node:
    fields = _fields(data)
    node = Node("".join(_texts(fields[4][-1:])), "".join(_texts(fields[3][-1:])), _texts(fields[1]), _texts(fields[2]))
    for attribute in map(_fields, map(_bytes, fields[5])):
        (name,) = _texts(attribute[1][-1:]) or [""]
        for value in attribute[3]:
            if isinstance(value, int):
                node.integers[name] = value
        if node.op in ("Constant", ""):
            for tensor in attribute[5]:
                node.constant = _tensor(_bytes(tensor))[1]
    return node


def _tensor(data: memoryview) -> tuple[str, GraphArray]:
    fields = _fields(data)
    if EXTERNAL in fields[14]:
        raise FormatError("the weights lie in another file, which is not read", hint="export the model as one file")
    name, shape = "".join(_texts(fields[8][-1:])), _integers(fields[1])
    (kind,) = _integers(fields[2][-1:]) or [1]
    if kind not in TYPES:
        return name, np.zeros(0, dtype=np.float32)  # texts and the like, which no weight is
    dtype = np.dtype(TYPES[kind]).newbyteorder("<")
    if raw := fields[9][-1:]:
        return name, np.frombuffer(_bytes(raw[0]), dtype=dtype).reshape(shape)
    floats = [number for part in fields[FLOATS] for number in np.frombuffer(_bytes(part), dtype="<f4").tolist()]
    return name, np.array([*floats, *_integers(fields[INTEGERS]), *_integers(fields[LONGS])], dtype=dtype).reshape(
        shape
    )
