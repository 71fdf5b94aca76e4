"""What the predictors are worth: `python -m cfopt.datasets.flights` prints it."""

from __future__ import annotations

from cfopt.datasets.flights.data import load
from cfopt.datasets.flights.regret import held_out_regret


def main() -> None:
    """Print the minutes that each predictor's plans lose a day, on days that it has not seen."""
    flights = load()
    print(f"Minutes lost a day on held-out days ({len(flights)} days, every fifth held out):")
    print(held_out_regret(flights).to_string(float_format="{:.1f}".format))


if __name__ == "__main__":
    main()
