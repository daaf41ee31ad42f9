"""Audit word vectors before and after a method, and write one HTML page."""

from pathlib import Path
from tempfile import mkdtemp

import evenhand as eh

audit = eh.Audit.run("glove-embedded", methods=["linear"], measures=["weat", "direct-bias"], concept="gender", seed=0)
for label in audit.labels:
    before, after = (audit.get(label, stage) for stage in audit.stage_names)
    print(f"{label:30} {before.value:6.2f} {after.value:6.2f}")

folder = Path(mkdtemp())
audit.save(folder)
audit.to_html(folder / "report.html")
print(f"report {folder / 'report.html'}")
