"""English function words, by class. Our own list: the closed classes of any English grammar, and clitics of treebanks.

Words of quantity that carry meaning (many, several) are left out, as are gendered nouns. Bordia & Bowman 2019 exclude
"stop words" without saying which; with this list their fixed-window numbers come out (docs/how-to/corpus.md).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from evenhand.errors import UsageError
from evenhand.files import existing

CLASSES: dict[str, str] = {
    "pronouns": """i me my mine myself you your yours yourself yourselves he him his himself she her hers herself it its
        itself we us our ours ourselves they them their theirs themselves who whom whose which what this that these
        those""",
    "determiners": "a an the some any no each every all both few more most other such own same",
    "prepositions": """of at by for with about against between into through during before after above below to from up
        down in out on off over under""",
    "conjunctions": "and but if or because as until while than nor so",
    "adverbs": "again further then once here there when where why how not only too very just now",
    "auxiliaries": """am is are was were be been being have has had having do does did doing will would shall should can
        could may might must""",
    "clitics": """'s n't 're 've 'd 'll 'm s t d ll m o re ve y don ain aren couldn didn doesn hadn hasn haven isn
        mightn mustn needn shan shouldn wasn weren won wouldn""",
    "contractions": """don't ain't aren't couldn't didn't doesn't hadn't hasn't haven't isn't mightn't mustn't needn't
        shan't shouldn't wasn't weren't won't wouldn't can't cannot i'm you're he's she's it's we're they're i've you've
        we've they've i'll you'll he'll she'll it'll we'll they'll i'd you'd he'd she'd we'd they'd that's that'll
        should've""",
}
ENGLISH: tuple[str, ...] = tuple(dict.fromkeys(word for words in CLASSES.values() for word in words.split()))


def stop_list(given: str | Path | Iterable[str]) -> tuple[str, ...]:
    """The stop words that a name (`english`, `none`), a file of words or a list means."""
    if given == "english":
        return ENGLISH
    if isinstance(given, str) and given in ("", "none"):
        return ()
    if isinstance(given, (str, Path)):
        return tuple(existing(Path(given), what="stop list").read_text(encoding="utf-8").split())
    words = tuple(given)
    if not all(isinstance(word, str) for word in words):
        raise UsageError("stop_words must be a list of words", hint="or english, or the name of a file of words")
    return words
