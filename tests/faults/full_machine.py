"""A machine on one small disk: home, temporary files, cache and results share it, and commands run as it fills.

`python tests/faults/full_machine.py FOLDER` prints what happened as a line of JSON, and returns 77 where nothing can be
mounted. For each command the room that is left is first nothing and then more and more, in processes of their own, until it
succeeds; a refusal must be a sentence, the earlier result must stay, and the command that follows more room must succeed.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import fault_injection
from fault_scenario import write_corpus, write_vectors

COMMANDS = {
    "run/audit.json": ("audit", "in.txt", "--measure", "direct-bias", "-m", "linear", "-o", "run"),
    "out.vec": ("debias", "in.txt", "--method", "linear", "-o", "out.vec", "--overwrite"),
    "counts/audit.json": ("corpus", "bias", "texts", "--bootstrap", "0", "--permutations", "0", "-o", "counts"),
}  # fmt: skip
ROOMS = (0, 2, 8, 1000)  # pages of 4096 bytes


def main() -> int:
    """Run everything in mounts that no other process sees."""
    disk = Path(sys.argv[1]) / "disk"
    disk.mkdir(parents=True)
    if not fault_injection.own_mounts():
        return 77
    fault_injection.mount("-t", "tmpfs", "-o", "size=64m", "none", str(disk))
    begun, problems, codes = time.monotonic(), list[str](), list[int]()
    for name in ("home", "tmp", "cache"):
        (disk / name).mkdir()
    write_corpus(disk, 1)
    for result, command in COMMANDS.items():
        write_vectors(disk / "in.txt", 1)
        first = _run(disk, command)
        if first.returncode:
            problems.append(f"{command[0]} with room: {first.stderr[-500:]}")
            continue
        write_vectors(disk / "in.txt", 2)
        (disk / "texts" / "0.txt").write_text("She is a nurse.\n" * 50)
        problems += _fill(disk, disk / result, command, codes)
    if not any(codes):
        problems.append("the disk was never full")
    seconds = round(time.monotonic() - begun)
    found = {"scenario": "full-machine", "trials": {"disk": len(codes)}, "problems": problems, "seconds": seconds}
    sys.stdout.write(json.dumps(found) + "\n")
    return 0


def _fill(disk: Path, result: Path, command: tuple[str, ...], codes: list[int]) -> list[str]:
    """Run a command with more and more room until it succeeds, then with enough; return what was wrong."""
    problems, earlier = list[str](), _digest(result)
    for room in ROOMS:
        _leave(disk, room)
        done = _run(disk, command)
        fault_injection.mount("-o", "remount,size=64m", str(disk))
        codes.append(done.returncode)
        where = f"{command[0]}, {room} pages, exit {done.returncode}:"
        if done.returncode not in (0, 1, 4) or "Traceback" in done.stderr:
            problems.append(f"{where} {done.stderr[-500:]}")
        elif _digest(result) != earlier and not _is_whole(result):
            problems.append(f"{where} half a result")
        if not done.returncode:
            break
    again = _run(disk, command)
    if again.returncode or _digest(result) == earlier:
        problems.append(f"{command[0]} afterwards: exit {again.returncode} {again.stderr[-500:]}")
    left = [str(path) for path in disk.rglob("*.partial")]
    return [*problems, f"{command[0]} left {left}"] if left else problems


def _is_whole(result: Path) -> bool:
    """Return whether the result that was written in place of the earlier one can be read."""
    import evenhand as eh

    try:
        eh.Audit.load(result.parent) if result.suffix == ".json" else eh.Vectors.load(result, cache=False)
    except (OSError, eh.errors.EvenhandError):
        return False
    return True


def _leave(disk: Path, pages: int) -> None:
    """Shrink the disk to what it holds and a few pages more."""
    stat = os.statvfs(disk)
    used = (stat.f_blocks - stat.f_bfree) * stat.f_frsize
    fault_injection.mount("-o", f"remount,size={used + 4096 * max(pages, 0) or 4096}", str(disk))


def _run(disk: Path, command: tuple[str, ...]) -> subprocess.CompletedProcess[str]:
    places = {"HOME": str(disk / "home"), "TMPDIR": str(disk / "tmp"), "EVENHAND_CACHE": str(disk / "cache")}
    variables = {
        **os.environ,
        **places,
        "XDG_CACHE_HOME": str(disk / "cache"),
        "EVENHAND_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [sys.executable, "-m", "evenhand", *command],
        cwd=disk,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())
