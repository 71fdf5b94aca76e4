"""Measurements behind what the project claims about speed: `make bench`."""
