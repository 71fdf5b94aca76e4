"""The command line: one function for each command; the work is done elsewhere.

Commands import what they need themselves, so that help and mistakes get an answer at once.
"""

from cfopt.cli import own_pipeline as own_pipeline
from cfopt.cli import tools as tools
from cfopt.cli.application import app as app


def main() -> None:
    """Run the command line."""
    app(prog_name="cfopt")
