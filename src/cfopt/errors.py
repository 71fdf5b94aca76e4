"""What can go wrong: misuse is an exception, an expected outcome is a status."""


class CfoptError(Exception):
    """The parent of every error that cfopt raises on purpose."""


class InputError(CfoptError, ValueError):
    """The caller's input cannot be used; the message says need, got and remedy."""


class StorageError(InputError):
    """A file could not be written: no room, no permission, or a broken disk."""


class ChangedError(InputError):
    """A file is no longer what results have been made from."""


class PredictorError(CfoptError, RuntimeError):
    """The predictor cannot be explained: wrong output, no gradient, not repeatable."""


class SolverError(CfoptError, RuntimeError):
    """The solver found no optimum: infeasible, unbounded, out of time, or broken."""


class MissingExtraError(CfoptError, ImportError):
    """An optional dependency is needed and not installed."""


def in_words(error: BaseException) -> str:
    """The kind of an error and what it says, in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


#: What is raised whichever rows are asked about; anything else may concern a single one.
MISUSE = (InputError, MissingExtraError)
