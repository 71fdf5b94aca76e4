"""Affine predictors, whose tasks are geometry; proofs, and the verification of every answer."""
