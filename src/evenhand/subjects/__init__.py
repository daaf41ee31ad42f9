"""What can be audited: each subject opens from an address and offers views, which measures ask for.

One file per kind of subject; `opening` finds the kind of an address.
"""

from evenhand.subjects.opening import open_subject
from evenhand.subjects.subject import SUBJECTS, VIEWS, Address, Change, Subject, TextView, ViewName

__all__ = ["SUBJECTS", "VIEWS", "Address", "Change", "Subject", "TextView", "ViewName", "open_subject"]
