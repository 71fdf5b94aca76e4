"""Long runs that can be stopped: their folder, their pace, and names that are not known."""
