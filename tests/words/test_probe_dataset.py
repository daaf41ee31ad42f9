"""The folder that `datasets.load_dataset` reads: card, shards, columns, and that nothing is half written."""

import json

import polars as pl
import pytest

from evenhand.corpus.readers.source import Corpus
from evenhand.corpus.readers.stream import END, ReadLog
from evenhand.errors import UsageError
from evenhand.words import probes
from evenhand.words.probes import Filler, Probe, dataset, probe
from evenhand.words.template import Template


def small(name="small", objects=("apple", "meal")):
    template = Template("t", "The {subject} ate a/an {food}.", {"food": list(objects)})
    return Probe(name, (template,), (Filler("nurse"), Filler("actor")), (Filler("man", group="m"), Filler("woman")))


def front_matter(folder):
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load((folder / "README.md").read_text(encoding="utf-8").split("---\n")[1])


def everything(folder):
    return pl.read_parquet(sorted((folder / "data").glob("*.parquet")))


def test_the_rows_are_those_of_the_other_formats(tmp_path):
    asked = small()
    assert probes.export(asked, tmp_path / "pairs") == 8
    probes.export(asked, tmp_path / "pairs.jsonl")
    lines = (tmp_path / "pairs.jsonl").read_text(encoding="utf-8").splitlines()
    assert everything(tmp_path / "pairs").to_dicts() == [json.loads(line) for line in lines]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs", "pairs.jsonl"]


def test_the_card_names_files_columns_and_counts(tmp_path):
    asked = small('a "quoted": name')
    probes.export(asked, tmp_path / "pairs")
    told, frame = front_matter(tmp_path / "pairs"), everything(tmp_path / "pairs")
    types = {"int64": pl.Int64, "string": pl.String}
    assert {f["name"]: types[f["dtype"]] for f in told["dataset_info"]["features"]} == dict(frame.schema)
    assert "splits" not in told["dataset_info"]  # without num_bytes `datasets` calls them malformed; it counts itself
    (files,) = told["configs"][0]["data_files"]
    assert len(list((tmp_path / "pairs").glob(files["path"]))) == 1
    assert told["pretty_name"] == asked.name


def test_the_card_of_a_published_probe_cites_it(tmp_path):
    asked = probe("mab-explicit")
    assert probes.export(asked, tmp_path / "pairs", sample=100, seed=3) == 96
    text = (tmp_path / "pairs" / "README.md").read_text(encoding="utf-8")
    assert "96 rows, a stratified sample (size 100, seed 3) of the probe's 15,744 pairs" in text
    assert asked.citation.strip() in text
    assert front_matter(tmp_path / "pairs")["size_categories"] == ["n<1K"]


def test_hugging_face_accepts_the_card(tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    probes.export(small(), tmp_path / "pairs")
    told = hub.DatasetCard.load(tmp_path / "pairs" / "README.md").data
    assert told.task_ids == ["natural-language-inference"]


def test_the_library_itself_reads_it(tmp_path):
    library = pytest.importorskip("datasets")
    probes.export(small(), tmp_path / "pairs")
    found = library.load_dataset(str(tmp_path / "pairs"), split="test", cache_dir=str(tmp_path / "cache"))
    assert found["premise"][:8] == [small().pair(i).premise for i in range(8)]


def test_shards_in_order_and_back_through_the_corpus_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(dataset, "BLOCKS_PER_SHARD", 2)
    asked = small()
    assert probes.export(asked, tmp_path / "pairs", rows=2) == 8
    names = sorted(path.name for path in (tmp_path / "pairs" / "data").iterdir())
    assert names == ["test-00000-of-00002.parquet", "test-00001-of-00002.parquet"]
    corpus = Corpus(tmp_path / "pairs", field="hypothesis")
    read = "".join("".join(corpus.fragments(shard, ReadLog())) for shard in corpus.shards())
    assert read.split(END)[:-1] == [asked.pair(i).hypothesis for i in range(8)]


def test_an_earlier_export_is_replaced_and_other_folders_are_not(tmp_path):
    folder = tmp_path / "pairs"
    folder.mkdir()
    probes.export(small(), folder)
    probes.export(small(objects=["apple"]), folder)
    assert len(everything(folder)) == 4
    (folder / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(UsageError, match=r"notes\.txt"):
        probes.export(small(), folder)
    assert len(everything(folder)) == 4
    (tmp_path / "file").write_text("x", encoding="utf-8")
    with pytest.raises(UsageError, match="is a file"):
        probes.export(small(), tmp_path / "file")


def test_an_export_that_breaks_off_leaves_what_was_there(tmp_path, monkeypatch):
    folder = tmp_path / "pairs"
    probes.export(small(), folder)

    def fails(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(dataset, "card", fails)
    with pytest.raises(KeyboardInterrupt):
        probes.export(small(objects=["apple"]), folder)
    assert len(everything(folder)) == 8
    assert [path.name for path in tmp_path.iterdir()] == ["pairs"]


@pytest.mark.parametrize("name", ["x.xlsx", "x.parquet.gz", "x.gz"])
def test_names_that_say_no_format(tmp_path, name):
    with pytest.raises(UsageError, match="or as a folder"):
        probes.export(small(), tmp_path / name)
