"""Probes: pairs of sentences that differ in one slot, as a lazy product of templates and fillers.

Models are in `models.nli`, scores in `measures.inference`.
"""

from evenhand.words.probes.catalog import ids, listing, probe
from evenhand.words.probes.dataset import Sample, export, stratified
from evenhand.words.probes.phrases import RELEASED, Surface
from evenhand.words.probes.probe import Filler, Label, Pair, Points, Probe

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
