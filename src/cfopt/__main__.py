"""`python -m cfopt`, the same as the command `cfopt`."""

from cfopt.cli import main

main()
