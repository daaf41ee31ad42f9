"""How many of our own functions stand between a user and the deepest line that computes a first measure."""

import subprocess
import sys

import pytest

MEASURED = """
import sys

deepest = 0


def count(frame, event, argument):
    global deepest
    if event == "call":
        names = []
        while frame:
            if "evenhand" in frame.f_globals.get("__name__", "").split(".")[0]:
                names.append(frame.f_code.co_name)
            frame = frame.f_back
        if not {"<module>", "__getattr__"} & set(names):  # imports
            deepest = max(deepest, len(names))


"""
COMMAND = """
from evenhand.cli import main
sys.argv = ["evenhand", "measure", "weat", "--json"]
sys.setprofile(count)
try:
    main()
except SystemExit as stop:
    assert not stop.code
sys.setprofile(None)
print("deepest", deepest)
"""
LIBRARY = """
import evenhand as eh
vectors = eh.Vectors.default()
sys.setprofile(count)
eh.measures.weat(vectors, "weat-6")
sys.setprofile(None)
print("deepest", deepest)
"""


@pytest.mark.parametrize(("body", "limit"), [(COMMAND, 16), (LIBRARY, 12)], ids=["command", "library"])
def test_few_functions_lie_above_one_another(body: str, limit: int) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURED + body], capture_output=True, text=True, check=True)
    assert int(done.stdout.rpartition("deepest ")[2]) <= limit
