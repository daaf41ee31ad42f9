"""A function that workers keep between two calls of `Engine.map`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class KeptFunction(Generic[Job, Result]):
    """A function that is costly to send or to set up, such as one that loads a model.

    A Ray cluster receives it with the first call of `map`, and its workers keep the last few. The function must not
    change after that.
    """

    def __init__(self, function: Callable[[Job], Result]) -> None:
        self.function = function
        self.key = os.urandom(8).hex()

    def __call__(self, job: Job) -> Result:
        """Run a job."""
        return self.function(job)
