"""Files of llama2.c: layout, conversion into a folder, and what damaged files say."""

import struct
from pathlib import Path

import numpy as np
import pytest

from evenhand.errors import FormatError, InputMissingError, OutputError
from evenhand.models.lm.llama2c import convert_llama2c, is_llama2c, read_sizes, read_weights, split_halves
from evenhand.models.lm.llama_tokenizer import merges_of

WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, WINDOW = 8, 6, 2, 2, 1, 16
WORDS = [" ", "h", "e", "s", "he", " he", "she", " she"]
PIECES = 3 + 256 + len(WORDS)


def tokenizer_bytes() -> bytes:
    names = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(bytes([i]) for i in range(256)), *(word.encode() for word in WORDS)]
    # " she" is merged before "she", which is merged before " he".
    scores = [0.0] * (3 + 256 + 4) + [-1.0, -4.0, -3.0, -2.0]
    entries = (struct.pack("<fi", score, len(name)) + name for name, score in zip(names, scores, strict=True))
    return struct.pack("<i", 27) + b"".join(entries)


def weight_arrays(rng: np.random.Generator, *, shared: bool) -> list[np.ndarray]:
    head, keys = WIDTH // HEADS, WIDTH // HEADS * KEY_HEADS
    shapes = [
        (PIECES, WIDTH), (LAYERS, WIDTH), (LAYERS, WIDTH, WIDTH), (LAYERS, keys, WIDTH), (LAYERS, keys, WIDTH),
        (LAYERS, WIDTH, WIDTH), (LAYERS, WIDTH), (LAYERS, INNER, WIDTH), (LAYERS, WIDTH, INNER),
        (LAYERS, INNER, WIDTH), (WIDTH,), (WINDOW, head // 2), (WINDOW, head // 2),
    ]  # fmt: skip
    shapes += [] if shared else [(PIECES, WIDTH)]
    return [rng.normal(size=shape).astype("<f4") for shape in shapes]


def write_model(path: Path, *, shared: bool = True, tokenizer: bool = True) -> list[np.ndarray]:
    arrays = weight_arrays(np.random.default_rng(0), shared=shared)
    sizes = (WIDTH, INNER, LAYERS, HEADS, KEY_HEADS, PIECES if shared else -PIECES, WINDOW)
    content = struct.pack("<7i", *sizes) + b"".join(array.tobytes() for array in arrays)
    path.write_bytes(content + (tokenizer_bytes() if tokenizer else b""))
    return arrays


def llama2c_logits(arrays: list[np.ndarray], ids: list[int], *, shared: bool) -> np.ndarray:
    """The model as llama2.c computes it, one position after another, with rotations of neighbours."""
    table, norm1, wq, wk, wv, wo, norm2, w1, w2, w3, final, *rest = (array.astype(np.float64) for array in arrays)
    head = WIDTH // HEADS

    def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return weight * x / np.sqrt((x * x).mean() + 1e-5)

    def rotate(x: np.ndarray, position: int) -> np.ndarray:
        out = x.copy()
        for i in range(0, len(x), 2):
            angle = position / 10000 ** ((i % head) / head)
            out[i] = x[i] * np.cos(angle) - x[i + 1] * np.sin(angle)
            out[i + 1] = x[i] * np.sin(angle) + x[i + 1] * np.cos(angle)
        return out

    keys: list[list[np.ndarray]] = [[] for _ in range(LAYERS)]
    values: list[list[np.ndarray]] = [[] for _ in range(LAYERS)]
    logits = []
    for position, id in enumerate(ids):
        x = table[id]
        for layer in range(LAYERS):
            h = norm(x, norm1[layer])
            query = rotate(wq[layer] @ h, position)
            keys[layer].append(rotate(wk[layer] @ h, position))
            values[layer].append(wv[layer] @ h)
            mixed = []
            for number in range(HEADS):
                own = slice(number * head, (number + 1) * head)
                shared_head = slice(number // (HEADS // KEY_HEADS) * head, (number // (HEADS // KEY_HEADS) + 1) * head)
                scores = np.array([query[own] @ key[shared_head] for key in keys[layer]]) / np.sqrt(head)
                weights = np.exp(scores - scores.max())
                weights /= weights.sum()
                mixed.append(sum(w * value[shared_head] for w, value in zip(weights, values[layer], strict=True)))
            x = x + wo[layer] @ np.concatenate(mixed)
            h = norm(x, norm2[layer])
            gate = w1[layer] @ h
            x = x + w2[layer] @ (gate / (1 + np.exp(-gate)) * (w3[layer] @ h))
        logits.append((table if shared else rest[-1]) @ norm(x, final))
    return np.array(logits)


@pytest.mark.parametrize("shared", [True, False])
def test_the_folder_computes_what_llama2c_computes(tmp_path: Path, shared: bool) -> None:
    torch = pytest.importorskip("torch")
    from evenhand.models.huggingface import load_model, load_tokenizer

    arrays = write_model(tmp_path / "m.bin", shared=shared)
    out = convert_llama2c(tmp_path / "m.bin", tmp_path / "out")
    model, tokenizer = load_model(out).model, load_tokenizer(out)
    ids = [1, *tokenizer.encode("she he", add_special_tokens=False)]
    with torch.no_grad():
        found = model(torch.tensor([ids])).logits[0].numpy()
    np.testing.assert_allclose(found, llama2c_logits(arrays, ids, shared=shared), atol=2e-4)


def test_pieces_are_merged_by_score(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from evenhand.models.huggingface import load_tokenizer

    write_model(tmp_path / "m.bin", tokenizer=False)
    (tmp_path / "tokenizer.bin").write_bytes(tokenizer_bytes())
    tokenizer = load_tokenizer(convert_llama2c(tmp_path / "m.bin", tmp_path / "out"))
    assert tokenizer.tokenize("she he she") == ["▁she", "▁he", "▁she"]
    assert tokenizer.tokenize("é") == ["▁", "<0xC3>", "<0xA9>"]
    assert tokenizer.decode(tokenizer.encode("she héhe", add_special_tokens=False)) == "she héhe"
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id) == (1, 2)


def test_merges_leave_out_special_pieces() -> None:
    assert merges_of(["<s>", "<", "s>", "a", "aa"], [0, 0, 0, 0, -1], special=[0]) == [("a", "a")]


def test_rotated_halves_by_hand() -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]
    assert split_halves(rows, 2)[:, 0].tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


def test_weights_are_read_without_torch(tmp_path: Path) -> None:
    arrays = write_model(tmp_path / "m.bin", shared=False)
    weights = read_weights(tmp_path / "m.bin", read_sizes(tmp_path / "m.bin"))
    np.testing.assert_array_equal(weights["model.layers.1.mlp.down_proj.weight"], arrays[8][1])
    np.testing.assert_array_equal(weights["lm_head.weight"], arrays[-1])
    assert len(weights) == 3 + 9 * LAYERS


def test_bad_files_say_what_is_wrong(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "m.bin"
    write_model(path)
    whole = path.read_bytes()
    assert is_llama2c(path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(OutputError, match="not empty"):
        convert_llama2c(path, tmp_path / "full")
    end = read_sizes(path).bytes
    for cut, says in ((10, "too short"), (end - 4, "bytes, and a model"), (end + 9, "pieces, and the model has")):
        path.write_bytes(whole[:cut])
        with pytest.raises(FormatError, match=says):
            convert_llama2c(path, tmp_path / "out")
    for sizes in ((0, 1, 1, 1, 1, 1, 1), (8, 6, 2, 3, 1, 270, 16), (8, 6, 2**30, 2, 1, 270, 16)):
        path.write_bytes(struct.pack("<7i", *sizes) + whole[28:])
        assert not is_llama2c(path)
    path.write_bytes(whole[:28] + struct.pack("<f", float("nan")) + whole[32:])
    with pytest.raises(FormatError, match="table have values that are not numbers"):
        convert_llama2c(path, tmp_path / "out")
    path.write_bytes(whole[: end + 8] + struct.pack("<i", -5) + whole[end + 12 :])
    with pytest.raises(FormatError, match="piece 0 is damaged"):
        convert_llama2c(path, tmp_path / "out")
    path.write_bytes(whole[:end])
    with pytest.raises(InputMissingError, match=r"tokenizer\.bin"):
        convert_llama2c(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_convert_takes_files_of_llama2c_and_gives_others_to_the_vector_formats(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    from typer.testing import CliRunner

    from evenhand.cli import app

    write_model(tmp_path / "m.bin")
    result = CliRunner().invoke(app, ["convert", str(tmp_path / "m.bin"), str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0
    assert (tmp_path / "out" / "model.safetensors").is_file()
    labelled = CliRunner().invoke(
        app, ["convert", str(tmp_path / "m.bin"), str(tmp_path / "other"), "--labels", "no,yes"]
    )
    assert labelled.exit_code == 2
    assert "--labels applies to classifiers" in labelled.stderr
    vectors = tmp_path / "v.bin"
    vectors.write_bytes(b"2 2\n" + b"".join(word + struct.pack("<2f", 1, 2) for word in (b"a ", b"b ")))
    result = CliRunner().invoke(app, ["convert", str(vectors), str(tmp_path / "v.txt")])
    assert result.exit_code == 0
    assert (tmp_path / "v.txt").read_text().startswith("a ")
