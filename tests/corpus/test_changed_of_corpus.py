"""A corpus as a change leaves it: which documents come, in which order, and how often what is skipped is counted."""

import pytest

from evenhand.corpus import Corpus, Texts
from evenhand.corpus.readers import ReadLog
from evenhand.corpus.readers import changed as module
from evenhand.corpus.readers.changed import ChangedSource, _differing, _Documents
from evenhand.corpus.readers.stream import END


class Step:
    """Replace one word by another in every fragment."""

    def __init__(self, old, new, *, keeps_original):
        self.old, self.new, self.keeps_original = old, new, keeps_original

    def stream(self, fragments):
        return (fragment.replace(self.old, self.new) for fragment in fragments)


class Change:
    digest = "abc"

    def __init__(self, *versions):
        self._versions = versions

    def versions(self):
        return self._versions


SWAP, ADD = Step("she", "he", keeps_original=False), Step("cat", "dog", keeps_original=True)


def documents(source):
    log = ReadLog(source.skip_bad)
    text = "".join(part for shard in source.shards() for part in source.fragments(shard, log))
    assert text == "" or text.endswith(END)
    return text.split(END)[:-1], log


def test_every_version_is_a_pass_and_only_what_differs_comes_twice():
    original = Texts(["she sat", "a cat", "she saw a cat", "", "no"])
    source = ChangedSource(original, Change((), (ADD,), (SWAP,), (SWAP, ADD)))
    assert documents(source)[0] == [
        *original.texts,
        *["a dog", "she saw a dog"],
        *["he sat", "a cat", "he saw a cat", "", "no"],
        *["a dog", "he saw a dog"],
    ]
    assert (source.name, source.size, source.skip_bad) == ("5 texts", 4 * original.size, False)
    assert source.shards() == original.shards()
    assert source.to_dict() == {**original.to_dict(), "change": "abc", "versions": 4}


def test_bad_input_is_counted_in_the_first_version_only(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"text": "a cat"}\nx\n{"text": "she"}\n')
    for versions in (((), (ADD,)), ((ADD,), ()), ((SWAP, ADD), (ADD,))):
        _, log = documents(ChangedSource(Corpus(path, skip_bad=True), Change(*versions)))
        assert log.bad_records == 1
    gone = Corpus(path)
    path.unlink()
    assert ChangedSource(gone, Change(())).size is None


@pytest.mark.parametrize("held", [1, 2, 3, 7, 1 << 20])
@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_differing_documents_are_found_however_they_are_read(monkeypatch, held, size):
    monkeypatch.setattr(module, "HELD", held)
    left = ["same", "", "abcdef", "abcdef", "abc", "x" * 20, "y" * 20, "", "a", "end", "abcabc", "b"]
    right = ["same", "", "abcxef", "abc", "abcdef", "x" * 20, "y" * 19 + "z", "a", "", "end", "abcabd", "b"]

    def cut(texts):
        text = "".join(one + END for one in texts)
        return [text[at : at + size] for at in range(0, len(text), size)]

    found = "".join(_differing(cut(left), cut(right)))
    assert found == "".join(b + END for a, b in zip(left, right, strict=True) if a != b)
    assert "".join(_differing(cut(left), cut(left))) == ""


@pytest.mark.parametrize("held", [1, 3, 4, 5, 100])
def test_documents_are_read_a_few_characters_at_a_time(monkeypatch, held):
    monkeypatch.setattr(module, "HELD", held)
    stream = _Documents(["ab", "cd" + END + "efgh", "i" + END + END, "j"])
    found, longest = [], 0
    while stream.begin():
        found.append(stream.text)
        longest = max(longest, len(stream.text))
        while stream.more():
            found[-1] += stream.text
            longest = max(longest, len(stream.text))
    assert found == ["abcd", "efghi", "", "j"]
    assert longest <= held + 4
    stream = _Documents(["abcdef" + END + "g" + END])
    assert stream.begin()
    assert stream.begin()
    assert (stream.text, stream.ended) == ("g", True)
    assert not stream.more()
    assert not stream.begin()
