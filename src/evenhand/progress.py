"""The callback by which long operations report how far they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Progress: TypeAlias = Callable[[int, int, str], None]
"""Called with the number of finished parts, the number of all parts and a short description."""
