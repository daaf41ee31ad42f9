"""Weights of a biLM in 6 to 7 bits a number, to carry them; and back to a folder that evenhand opens.

    python scripts/elmo_pack.py PACKED FOLDER

PACKED holds weights.json, weights.N.bin and bilm.json, as elmo_bilm.py writes them. A large array is cut into blocks of
512 numbers along its last axis; each block is rounded to multiples of a twentieth of its root mean square, and the
integers are Huffman-coded. Small arrays, and numbers beyond 127 steps, stay in half precision.
FOLDER gets options.json and weights.safetensors in half precision: `elmo:FOLDER`.
"""

import argparse
import json
import zlib
from pathlib import Path

import numpy as np

from evenhand.models.encoders.elmo.files import ElmoOptions, save_model

BLOCK, LEVELS, SMALL = 512, 20, 100_000
LARGEST_FILE = 15 * 2**20

Arrays = dict[str, np.ndarray]


def quantise(array: np.ndarray) -> list[np.ndarray]:
    """Return the steps of the blocks, the integers, and places and values of the numbers that are kept as they are."""
    blocks = array.reshape(-1, min(BLOCK, array.shape[-1])).astype(np.float32)
    steps = np.maximum(np.sqrt((blocks**2).mean(1, keepdims=True)) / LEVELS, 1e-7).astype(np.float16)
    integers = np.rint(blocks / steps.astype(np.float32))
    far = np.flatnonzero(np.abs(integers) > 127)
    return [steps, integers.clip(-127, 127).astype(np.int8), far.astype("<u4"), blocks.ravel()[far].astype(np.float16)]


def huffman(data: bytes) -> bytes:
    """Compress by the frequencies of bytes alone."""
    coder = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_HUFFMAN_ONLY)
    return coder.compress(data) + coder.flush()


def write_packed(folder: Path, arrays: Arrays) -> dict[str, int]:
    """Write arrays into files of at most 15 MiB; return their sizes in bytes."""
    parts, index = [], []
    for name, array in arrays.items():
        entry: dict[str, object] = {"name": name, "shape": list(array.shape)}
        pieces = [array.astype(np.float16).tobytes()]
        if array.size > SMALL:
            if array.shape[-1] % min(BLOCK, array.shape[-1]):
                raise ValueError(f"{name}: the last axis of {array.shape} is not a multiple of {BLOCK}")
            steps, integers, places, values = quantise(array)
            pieces = [steps.tobytes(), huffman(integers.tobytes()), places.tobytes(), values.tobytes()]
        parts += pieces
        index.append({**entry, "pieces": [len(piece) for piece in pieces]})
    data = b"".join(parts)
    files = {f"weights.{n}.bin": data[at : at + LARGEST_FILE] for n, at in enumerate(range(0, len(data), LARGEST_FILE))}
    files["weights.json"] = json.dumps(index).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {name: len(content) for name, content in files.items()}


def load_packed(folder: Path) -> Arrays:
    """Read what `write_packed` wrote."""
    paths = sorted(folder.glob("weights.*.bin"), key=lambda path: int(path.name.split(".")[1]))
    data, at, arrays = b"".join(path.read_bytes() for path in paths), 0, {}
    for entry in json.loads((folder / "weights.json").read_text()):
        pieces = []
        for size in entry["pieces"]:
            pieces.append(data[at : at + size])
            at += size
        if len(pieces) == 1:
            array = np.frombuffer(pieces[0], np.float16).astype(np.float32)
        else:
            steps = np.frombuffer(pieces[0], np.float16).astype(np.float32)[:, None]
            integers = np.frombuffer(zlib.decompress(pieces[1], -15), np.int8)
            array = (integers.reshape(len(steps), -1) * steps).astype(np.float16).ravel()
            array[np.frombuffer(pieces[2], "<u4")] = np.frombuffer(pieces[3], np.float16)
            array = array.astype(np.float32)
        arrays[entry["name"]] = array.reshape(entry["shape"])
    if at != len(data):
        raise ValueError(
            f"{folder}: {len(data)} bytes of weights, expected {at}: a file is missing or of another model"
        )
    return arrays


def main() -> None:
    """Write a folder that evenhand opens."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packed", type=Path)
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    record = json.loads((given.packed / "bilm.json").read_text())
    about = {name: record[name] for name in ("settings", "sentences", "tokens", "created")}
    about["perplexity"] = record["packed"]["perplexity"]
    arrays = load_packed(given.packed)
    save_model(given.folder, ElmoOptions.from_dict(record["options"]), arrays, dtype="float16", about=about)
    print(f"{given.folder}: {sum(array.size for array in arrays.values()):,} weights")


if __name__ == "__main__":
    main()
