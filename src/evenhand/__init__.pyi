# The public names, for editors, type checkers, and the package itself, which finds a name here on first use.

from evenhand import corpus as corpus
from evenhand import engines as engines
from evenhand import measures as measures
from evenhand import mitigations as mitigations
from evenhand import stats as stats
from evenhand import subspaces as subspaces
from evenhand import words as words
from evenhand.audit import Audit as Audit
from evenhand.errors import EvenhandError as EvenhandError
from evenhand.errors import EvenhandWarning as EvenhandWarning
from evenhand.measures import Measurement as Measurement
from evenhand.measures.inference import probe as probe
from evenhand.mitigations import VectorMap as VectorMap
from evenhand.models.vectors import Coverage as Coverage
from evenhand.models.vectors import Vectors as Vectors
from evenhand.subjects import Subject as Subject
from evenhand.subjects import open_subject as open  # noqa: F401  # another name, offered here
from evenhand.subspaces import Subspace as Subspace
from evenhand.version import __version__ as __version__
from evenhand.words import Concept as Concept
from evenhand.words import Pairs as Pairs
from evenhand.words import Query as Query
from evenhand.words import Template as Template
from evenhand.words import WordSet as WordSet
from evenhand.words import concept as concept
from evenhand.words import pairs as pairs
from evenhand.words import query as query
from evenhand.words import wordset as wordset
