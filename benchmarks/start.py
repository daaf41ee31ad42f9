"""CPU time of `import evenhand` beyond numpy, and of `evenhand --help`, each the best of ten fresh processes.

python benchmarks/start.py
"""

import subprocess
import sys

IMPORT = "import numpy, time; start = time.process_time(); import evenhand; print(time.process_time() - start)"
HELP = """
import sys, time
sys.argv = ["evenhand", "--help"]
from evenhand.cli import main
try:
    main()
except SystemExit:
    print("\\n", time.process_time())
"""


def best(code: str) -> float:
    """The smallest of ten readings: what the code costs when nothing disturbs it."""
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(10))
    return min(float(run.stdout.split()[-1]) for run in runs)


if __name__ == "__main__":
    print(f"import evenhand, beyond python and numpy: {best(IMPORT):.3f} s of CPU")
    print(f"evenhand --help, whole process:           {best(HELP):.3f} s of CPU")
