"""Whatever a file holds, the loader answers with records or with an EvenhandError, never with anything else."""

import contextlib
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenhand.errors import EvenhandError
from evenhand.words import KINDS, load_file

KEYS = st.sampled_from(
    [
        "words",
        "pairs",
        "rows",
        "columns",
        "source",
        "note",
        "name",
        "verbatim",
        "poles",
        "targets",
        "attributes",
        "groups",
        "names",
        "positive",
        "direction",
        "equalize",
        "specific",
        "limits",
        "text",
        "fillers",
        "articles",
        "x",
    ]
)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.sampled_from(["@a", "@a/first"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
FILES = st.dictionaries(
    st.sampled_from(["source", *KINDS]),
    st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(KEYS, PLAIN)),
    min_size=1,
)
TOML_PIECES = [
    "[wordset.a]\n",
    "[pairs.a]\n",
    "[concept.a]\n",
    "words = ",
    '["x"]\n',
    "[",
    "]",
    "{",
    "}",
    '"',
    "'''",
    "=",
    "\n",
]
TOML_PIECES += [
    "a",
    ".",
    "1",
    "@",
    "# ",
    "\t",
    "\\",
    "inf",
    "2001-01-01",
    "pairs = ",
    '[["x", "y"]]\n',
    "é",
    "\x00",
    "[[",
    "-",
]
FUZZ = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def survives(path):
    with contextlib.suppress(EvenhandError):
        for record in load_file(path).all().values():
            json.dumps(record.to_dict())


@pytest.fixture
def folder(tmp_path):
    return tmp_path


@FUZZ
@given(content=st.binary(max_size=200), suffix=st.sampled_from(["toml", "json"]))
def test_random_bytes(folder, content, suffix):
    path = folder / f"fuzz.{suffix}"
    path.write_bytes(content)
    survives(path)


@FUZZ
@given(pieces=st.lists(st.sampled_from(TOML_PIECES), max_size=30))
def test_random_toml(folder, pieces):
    path = folder / "fuzz.toml"
    path.write_text("".join(pieces), encoding="utf-8")
    survives(path)


@FUZZ
@given(data=FILES)
def test_random_records_in_json(folder, data):
    path = folder / "fuzz.json"
    path.write_text(json.dumps(data), encoding="utf-8")
    survives(path)
