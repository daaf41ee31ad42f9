"""What a reader met on its way: nothing is left out without a line here."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evenhand.errors import FormatError, InputMissingError, counted

SHOWN = 20
NAMED = 3
LEAVE_OUT = "skip_bad=True (--skip-bad) to leave it out, counted"


def leave_out_told(error: FormatError | InputMissingError) -> FormatError | InputMissingError:
    """The same error, with the way out in its hint."""
    hint = "; or ".join(part for part in (error.hint.removesuffix(f"; or {LEAVE_OUT}"), LEAVE_OUT) if part)
    return type(error)(error.message, hint=hint)


def nothing_read(source: object, account: Account) -> FormatError:
    """The error for a corpus without a single word."""
    files = list(getattr(source, "files", ()))
    where = ", ".join(files[:NAMED]) + (f" and {len(files) - NAMED:,} more" if len(files) > NAMED else "")
    return FormatError(
        f"{where or 'the texts'}: no word was read{account.told()}",
        hint="the text is empty or blank, or has nothing that the tokenizer takes for a word",
    )


@dataclass
class Account:
    """Files that broke off and records that could not be used; filled while a corpus is read."""

    skip_bad: bool = False
    bad_files: list[dict[str, Any]] = field(default_factory=list)
    bad_records: int = 0
    first_bad: list[str] = field(default_factory=list)

    def bad_record(self, where: str, what: str, hint: str) -> None:
        """A record that cannot be used: counted with `skip_bad`, an error otherwise."""
        if not self.skip_bad:
            raise FormatError(f"{where}: {what}", hint=f"{hint}; or {LEAVE_OUT}")
        self.bad_records += 1
        if len(self.first_bad) < SHOWN:
            self.first_bad.append(f"{where}: {what}")

    def bad_file(self, path: str, reason: str, documents: int) -> None:
        """A file that could not be read to its end; what came before the break stays counted."""
        self.bad_files.append({"path": path, "reason": reason, "documents_before": documents})

    def add(self, other: Account) -> None:
        """The account of another part of the same corpus."""
        self.bad_files += other.bad_files
        self.bad_records += other.bad_records
        self.first_bad = (self.first_bad + other.first_bad)[:SHOWN]

    def told(self) -> str:
        """What was left out, to follow on other words; nothing where all could be read."""
        reasons = [*(bad["reason"] for bad in self.bad_files), *self.first_bad]
        left = [counted(self.bad_records, "record")] if self.bad_records else []
        left += [f"the rest of {counted(len(self.bad_files), 'file')}"] if self.bad_files else []
        return f", {' and '.join(left)} left out (the first: {reasons[0]})" if reasons else ""

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return {"bad_files": self.bad_files, "bad_records": self.bad_records, "first_bad_records": self.first_bad}
