"""Cut the models of the catalog and the data sets of an audit into parts of limited size, and put them together again.

    EVENHAND_DATA=folder python scripts/catalog_carry.py pack OUT [MODEL ...]     # OUT/part-00, part-01, ...
    python scripts/catalog_carry.py unpack CARRY WORK                             # one part into a working folder

`pack` writes one stream of files (data sets first, then the models in the order of MODELS) in parts of at most 43 MiB.
Each part is a folder with a slice of the stream and the list of all files, so any part can travel by itself. `unpack`
keeps a part in WORK/parts and writes every file that is complete: data sets to WORK/data, models to WORK/models.
Encoders travel in float16, a GGUF file as it is; it becomes a Hugging Face folder on arrival.
"""

import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

PART = 43 * 2**20  # bytes
MODELS = ("stories15m", "smollm2-135m", "gte-small", "all-minilm-l6-v2", "tinyllama-1b")
DATA = "data"
SETS = (
    "crows-pairs", "stereoset", "winobias", "winogender", "winogenerated", "bbq", "honest", "hurtlex", "holistic-bias",
    "grep-biasir", "seat", "wikitext-2", "sembias", "ws-353", "men", "mturk-287", "mturk-771", "simlex-999", "rw",
    "google-analogies", "msr-analogies",
)  # fmt: skip
LIST = "parts.json"


def pack(out: Path, models: list[str]) -> None:
    """Write all parts."""
    from evenhand import data

    content: dict[str, bytes] = {f"{DATA}.tar.xz": _packed_data()}
    for name in models:
        source = data.fetch(name)
        files = [source] if source.is_file() else sorted(source.rglob("*.gguf"))
        if files and files[0].suffix == ".gguf":
            content[f"{name}.gguf"] = files[0].read_bytes()
            continue
        with tempfile.TemporaryDirectory() as folder:
            content[f"{name}.tar"] = _packed_folder(_model_folder(name, source, Path(folder)), name)
    stream, listed, start = b"".join(content.values()), [], 0
    for name, bytes_ in content.items():
        listed.append({"name": name, "start": start, "size": len(bytes_), "sha256": hashlib.sha256(bytes_).hexdigest()})
        start += len(bytes_)
    for number, begin in enumerate(range(0, len(stream), PART)):
        folder = out / f"part-{number:02d}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "slice").write_bytes(stream[begin : begin + PART])
        (folder / LIST).write_text(json.dumps({"part": number, "part_size": PART, "files": listed}, indent=1) + "\n")
        complete = [item["name"] for item in listed if begin < item["start"] + item["size"] <= begin + PART]
        print(f"{folder}: {len(stream[begin : begin + PART]) / 2**20:.1f} MiB; completes {', '.join(complete)}")


def _packed_data() -> bytes:
    """Return the data sets as an archive, at the paths where an EVENHAND_DATA folder has them."""
    from evenhand import data
    from evenhand.data.local_copies import data_path

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name in SETS:
            place = data.locate(name)
            if place is None:
                sys.exit(f"{name} is not on this disk: evenhand fetch {name}")
            archive.add(place, data_path(data.get(name)))
    return lzma.compress(buffer.getvalue(), preset=4)


def _model_folder(name: str, source: Path, scratch: Path) -> Path:
    """Return the Hugging Face folder of a model, converted where the catalog has another format."""
    from evenhand.models.lm.llama2c import convert_llama2c
    from evenhand.models.onnx_import import import_onnx

    if (source / "model.safetensors").is_file():
        return source
    return convert_llama2c(source, scratch / name) if source.is_file() else import_onnx(source, scratch / name)


def _packed_folder(folder: Path, name: str) -> bytes:
    """Return a model folder as an archive, with weights in float16."""
    from safetensors.numpy import load_file, save

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            member = f"{name}/{path.relative_to(folder)}"
            if path.suffix != ".safetensors" and path.is_file() and path.suffix != ".onnx":
                archive.add(path.resolve(), member)
        arrays = load_file(folder / "model.safetensors")
        half = {key: array.astype("<f2") if array.dtype.kind == "f" else array for key, array in arrays.items()}
        weights = save(half, metadata={"format": "pt"})
        entry = tarfile.TarInfo(f"{name}/model.safetensors")
        entry.size = len(weights)
        archive.addfile(entry, io.BytesIO(weights))
    return buffer.getvalue()


def unpack(carried: Path, work: Path) -> list[str]:
    """Keep one part and write all files that are complete; return their names."""
    about = json.loads((carried / LIST).read_text())
    parts, done = work / "parts", work / "unpacked"
    parts.mkdir(parents=True, exist_ok=True)
    done.mkdir(exist_ok=True)
    shutil.copy(carried / "slice", parts / f"{about['part']:02d}")
    written = []
    for item in about["files"]:
        if (done / item["name"]).exists():
            continue
        content = _slice(parts, about["part_size"], item)
        if content is not None:
            _write(item["name"], content, work)
            (done / item["name"]).touch()
            written.append(item["name"])
    return written


def _slice(parts: Path, part_size: int, item: dict[str, Any]) -> bytes | None:
    """Return a file out of the parts at hand; None if one is missing."""
    begin, end = item["start"], item["start"] + item["size"]
    numbers = range(begin // part_size, (end - 1) // part_size + 1)
    if not all((parts / f"{number:02d}").exists() for number in numbers):
        return None
    joined = b"".join((parts / f"{number:02d}").read_bytes() for number in numbers)
    content = joined[begin - numbers[0] * part_size :][: item["size"]]
    if hashlib.sha256(content).hexdigest() != item["sha256"]:
        sys.exit(f"{item['name']} is damaged")
    return content


def _write(name: str, content: bytes, work: Path) -> None:
    if name.endswith(".gguf"):
        from evenhand.models.lm.gguf import convert_gguf

        file = work / name
        file.write_bytes(content)
        convert_gguf(file, work / "models" / name.removesuffix(".gguf"))
        return
    target = work / (DATA if name.startswith(f"{DATA}.") else "models")
    target.mkdir(parents=True, exist_ok=True)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        archive.extractall(target, filter="data")


if __name__ == "__main__":
    if len(sys.argv) >= 3 and sys.argv[1] == "pack":
        os.environ.setdefault("EVENHAND_OFFLINE", "")
        pack(Path(sys.argv[2]), sys.argv[3:] or list(MODELS))
    elif len(sys.argv) == 4 and sys.argv[1] == "unpack":
        print("complete:", ", ".join(unpack(Path(sys.argv[2]), Path(sys.argv[3]))) or "nothing new")
    else:
        sys.exit(__doc__)
