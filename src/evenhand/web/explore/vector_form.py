"""The choices that all pages about word vectors share: subject, concept and method."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand import words
from evenhand.models.vectors import Vectors
from evenhand.subspaces import Subspace
from evenhand.web.fields import FormFields
from evenhand.web.offered import (
    DEFAULT_CONCEPT,
    DEFAULT_METHOD,
    NO_METHOD,
    OfferedSubjects,
    concept_choices,
    method_choices,
)


def vector_example(offered: OfferedSubjects, view: str = "vectors") -> dict[str, str]:
    """Return the default choices."""
    return {"subject": next(iter(offered.offering(view)), ""), "concept": DEFAULT_CONCEPT, "method": DEFAULT_METHOD}


@dataclass(frozen=True)
class BeforeAfter:
    """The chosen vectors before and after the chosen method, and the concept's direction in those before."""

    subject: str
    concept: str
    method: str
    before: Vectors
    after: Vectors | None
    """None where no method was chosen."""
    axis: Subspace

    @classmethod
    def chosen(cls, offered: OfferedSubjects, fields: FormFields) -> BeforeAfter:
        """Read the choices, and fit the method unless it is fitted."""
        example = vector_example(offered)
        subject = fields.choice("subject", offered.offering("vectors"), example["subject"])
        concept = fields.choice("concept", concept_choices(), example["concept"])
        method = fields.choice("method", method_choices(), example["method"])
        after = None if method == NO_METHOD else offered.changed(subject, concept, method)
        return cls(subject, concept, method, offered.vectors(subject), after, offered.axis(subject, concept))

    @property
    def poles(self) -> tuple[str, str]:
        """Names of the positive and of the negative end of the axis."""
        about = words.concept(self.concept)
        others = [name for name in about.groups if name != about.positive]
        positive, negative = self.axis.poles if any(self.axis.poles) else (about.positive, "")
        return positive, negative if negative not in ("", "rest") else (
            others[0] if len(others) == 1 else "other groups"
        )

    def positions(self, vectors: Vectors, rows: list[int]) -> list[float]:
        """Return the cosine of words with the axis, which is that of the vectors before in both columns."""
        values: list[float] = (vectors.unit[rows] @ self.axis.basis[0]).tolist()
        return values
