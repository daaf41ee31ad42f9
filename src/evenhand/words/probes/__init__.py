"""Probes: pairs of sentences that differ in one slot, as a lazy product of templates and fillers.

Models are in `models.nli`, scores in `measures.inference`.
"""

from evenhand.words.probes.catalog import ids, listing, probe
from evenhand.words.probes.dataset import export
from evenhand.words.probes.fillers import Filler
from evenhand.words.probes.probe import Label, Pair, Points, Probe
from evenhand.words.probes.rows import Sample, stratified
from evenhand.words.probes.surface import RELEASED, Surface

__all__ = [
    "RELEASED",
    "Filler",
    "Label",
    "Pair",
    "Points",
    "Probe",
    "Sample",
    "Surface",
    "export",
    "ids",
    "listing",
    "probe",
    "stratified",
]
