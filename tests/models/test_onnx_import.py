"""ONNX files of BERT models become Hugging Face folders. The tests write such files themselves."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import evenhand as eh
from evenhand.errors import FormatError, InputMissingError, OutputError, UsageError
from evenhand.models.onnx_import import bert_weights, import_onnx, read_graph


def varint(value: int) -> bytes:
    value %= 1 << 64
    out = b""
    while True:
        value, low = value >> 7, value & 127
        if not value:
            return out + bytes([low])
        out += bytes([low | 128])


def part(number: int, value: int | str | bytes) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def tensor(name: str, array: np.ndarray, *, raw: bool = True) -> bytes:
    kinds = {"float32": 1, "uint8": 2, "int8": 3, "int64": 7}
    head = b"".join(part(1, size) for size in array.shape) + part(2, kinds[str(array.dtype)]) + part(8, name)
    if raw:
        return head + part(9, array.tobytes())
    values = array.tobytes() if array.dtype == np.float32 else b"".join(varint(int(value)) for value in array.ravel())
    return head + part(4 if array.dtype == np.float32 else 5, values)


def node(op: str, name: str, inputs: list[str], outputs: list[str], **attributes: int | bytes) -> bytes:
    body = b"".join(part(1, text) for text in inputs) + b"".join(part(2, text) for text in outputs)
    body += part(3, name) + part(4, op)
    for key, value in attributes.items():
        body += part(5, part(1, key) + (part(3, value) if isinstance(value, int) else part(5, value)))
    return body


def onnx_file(path: Path, weights: dict[str, np.ndarray], *, heads: int, quantise: bool = False) -> Path:
    """Write the weights as an exporter does: those of linear layers renamed, transposed, and used by a named node."""
    graph = b""
    width = next(array.shape[1] for name, array in weights.items() if name.endswith("word_embeddings.weight"))
    for number, (name, array) in enumerate(weights.items()):
        linear = name.endswith("weight") and array.ndim == 2 and "embeddings" not in name
        gemm = linear and ("pooler" in name or "classifier" in name) and not quantise
        stored = np.ascontiguousarray(array.T if linear and not gemm else array)
        label = name if not linear or gemm else f"onnx::MatMul_{number}"
        if quantise and array.ndim == 2:
            scale = np.float32(np.abs(stored).max() / 127)
            kind = np.int8 if linear else np.uint8
            zero = 0 if linear else 128
            packed = (np.clip(np.round(stored / scale), -127, 127) + zero).astype(kind)
            graph += part(5, tensor(f"{label}_quantized", packed))
            graph += part(5, tensor(f"{label}_scale", np.array(scale), raw=False))
            graph += part(5, tensor(f"{label}_zero_point", np.array(zero, dtype=kind), raw=False))
            label = f"{label}_quantized"
        else:
            graph += part(5, tensor(label, stored))
        if linear:
            op = "Gemm" if gemm else "MatMulInteger" if quantise else "MatMul"
            module = name.removesuffix(".weight").replace(".layer.", ".layer@").replace(".", "/").replace("@", ".")
            attributes = {"transB": 1} if gemm else {}
            graph += part(1, node(op, f"/{module}/{op}", ["x", label], ["y"], **attributes))
    for key, size in (("h", heads), ("d", width // heads)):
        graph += part(1, node("Constant", key, [], [key], value=tensor("", np.array([size], dtype=np.int64))))
    graph += part(1, node("Concat", "/encoder/layer.0/attention/self/Concat", ["b", "s", "h", "d"], ["shape"]))
    path.write_bytes(part(1, 8) + part(7, graph))
    return path


@pytest.fixture
def stored(tiny_folder: Callable[..., Path]) -> tuple[Path, dict[str, np.ndarray]]:
    pytest.importorskip("torch")
    numpy_files = pytest.importorskip("safetensors.numpy")
    folder = tiny_folder("BertForSequenceClassification", id2label={0: "no", 1: "yes"}, label2id={"no": 0, "yes": 1})
    return folder, numpy_files.load_file(folder / "model.safetensors")


def beside(folder: Path, where: Path) -> Path:
    where.mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (where / name).write_bytes((folder / name).read_bytes())
    return where


def test_the_folder_predicts_what_the_original_does(stored: tuple[Path, dict[str, np.ndarray]], tmp_path: Path) -> None:
    folder, weights = stored
    source = beside(folder, tmp_path / "source")
    onnx_file(source / "model.onnx", weights, heads=2)
    out = import_onnx(source, tmp_path / "out", labels=["no", "yes"])
    texts = ["she is a nurse", "the doctor said that he was bad"]
    before, after = (eh.open(f"hf:{each}").view("labels") for each in (folder, out))
    assert after.labels == ("no", "yes")
    np.testing.assert_allclose(after.predict(texts), before.predict(texts), atol=1e-6)


def test_eight_bits_are_converted_within_half_a_step(
    stored: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    _, weights = stored
    path = onnx_file(tmp_path / "model.onnx", weights, heads=2, quantise=True)
    found = bert_weights(read_graph(path), path)
    assert set(found) == set(weights)
    for name, array in weights.items():
        step = np.abs(array).max() / 127 if array.ndim == 2 else 0
        assert np.abs(found[name] - array).max() <= step * 0.51 + 1e-7


def test_bad_files_are_refused(stored: tuple[Path, dict[str, np.ndarray]], tmp_path: Path) -> None:
    folder, weights = stored
    source = beside(folder, tmp_path / "source")
    path = onnx_file(source / "model.onnx", weights, heads=2)
    with pytest.raises(UsageError, match="3 labels were given, and the model has 2"):
        import_onnx(path, tmp_path / "a", labels=["a", "b", "c"])
    data = path.read_bytes()
    for broken in (data[:-7], b"", b"\xff" * 40, data[5:]):
        path.write_bytes(broken)
        with pytest.raises(FormatError):
            import_onnx(path, tmp_path / "b")
    lost = {name: array for name, array in weights.items() if "query.weight" not in name}
    with pytest.raises(FormatError, match=r"no weights for .*query\.weight"):
        import_onnx(onnx_file(path, lost, heads=2), tmp_path / "c")
    onnx_file(tmp_path / "alone.onnx", weights, heads=2)
    with pytest.raises(InputMissingError, match=r"neither vocab\.txt nor tokenizer\.json"):
        import_onnx(tmp_path / "alone.onnx", tmp_path / "d")
    with pytest.raises(InputMissingError, match=r"one \.onnx file is needed, found none"):
        import_onnx(folder, tmp_path / "e")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(OutputError, match="exists and is not empty"):
        import_onnx(onnx_file(path, weights, heads=2), tmp_path / "full")


def test_a_tokenizer_file_that_is_a_link_out_of_the_folder_is_not_copied(
    stored: tuple[Path, dict[str, np.ndarray]], tmp_path: Path
) -> None:
    _, weights = stored
    (tmp_path / "private").write_text("mine")
    (tmp_path / "model").mkdir()
    onnx_file(tmp_path / "model" / "model.onnx", weights, heads=2)
    (tmp_path / "model" / "vocab.txt").symlink_to(tmp_path / "private")
    with pytest.raises(FormatError, match=r"vocab\.txt is a link that leads out of the folder"):
        import_onnx(tmp_path / "model", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_onnx_model_is_named_where_it_cannot_be_opened(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(b"")
    for address in (tmp_path, tmp_path / "model.onnx"):
        with pytest.raises(UsageError, match="must be converted first"):
            eh.open(str(address))


def llama_file(path: Path, weights: dict[str, np.ndarray]) -> Path:
    """Write a Llama model as an exporter does: layers keep their dots, and linear layers are renamed and transposed."""
    graph = b""
    for number, (name, array) in enumerate(weights.items()):
        linear = array.ndim == 2 and "embed_tokens" not in name
        label = f"onnx::MatMul_{number}" if linear else name
        graph += part(5, tensor(label, np.ascontiguousarray(array.T if linear else array)))
        if linear:
            module = name.removesuffix(".weight").replace("layers.", "layers@").replace(".", "/").replace("@", ".")
            graph += part(1, node("MatMul", f"/{module}/MatMul", ["x", label], ["y"]))
    path.write_bytes(part(1, 8) + part(7, graph))
    return path


def test_a_llama_model_predicts_what_the_original_does(tiny_folder: Callable[..., Path], tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    numpy_files = pytest.importorskip("safetensors.numpy")
    from evenhand.models.encoders.transformer import load_model

    folder = tiny_folder("LlamaForCausalLM")
    weights = numpy_files.load_file(folder / "model.safetensors")
    source = beside(folder, tmp_path / "source")
    path = llama_file(source / "model.onnx", weights)
    with pytest.raises(InputMissingError, match=r"no config\.json"):
        import_onnx(path, tmp_path / "out")
    (source / "config.json").write_bytes((folder / "config.json").read_bytes())
    out = import_onnx(source, tmp_path / "out")
    ids = torch.tensor([[1, 5, 7, 2, 9, 3]])
    with torch.no_grad():
        before, after = (load_model(place, "causal-lm").model(ids).logits for place in (folder, out))
    torch.testing.assert_close(after, before)
    with pytest.raises(UsageError, match="labels apply to classifiers"):
        import_onnx(source, tmp_path / "labelled", labels=["no", "yes"])
    lost = {name: array for name, array in weights.items() if "down_proj" not in name}
    llama_file(path, lost)
    with pytest.raises(FormatError, match=r"no weights for model\.layers\.0\.mlp\.down_proj"):
        import_onnx(source, tmp_path / "lost")
    (source / "config.json").write_text('{"model_type": "llama", "num_hidden_layers": 0}')
    with pytest.raises(FormatError, match="not the configuration of a Llama model"):
        import_onnx(source, tmp_path / "odd")
