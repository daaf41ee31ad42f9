"""Measures that compare how near words are to sets of words. Directions belong in `geometry`."""

MEASURES = {
    "weat": "weat:weat",
    "ripa": "ripa:ripa",
    "rnd": "rnd:rnd",
    "rnsb": "rnsb:rnsb",
    "mac": "mac:mac",
    "ect": "ect:ect",
    "same": "same:same",
    "generalised-weat": "generalised_weat:generalised_weat",
}
