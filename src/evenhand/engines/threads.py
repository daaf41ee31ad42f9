"""One thread in each worker: there are as many workers as cores, and a pool of threads in each would fight for them."""

from __future__ import annotations

import os

LIMITS = ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def one_thread_each() -> None:
    """Tell the numerical libraries, which read these when they are first imported; what is set already stays."""
    for name in LIMITS:
        os.environ.setdefault(name, "1")
