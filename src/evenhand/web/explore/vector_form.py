"""The choices that all pages about word vectors share: subject, concept and method."""

from __future__ import annotations

from dataclasses import dataclass

from evenhand import words
from evenhand.errors import DegenerateError
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
    """The chosen vectors before and after the chosen method, and the concept's direction learned in each of them."""

    subject: str
    concept: str
    method: str
    before: Vectors
    after: Vectors | None
    """None where no method was chosen."""
    axis: Subspace
    axis_after: Subspace | None
    """None where no method was chosen, and where the concept has no direction after it."""
    no_axis: str
    """Why the direction cannot be learned again."""

    @classmethod
    def chosen(cls, offered: OfferedSubjects, fields: FormFields) -> BeforeAfter:
        """Read the choices, and fit the method unless it is fitted."""
        example = vector_example(offered)
        subject = fields.choice("subject", offered.offering("vectors"), example["subject"])
        concept = fields.choice("concept", concept_choices(), example["concept"])
        method = fields.choice("method", method_choices(), example["method"])
        axis, again, problem = offered.axis(subject, concept), None, ""
        after = None if method == NO_METHOD else offered.changed(subject, concept, method)
        if after is not None:
            try:
                again = offered.axis(subject, concept, method)
            except DegenerateError as error:  # a method may make the words equal that the direction is learned from
                problem = error.message
        return cls(subject, concept, method, offered.vectors(subject), after, axis, again, problem)

    @property
    def poles(self) -> tuple[str, str]:
        """Names of the positive and of the negative end of the axis."""
        about = words.concept(self.concept)
        others = [name for name in about.groups if name != about.positive]
        positive, negative = self.axis.poles if any(self.axis.poles) else (about.positive, "")
        return positive, negative if negative not in ("", "rest") else (
            others[0] if len(others) == 1 else "other groups"
        )

    def positions(self, rows: list[int]) -> list[float]:
        """Return the cosine of words with the axis, before the method."""
        values: list[float] = (self.before.unit[rows] @ self.axis.basis[0]).tolist()
        return values

    def positions_after(self, rows: list[int]) -> list[float] | None:
        """Return the cosine of words with the axis that the changed vectors have; None where they have none."""
        if self.after is None or self.axis_after is None:
            return None
        values: list[float] = (self.after.unit[rows] @ self.axis_after.basis[0]).tolist()
        return values
