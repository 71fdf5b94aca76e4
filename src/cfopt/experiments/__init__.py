"""The numerical study of the paper, reproduced."""
