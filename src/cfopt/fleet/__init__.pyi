from .dataset import Answers as Answers
from .dataset import explain_dataset as explain_dataset
