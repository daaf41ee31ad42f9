"""CPU time of the explore pages of `evenhand serve` on the embedded vectors, once loaded: median and largest of 20.

python benchmarks/page.py
"""

import statistics
import time

from starlette.testclient import TestClient

from evenhand.subjects import open_subject
from evenhand.web import create_app

PAGES = (
    "axis",
    "axis?words=",
    "axis?method=hard",
    "axis?method=leace&concept=religion",
    "neighbours",
    "neighbours?word=engineer&method=hard",
    "association",
    "association?query=weat-1",
    "inference",
    "inference?method=hard",
    "contexts",
)


def seconds(client: TestClient, page: str) -> float:
    """CPU time of one answer, client included."""
    start = time.process_time()
    client.get(f"/explore/{page}").raise_for_status()
    return time.process_time() - start


if __name__ == "__main__":
    with TestClient(create_app([open_subject("glove-embedded")]), base_url="http://127.0.0.1") as client:
        for page in PAGES:
            first = seconds(client, page)
            times = [seconds(client, page) for _ in range(20)]
            print(
                f"{page:40s} first {1000 * first:5.0f} ms, then {1000 * statistics.median(times):4.0f} ms, "
                f"at most {1000 * max(times):4.0f} ms of CPU"
            )
