"""Answers that are made of parts of known contexts: cells of maps, values of columns."""

from cfopt.search.edits.search import Edits
from cfopt.search.edits.vocabulary import Vocabulary

__all__ = ["Edits", "Vocabulary"]
