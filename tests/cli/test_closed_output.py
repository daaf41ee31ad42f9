"""A closed output is no traceback: `evenhand list measures >&-`."""

import subprocess
import sys


def test_a_closed_output_prints_no_traceback() -> None:
    command = [sys.executable, "-m", "evenhand", "list", "concepts"]
    for closed in (">&-", "2>&-"):
        line = ["/bin/sh", "-c", f'"$@" {closed}', "sh", *command]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
