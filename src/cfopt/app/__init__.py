"""A user's own pipeline from files to a report, as a configuration describes it."""
