"""Writing a changed corpus: formats, resuming, refusals, and the before and after of an audit."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import zstandard
from typer.testing import CliRunner

import evenhand as eh
from evenhand.cli import app
from evenhand.corpus import Corpus
from evenhand.corpus.readers import changed
from evenhand.corpus.readers.stream import ReadLog
from evenhand.errors import FormatError, OutputError, UsageError
from evenhand.mitigations import CounterfactualAugmentation, TextChange
from evenhand.mitigations.text import augmentation
from evenhand.mitigations.text.augmentation import RECORD, write_augmented

TWO = CounterfactualAugmentation().fit(None, "gender")
ONE = CounterfactualAugmentation(sides="one").fit(None, "gender")
LINES = ["She left her keys.", "It rained.", "HIS dog is his.", ""]
SWAPPED = ["He left his keys.", "It rained.", "HER dog is hers.", ""]


def test_lines(tmp_path: Path) -> None:
    source = tmp_path / "in.txt"
    source.write_bytes("\r\n".join(LINES).encode())
    result = write_augmented(TWO, source, tmp_path / "out.txt", documents="line")
    lines = (tmp_path / "out.txt").read_bytes().decode().split("\r\n")
    assert lines == [LINES[0], SWAPPED[0], LINES[1], LINES[2], SWAPPED[2], ""]  # It rained: once
    assert (result.counts.documents, result.counts.forms) == (3, 2)
    assert result.counts.swapped.total() == 4
    assert result.counts.words == 10
    write_augmented(ONE, source, tmp_path / "one.txt", documents="line")
    assert (tmp_path / "one.txt").read_bytes().decode().split("\r\n")[:3] == SWAPPED[:3]


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
def test_whole_files_of_a_folder(tmp_path: Path, packed: str) -> None:
    text = "\n".join(LINES) * 3
    folder = tmp_path / "in"
    (folder / "deep").mkdir(parents=True)
    data = {"": text.encode(), ".gz": gzip.compress(text.encode()), ".zst": zstandard.compress(text.encode())}[packed]
    (folder / "deep" / f"a.txt{packed}").write_bytes(data)
    (folder / "b.jsonl").write_text('{"id": 7, "text": "She left."}\n', encoding="utf-8")
    result = write_augmented(TWO, folder, tmp_path / "out")
    names = sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.*"))
    assert names == [RECORD, "b.jsonl", f"deep/a.swapped.txt{packed}", f"deep/a.txt{packed}"]
    with eh.files.open_bytes(tmp_path / "out" / "deep" / f"a.txt{packed}") as stream:
        assert stream.read().decode() == text
    with eh.files.open_bytes(tmp_path / "out" / "deep" / f"a.swapped.txt{packed}") as stream:
        assert stream.read().decode() == TWO(text)
    records = [json.loads(line) for line in (tmp_path / "out" / "b.jsonl").read_text().splitlines()]
    assert records == [{"id": 7, "text": "She left."}, {"id": -8, "text": "He left.", "swapped": "gender"}]
    assert result.files == 2


def test_pairs_are_swapped_together_and_keep_their_label(tmp_path: Path) -> None:
    pairs = [
        {"premise": "The man slept.", "hypothesis": "A person slept.", "label": "entailment", "n": 1.5},
        {"premise": "A Christian prays.", "hypothesis": "A Muslim prays.", "label": "neutral", "ü": None},
    ]
    source = tmp_path / "pairs.jsonl"
    source.write_text("".join(json.dumps(pair) + "\n" for pair in pairs), encoding="utf-8")
    fields = ("premise", "hypothesis")
    result = write_augmented(TWO, source, tmp_path / "out.jsonl.zst", fields=fields)
    with eh.files.open_bytes(tmp_path / "out.jsonl.zst") as stream:
        written = [json.loads(line) for line in stream.read().decode().splitlines()]
    assert written == [pairs[0], {**pairs[0], "premise": "The woman slept.", "swapped": "gender"}, pairs[1]]
    assert result.counts.documents == 2
    religion = CounterfactualAugmentation(sides="one").fit(None, "religion")
    write_augmented(religion, source, tmp_path / "religion.jsonl", fields=fields)
    swapped = json.loads((tmp_path / "religion.jsonl").read_text().splitlines()[1])
    assert (swapped["premise"], swapped["hypothesis"]) in [
        ("A Muslim prays.", "A Jew prays."),
        ("A Jew prays.", "A Christian prays."),
    ]


def test_ids_stay_unique_and_of_their_type(tmp_path: Path) -> None:
    both = CounterfactualAugmentation().fit(None, "religion") @ TWO
    rows = [{"id": number, "pairID": f"p{number}", "text": "She met a rabbi."} for number in range(3)]
    rows.append({"id": 3, "pairID": "p3", "text": "He left.", "swapped": "age"})
    source = tmp_path / "in.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    write_augmented(both, source, tmp_path / "out.jsonl")
    written = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert len(written) == 3 * 4 + 2
    for field, kind in (("id", int), ("pairID", str)):
        values = [row[field] for row in written]
        assert len(set(values)) == len(values)
        assert {type(value) for value in values} == {kind}
    assert [row.get("swapped") for row in written[-2:]] == ["age", "age+gender+religion"]
    assert [row["text"] for row in written if "swapped" not in row] == ["She met a rabbi."] * 3


def test_a_record_with_a_field_of_that_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"text": "He left.", "swapped": true}\n', encoding="utf-8")
    with pytest.raises(FormatError, match="line 1: it has a field 'swapped' of its own"):
        write_augmented(TWO, tmp_path / "in.jsonl", tmp_path / "out.jsonl")


def test_a_file_without_a_swap_has_no_second_form(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_text("She left.", encoding="utf-8")
    (folder / "b.txt").write_text("It rained.", encoding="utf-8")
    result = write_augmented(TWO, folder, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").glob("*.txt")) == ["a.swapped.txt", "a.txt", "b.txt"]
    assert (result.counts.documents, result.counts.forms) == (2, 1)
    (folder / "a.txt").write_text("It rained too.", encoding="utf-8")
    write_augmented(TWO, folder, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").glob("*.txt")) == ["a.txt", "b.txt"]


@pytest.mark.parametrize("held", [1, 7, 1 << 20])
def test_the_changed_corpus_is_what_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    """An audit reads the documents that `debias` writes, however they are cut into pieces."""
    monkeypatch.setattr(changed, "HELD", held)
    texts = ["It rained.", "She left her house.", "", "A rabbi slept", "x" * 40, "y" * 40 + " he", "he " + "z" * 40]
    (tmp_path / "a.txt").write_text("\n".join(texts) + "\n", encoding="utf-8")
    chain = CounterfactualAugmentation().fit(None, "religion") @ TWO
    for change in (TWO, ONE, chain):
        source = changed.ChangedSource(Corpus(tmp_path / "a.txt", documents="line"), change)
        (shard,) = source.shards()
        read = "".join(source.fragments(shard, ReadLog()))
        lines = [line for line in texts if line.strip()]
        expected = sorted(text.strip() for text in change.documents(lines))
        assert sorted(text.strip() for text in read.split("\0") if text.strip()) == expected


def test_a_stopped_run_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"She has {number} brothers.", encoding="utf-8")
    written: list[str] = []
    write_file = augmentation._write_file

    def stop_at_third(change: TextChange, file: str, *rest: object) -> object:
        if file.endswith("2.txt") and len(written) == 2:
            raise KeyboardInterrupt
        written.append(file)
        return write_file(change, file, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(augmentation, "_write_file", stop_at_third)
    with pytest.raises(KeyboardInterrupt, match=r"2 finished files in .*run the same command again"):
        write_augmented(TWO, folder, out)
    assert not list(out.glob("*.partial"))
    written.append("interrupted")
    result = write_augmented(TWO, folder, out)
    assert [Path(name).name for name in written] == ["0.txt", "1.txt", "interrupted", "2.txt", "3.txt"]
    assert result.resumed == 2
    assert result.counts.swapped.total() == 8
    (folder / "0.txt").write_text("He is new.", encoding="utf-8")
    assert write_augmented(TWO, folder, out).resumed == 3
    assert (out / "0.swapped.txt").read_text() == "She is new."


def test_refusals(tmp_path: Path) -> None:
    source = tmp_path / "in" / "a.txt"
    source.parent.mkdir()
    source.write_text("She left.", encoding="utf-8")
    with pytest.raises(UsageError, match="one file cannot hold both"):
        write_augmented(TWO, source, tmp_path / "b.txt")
    with pytest.raises(OutputError, match="the corpus itself"):
        write_augmented(TWO, source, source.parent)
    with pytest.raises(OutputError, match="the corpus itself"):
        write_augmented(ONE, source, source)
    table = tmp_path / "t.csv"
    table.write_text("text\nShe\n", encoding="utf-8")
    with pytest.raises(UsageError, match="format csv can be read but not written"):
        write_augmented(TWO, table, tmp_path / "out")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").write_text("mine", encoding="utf-8")
    with pytest.raises(OutputError, match="not empty"):
        write_augmented(TWO, source, tmp_path / "full")
    write_augmented(TWO, source, tmp_path / "out")
    with pytest.raises(OutputError, match="another method"):
        write_augmented(ONE, source, tmp_path / "out")


def test_bad_records_are_named_or_counted(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_bytes(b'{"text": "She"}\n{"text": 3}\nnot json\n{"text": "\\ud800 He"}\n')
    with pytest.raises(FormatError, match=r"line 2: field 'text' holds a number[\s\S]*`skip_bad=True`"):
        write_augmented(ONE, source, tmp_path / "b.jsonl")
    assert not (tmp_path / "b.jsonl").exists()
    result = write_augmented(ONE, source, tmp_path / "b.jsonl", skip_bad=True)
    assert result.read_log.bad_records == 2
    records = [json.loads(line)["text"] for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert records == ["He", "\ud800 She"]


def test_memory_does_not_grow_with_the_document(tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    with source.open("w", encoding="utf-8") as out:
        for _ in range(8):
            out.write("She told the brother that a red car was old and she liked it. " * 12_000)
    code = (
        "import resource, sys\n"
        "from evenhand.mitigations import CounterfactualAugmentation\n"
        "from evenhand.mitigations.text.augmentation import write_augmented\n"
        "swap = CounterfactualAugmentation(sides='one').fit(None, 'gender')\n"
        "swap('she')\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        f"write_augmented(swap, {str(source)!r}, {str(tmp_path / 'out.txt')!r})\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    unit = 1024 if sys.platform == "darwin" else 1
    assert int(done.stdout) / unit < 40_000  # kilobytes; the words of the 6 MB text alone would need more than 60 MB


def test_the_audit_of_a_corpus_shows_before_and_after(tmp_path: Path) -> None:
    text = "She is a nurse and he is a doctor. The woman cooks, the man drives his car. " * 40
    (tmp_path / "a.txt").write_text(text, encoding="utf-8")
    audit = eh.Audit.run(f"corpus:{tmp_path / 'a.txt'}", methods=["cda"], measures=["corpus-bias"])
    assert [stage.name for stage in audit.stages] == ["original", "cda"]
    before, after = (audit.get("corpus-bias:mu", stage=stage).value for stage in ("original", "cda"))
    assert before > 0.1
    assert after < 1e-9
    corpus = eh.open(f"corpus:{tmp_path / 'a.txt'}")
    changed = corpus.changed(TWO)
    assert changed.digest != corpus.digest
    assert not corpus.changes
    with pytest.raises(UsageError, match="changes word vectors; "):
        corpus.changed(eh.mitigations.LinearProjection().fit(eh.Vectors.default(), "gender"))
    with pytest.raises(UsageError, match="cda works on corpora only; glove-embedded is word vectors"):
        eh.Audit.run(eh.Vectors.default(), methods=["cda"], measures=["weat"])


def test_the_command(tmp_path: Path) -> None:
    source = tmp_path / "a.jsonl"
    source.write_text('{"text": "Mr. King met her."}\n', encoding="utf-8")
    arguments = ["debias", f"corpus:{source}", "--method", "cda", "-o", str(tmp_path / "b.jsonl")]
    saved = str(tmp_path / "change.json")
    result = CliRunner().invoke(app, [*arguments, "--json", "--set", "sides=one", "--save-map", saved])
    assert result.exit_code == 0, result.output
    record = json.loads(result.stdout)
    assert record["swaps"] == {"mr -> mrs": 1, "her -> him": 1}
    assert record["kept_in_names"] == {"king": 1}
    assert (tmp_path / "b.jsonl").read_text() == '{"text": "Mrs. King met him.", "swapped": "gender"}\n'
    assert TextChange.load(saved) == ONE
    plain = CliRunner().invoke(app, arguments)
    assert "2 of 4 words swapped" in plain.stdout.replace("\n", " ")
    for extra, message in (
        (["--method", "linear"], "linear works on word vectors and transformers only; a.jsonl is a corpus"),
        (["--method", "cda", "--field", "x"], "no field 'x'"),
    ):
        failed = CliRunner().invoke(app, ["debias", f"corpus:{source}", "-o", str(tmp_path / "c.jsonl"), *extra])
        assert failed.exit_code != 0
        assert message in failed.output


# What is said and counted -------------------------------------------------------------------------------------------


def test_the_result_in_full_and_the_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augmentation, "REPORT_EVERY", 2)
    source, heard = tmp_path / "in", []
    source.mkdir()
    (source / "a.jsonl").write_text("".join(f'{{"text": "She left {n}."}}\n' for n in range(5)), encoding="utf-8")
    (source / "b.txt").write_text("He left.", encoding="utf-8")
    result = write_augmented(TWO, source, tmp_path / "out", progress=lambda *news: heard.append(news))
    told = [(done, total, what.replace(str(source), "in")) for done, total, what in heard]
    assert told[:4] == [
        (0, 2, "in/a.jsonl"),
        (0, 2, "a.jsonl: 6 words"),
        (0, 2, "a.jsonl: 12 words"),
        (1, 2, "in/b.txt"),
    ]
    assert told[-1] == (2, 2, "done")
    assert {line[:2] for line in told[4:-1]} == {(1, 2)}
    assert "b.swapped.txt: 2 words" in {line[2] for line in told[4:-1]}
    assert (result.out, result.files, result.resumed, result.words) == (tmp_path / "out", 2, 0, 17)
    plain = result.to_dict()
    rate = plain.pop("words_per_second")
    assert rate == round(17 / result.seconds)
    assert plain["seconds"] == round(result.seconds, 3)
    assert {name: plain[name] for name in ("out", "files", "files_of_an_earlier_run", "documents", "swapped_forms")} == {
        "out": str(tmp_path / "out"), "files": 2, "files_of_an_earlier_run": 0, "documents": 6, "swapped_forms": 6
    }  # fmt: skip
    assert replace(result, seconds=0.0).to_dict()["words_per_second"] == 0
    again = write_augmented(TWO, source, tmp_path / "out")
    assert (again.resumed, again.words, again.counts) == (2, 0, result.counts)
    (source / "b.txt").write_text("She left us.", encoding="utf-8")
    third = write_augmented(TWO, source, tmp_path / "out")
    assert (third.resumed, third.words) == (1, 3)


@pytest.mark.parametrize(
    ("name", "number", "expected"),
    [
        ("a.txt.gz", 0, "a.txt.gz"),
        ("a.txt.gz", 1, "a.swapped.txt.gz"),
        ("a.txt", 2, "a.swapped-2.txt"),
        ("a", 1, "a.swapped"),
    ],
)
def test_names_of_versions(name: str, number: int, expected: str) -> None:
    assert augmentation._version_name(Path("x") / name, number) == Path("x") / expected


@pytest.mark.parametrize(
    ("value", "number", "versions", "expected"),
    [
        (7, 1, 2, -8), (0, 1, 2, -1), (7, 1, 4, -22), (7, 3, 4, -24), (-7, 1, 2, "-7-swapped"), (True, 1, 2, "True-swapped"),
        ("a", 1, 2, "a-swapped"), ("a", 2, 4, "a-swapped-2"), (1.5, 1, 2, "1.5-swapped"),
    ],
)  # fmt: skip
def test_ids_of_versions(value: object, number: int, versions: int, expected: object) -> None:
    assert augmentation._other_id(value, number, versions) == expected


def test_records_of_two_changes_are_told_apart(tmp_path: Path) -> None:
    both = CounterfactualAugmentation().fit(None, "religion") @ TWO
    (tmp_path / "in.jsonl").write_text(
        '{"ID": 3, "text": "She met a rabbi.", "note": "she \\ud83d"}\n\n{"text": "It rained.", "swapped": "old"}\n',
        encoding="utf-8",
    )
    result = write_augmented(
        both, tmp_path / "in.jsonl", tmp_path / "out.jsonl", fields=("text", "note"), skip_bad=True
    )
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["ID"] for line in lines] == [3, *lines_ids(4)]
    assert [line.get("swapped") for line in lines] == [None, *["gender+religion"] * (len(lines) - 1)]
    assert lines[0]["text"] == "She met a rabbi."
    assert all(line["note"].startswith(("she", "he")) for line in lines)
    assert result.counts.forms == 3


def lines_ids(versions: int) -> list[int]:
    """Return the ids of the changed forms of record 3."""
    return [-(3 * (versions - 1) + number) for number in range(1, versions)]


def test_the_place_of_a_file_inside_the_output(tmp_path: Path) -> None:
    assert augmentation._name_inside("/a/b/c.txt", [Path("/x"), Path("/a")]) == Path("b/c.txt")
    assert augmentation._name_inside("/a/b/c.txt", []) == Path("c.txt")
    assert augmentation._name_inside("s3://a/b/c.txt", []) == Path("c.txt")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "x.txt").write_text("she")
    with pytest.raises(UsageError, match="two files of the corpus have the same name"):
        write_augmented(TWO, [tmp_path / "a", tmp_path / "b"], tmp_path / "out")
    for out in (tmp_path / "a", tmp_path):
        with pytest.raises(OutputError, match="is or holds the corpus itself"):
            write_augmented(TWO, tmp_path / "a", out)
