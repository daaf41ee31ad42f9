"""Write `requirements/*.txt`: every package that an installation needs, its version, and the SHA-256 of its files.

`pip install --require-hashes -r requirements/dev.txt` then installs these files and no others. The versions of direct
dependencies are those of `constraints.txt`. All files of a release are listed, for other systems and versions of
Python, from every place where pip looks: a package may come from an index or from a folder of wheels.

    python scripts/lock.py            # all files
    python scripts/lock.py --check    # fails if a direct dependency has another version than constraints.txt says
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "requirements"
# What each file installs beside the core: extras of pyproject.toml. Every one can build the package itself.
FILES = {"core": "", "dev": "dev,docs,models,gensim,ray,japanese,web,endpoint"}
TOOLS = {"release": ["build", "cyclonedx-bom"]}
LINE = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)
HEAD = "# Written by `python scripts/lock.py`. Every file of each release, by its SHA-256.\n"


def plain(name: str) -> str:
    """Return the one spelling of a name."""
    return re.sub(r"[-_.]+", "-", name).lower()


def wanted(name: str) -> list[str]:
    """Return the requirements of a file, and what builds the package."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        content = tomllib.load(file)
    builder: list[str] = content["build-system"]["requires"] + ["editables"]  # hatchling asks for it to link sources
    if name in TOOLS:
        return TOOLS[name] + builder
    project = content["project"]
    lines: list[str] = [*project["dependencies"], *builder]
    for extra in filter(None, FILES[name].split(",")):
        lines += project["optional-dependencies"][extra]
    return lines


def resolve(lines: list[str]) -> dict[str, str]:
    """Return the version of every package that pip would install into an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        listed, report = Path(folder, "in.txt"), Path(folder, "report.json")
        listed.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--report"]
        command += [str(report), "--constraint", str(ROOT / "constraints.txt"), "--requirement", str(listed)]
        subprocess.run(command, check=True)
        found = json.loads(report.read_text())["install"]
    return {plain(item["metadata"]["name"]): item["metadata"]["version"] for item in found}


def hashes(versions: dict[str, str]) -> dict[str, set[str]]:
    """Return the SHA-256 of every file of each release, in all places where pip looks."""
    from pip._internal.commands import create_command
    from pip._internal.index.collector import parse_links

    command: Any = create_command("install")
    options, _ = command.parse_args([])
    found: dict[str, set[str]] = {}
    with command.main_context():
        finder = command._build_package_finder(options, command.get_default_session(options))

        def links(page: Any) -> Iterator[Any]:
            content = finder._link_collector.fetch_response(page)
            return iter(parse_links(content) if content is not None else ())

        for name, version in versions.items():
            sources = finder._link_collector.collect_sources(name, candidates_from_page=links)
            pages = (source for source in (*sources.index_urls, *sources.find_links) if source is not None)
            every = [
                link for source in pages for link in itertools.chain(source.page_candidates(), source.file_links())
            ]
            found[name] = {digest_of(link) for link in every if is_file_of(link.filename, name, version)} - {""}
            if not found[name]:
                raise SystemExit(f"no file of {name} {version} has a SHA-256 in the indexes of pip")
    return found


def is_file_of(file: str, name: str, version: str) -> bool:
    """Return whether a wheel or sdist is of a release.

    Where a build of its own was chosen, such as torch 2.13.0+cpu from a folder, only its files count: pip prefers a
    file whose SHA-256 an index states to one in a folder, and would install the other build.
    """
    if file.endswith(".whl"):
        stem, _, rest = file.partition("-")
        return plain(stem) == name and rest.partition("-")[0] == version
    whole = re.sub(r"\.(tar\.gz|zip)$", "", file)
    return plain(whole) == plain(f"{name}-{version}") and file != whole


def digest_of(link: Any) -> str:
    """Return the SHA-256 that an index states, or that of a file in a folder; empty where there is none."""
    if link.is_file and Path(link.file_path).is_file():
        return hashlib.sha256(Path(link.file_path).read_bytes()).hexdigest()
    stated: dict[str, str] = dict(link._hashes)
    if stated.get("sha256"):
        return stated["sha256"]
    return link.hash if link.hash_name == "sha256" else ""


def written(versions: dict[str, str], known: dict[str, set[str]]) -> str:
    """Return the text of a file of requirements."""
    blocks = []
    for name, version in sorted(versions.items()):
        files = "".join(f" \\\n    --hash=sha256:{digest}" for digest in sorted(known[name]))
        blocks.append(f"{name}=={version.partition('+')[0]}{files}\n")
    return HEAD + "".join(blocks)


def problems() -> list[str]:
    """Return every direct dependency whose locked version is not that of constraints.txt, or that is not locked."""
    pinned = dict(LINE.findall((ROOT / "constraints.txt").read_text()))
    found = []
    for name in (*FILES, *TOOLS):
        path = FOLDER / f"{name}.txt"
        locked = dict(LINE.findall(path.read_text()))
        direct = [plain(re.split(r"[\[<>=!~ ;]", line)[0]) for line in wanted(name)]
        found += [f"{path.name}: {each} is not locked" for each in direct if each not in locked]
        wrong = {each: pinned[each] for each, version in locked.items() if pinned.get(each, version) != version}
        found += [f"{path.name}: {each} {locked[each]}, constraints.txt has {right}" for each, right in wrong.items()]
    return found


def main() -> None:
    """Write or check the files."""
    if sys.argv[1:] == ["--check"]:
        if found := problems():
            raise SystemExit("\n".join(found))
        return
    FOLDER.mkdir(exist_ok=True)
    resolved = {name: resolve(wanted(name)) for name in (*FILES, *TOOLS)}
    every = {name: version for versions in resolved.values() for name, version in versions.items()}
    known = hashes(every)
    for name, versions in resolved.items():
        (FOLDER / f"{name}.txt").write_text(written(versions, known))
        print(f"requirements/{name}.txt: {len(versions)} packages, {sum(len(known[each]) for each in versions)} files")


if __name__ == "__main__":
    main()
