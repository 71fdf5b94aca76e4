"""Models of other libraries: one file knows how to translate one kind of them.

They are asked in the order of the names below; the last one takes what no other knows.
"""

from cfopt.adapters.onnx import onnx
from cfopt.adapters.scikit import scikit
from cfopt.adapters.trees import trees
from cfopt.adapters.untranslated import untranslated

__all__ = ["onnx", "scikit", "trees", "untranslated"]
