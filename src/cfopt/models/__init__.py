"""Trained models that come with the package."""

from cfopt.models.terrain import TerrainModels, load_terrain

__all__ = ["TerrainModels", "load_terrain"]
