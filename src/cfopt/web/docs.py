"""The reference of the HTTP interface as a page that needs no network."""

from __future__ import annotations

from fastapi import FastAPI


def add(app: FastAPI) -> None:
    """Serve the page."""
