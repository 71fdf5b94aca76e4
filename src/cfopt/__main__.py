"""The command `cfopt`, also as `python -m cfopt`; it can tell if its own packages are missing."""

import sys

from cfopt.errors import MissingExtraError
from cfopt.extras import require


def main() -> None:
    """Run the command line, or say how to install it."""
    try:
        require("The command `cfopt`", "cli")
    except MissingExtraError as error:
        sys.exit(f"Error: {error}")
    from cfopt import cli

    cli.main()


if __name__ == "__main__":
    main()
