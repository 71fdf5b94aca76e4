"""Renderers of scenes, thin ones: matplotlib (`mpl`), SVG (`svg`), and the colours of both."""
