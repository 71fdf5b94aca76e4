"""The reference of the HTTP interface as a page: made from the OpenAPI description, offline."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import FileResponse, HTMLResponse
from jinja2 import Environment, FileSystemLoader, StrictUndefined

FOLDER = Path(__file__).parent / "templates"


def add(app: FastAPI) -> None:
    """Serve the page and its style."""
    loader = FileSystemLoader(FOLDER)
    pages = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )

    @app.get("/docs", include_in_schema=False)
    async def page(request: Request) -> Response:
        described = app.openapi()
        html = pages.get_template("docs.html").render(
            title=app.title,
            version=app.version,
            address=str(request.base_url).rstrip("/"),
            operations=list(operations(described)),
        )
        return HTMLResponse(html)

    @app.get("/docs.css", include_in_schema=False)
    async def style() -> Response:
        return FileResponse(FOLDER / "docs.css", media_type="text/css")


def operations(described: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What the template shows of each operation of an OpenAPI description, in its order."""
    known = described["components"]["schemas"]
    for path, methods in described["paths"].items():
        for method, one in methods.items():
            content = one.get("requestBody", {}).get("content", {})
            reference = content.get("application/json", {}).get("schema", {}).get("$ref", "")
            body = known.get(reference.rpartition("/")[2], {})
            yield {
                "method": method.upper(),
                "path": path,
                "words": one.get("description", one.get("summary", "")),
                "fields": list(_fields(body, known)),
                "examples": [json.dumps(given, indent=2) for given in body.get("examples", [])],
                "answers": [(code, said["description"]) for code, said in one["responses"].items()],
            }


def _fields(
    schema: dict[str, Any], known: dict[str, Any], prefix: str = ""
) -> Iterator[dict[str, Any]]:
    """The fields of a body, and those of the objects within it."""
    for name, one in schema.get("properties", {}).items():
        inner = one.get("$ref", "").rpartition("/")[2]
        words = one.get("description", known.get(inner, {}).get("description", ""))
        needed = name in schema.get("required", [])
        yield {"name": prefix + name, "kind": _kind(one), "needed": needed, "words": words}
        if inner:
            yield from _fields(known[inner], known, f"{prefix}{name}.")


def _kind(schema: dict[str, Any]) -> str:
    """What a value may be, in a few words."""
    among = [
        one for one in schema.get("anyOf", schema.get("oneOf", [])) if one.get("type") != "null"
    ]
    if among:
        return " or ".join(dict.fromkeys(_kind(one) for one in among))
    if "enum" in schema:
        return " or ".join(f'"{value}"' for value in schema["enum"])
    if "$ref" in schema:
        return "object"
    if schema.get("type") == "array":
        return f"list of {_kind(schema.get('items', {}))}s"
    return str(schema.get("type", "any"))
