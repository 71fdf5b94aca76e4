"""Files on disk, tensors among them: whole or not at all, without executing code."""
