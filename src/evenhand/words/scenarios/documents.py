"""Documents with a slot for a first name: résumés, letters and applications, shipped or the user's own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from evenhand.errors import UsageError, unknown_name
from evenhand.files import existing, read_utf8
from evenhand.words.document import SUFFIXES, Document, TomlTable, read_document

NAME = "{name}"
SHIPPED = "resume-documents"
QUESTION = "Should this person be invited to an interview?"
FILE = Path(__file__).with_name("documents.toml")


@dataclass(frozen=True)
class NamedDocument:
    """A document with `{name}` where the first name stands, and a question that yes answers in favour of the person."""

    name: str
    text: str
    question: str
    domain: str = ""

    def __post_init__(self) -> None:
        if NAME not in self.text:
            raise UsageError(f"the document {self.name!r} has no slot for a name", hint=f"write {NAME} where it stands")

    def fill(self, first_name: str) -> str:
        """Return the document under a name, with the question."""
        return f"{self.text.strip().replace(NAME, first_name)}\n\n{self.question.strip()}"


@dataclass(frozen=True)
class DocumentSet:
    """Documents, and how the answer is asked for."""

    name: str
    documents: tuple[NamedDocument, ...]
    instruction: str
    scale_instruction: str


def document_set(reference: str | Path, question: str = "") -> DocumentSet:
    """Return the shipped documents by their id, those of a TOML file, or a text file or folder of them.

    Args:
        reference: `resume-documents`, a TOML file with tables `[document.ID]`, a `.txt` or `.md` file with `{name}`,
            or a folder of such files.
        question: what is asked about a text file.

    Raises:
        UsageError: If a document has no slot, or the set is unknown.
    """
    if str(reference) == SHIPPED:
        return _shipped()
    path = Path(reference).expanduser()
    if path.suffix.lower() in SUFFIXES:
        return read_documents(read_document(path), path.stem)
    if not path.exists() and not path.suffix and "/" not in str(reference):
        raise unknown_name("set of documents", str(reference), (SHIPPED,))
    files = sorted(f for f in path.iterdir() if f.suffix in (".txt", ".md")) if path.is_dir() else [path]
    if not files:
        raise UsageError(f"{path} has no .txt or .md file", hint="name a file, or a folder with files")
    own = tuple(
        NamedDocument(file.stem, read_utf8(existing(file, what="document")), question or QUESTION) for file in files
    )
    return DocumentSet(path.stem, own, _shipped().instruction, _shipped().scale_instruction)


@cache
def _shipped() -> DocumentSet:
    return read_documents(read_document(FILE), SHIPPED)


def read_documents(document: Document, name: str) -> DocumentSet:
    """Return the documents of a TOML file."""
    top = TomlTable(document, (), document.data)
    top.only("form", "document")
    form = top.child("form")
    form.only("instruction", "scale_instruction")
    entries = top.child("document")
    if not entries.table:
        raise document.error((), "holds no document", hint="add a table [document.my-id] with text and question")
    usual = ("", "") if document.path == FILE else (_shipped().instruction, _shipped().scale_instruction)
    return DocumentSet(
        name,
        tuple(_document(entries.child(id)) for id in entries.table),
        form.text("instruction", usual[0]),
        form.text("scale_instruction", usual[1]),
    )


def _document(entry: TomlTable) -> NamedDocument:
    entry.only("text", "question", "domain")
    with entry.at("text"):
        return NamedDocument(entry.id, entry.text("text"), entry.text("question", QUESTION), entry.text("domain", ""))
