"""Long runs that can be stopped: their folder, their pace and their threads."""
