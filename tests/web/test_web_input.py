"""What the explorer's server refuses, and how it says so; its headers, and who may ask."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from PIL import Image
from tests.patient import PATIENT
from tests.serving import Client, serving

from cfopt.web.address import Address
from cfopt.web.headers import HEADERS
from cfopt.web.limits import Limits
from cfopt.web.pictures import Canvas
from cfopt.web.process import Source
from cfopt.web.server import create_app

LIMITS = replace(PATIENT, body=200_000, pixels=300 * 300)
ASKED: dict[str, Any] = {
    "pipeline": "grid",
    "context": {"row": 0},
    "question": {"kind": "absolute", "alternative": {"row": 5}},
}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with serving(Source(pixels=LIMITS.pixels), LIMITS) as client:
        yield client


def _but(**changed: Any) -> dict[str, Any]:
    return ASKED | changed


def _wish(alternative: Any, pipeline: str = "grid", **more: Any) -> dict[str, Any]:
    question = {"kind": "absolute", "alternative": alternative} | more
    return _but(pipeline=pipeline, question=question)


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        (_but(pipeline="gird"), 404, "There is no pipeline 'gird'."),
        (_but(pipeline="../own"), 404, "There is no pipeline '../own'."),
        (_but(context={}), 422, "exactly one of values, image, row and task is needed"),
        (_but(context={"row": 1, "values": [1]}), 422, "got values and row"),
        (
            _but(context={"row": 50}),
            422,
            "There is no row 50: Streets across town has rows 0 to 49.",
        ),
        (_but(context={"row": -1}), 422, "context.row: Input should be greater than or equal to 0"),
        (_but(context={"row": 1.5}), 422, "context.row: Input should be a valid integer"),
        (_but(context={"row": True}), 422, "context.row: Input should be a valid integer"),
        (_but(context={"row": 10**30}), 422, "context.row"),
        (_but(context={"values": [0] * 9}), 422, "The context needs 10 values"),
        (
            _but(context={"values": ["a"] * 10}),
            422,
            "context.values.0: Input should be a valid number",
        ),
        (_but(context={"values": [9] * 10}), 422, "'rain' is 9, "),
        (_but(context={"image": "abc"}), 422, "This pipeline reads tables"),
        (
            _but(context={"file": "/etc/passwd"}),
            422,
            "context.file: Extra inputs are not permitted",
        ),
        (_but(weights="model.pt"), 422, "weights: Extra inputs are not permitted"),
        (_but(plausible=True), 422, "has no generative model"),
        (_but(plausible="yes"), 422, "plausible: Input should be a valid boolean"),
        (_but(seconds=0), 422, "seconds: Input should be greater than 0"),
        (_but(features={"locked": ["rian"]}), 422, "Did you mean 'rain'?"),
        (_but(features={"lower": {"rain": 2}, "upper": {"rain": 1}}), 422, "lower <= upper"),
        (_but(features={"lower": {"rain": 2.9}}), 422, "bound 2.9"),
        (_but(features={"upper": {"\ud800": 1}}), 422, ""),
        (_but(question={"kind": "why"}), 422, "There is no criterion 'why'. There are: Absolute"),
        (
            _but(question={"kind": "absolute"}),
            422,
            "A question of kind absolute needs an alternative",
        ),
        (_but(question={"kind": "epsilon"}), 422, "epsilon is missing"),
        (_but(question={"kind": "epsilon", "epsilon": -1}), 422, "Epsilon needs"),
        (_wish({"row": 5}, epsilon=1), 422, "A question of kind absolute has no epsilon"),
        (_wish({"row": 5}, margin=-1), 422, "margin needs to be a finite number >= 0, got -1.0."),
        (_wish({"row": 99}), 422, "There is no row 99"),
        (_wish({}), 422, "exactly one of path and row is needed, got none"),
        (_wish("A-B-C"), 422, "question.alternative"),
        (_wish([]), 422, ""),
        (_wish([1] * 39), 422, "40"),
        (_wish([1] * 40), 422, "Absolute needs a feasible alternative"),
        (_wish([0.5] * 40), 422, "is not a path: 'A-B' is 0.5, but an edge is taken"),
        (_wish({"path": [[0, 0], [4, 4]]}), 422, "there is no arc from [0, 0] to [4, 4]"),
        (_wish({"path": [[0, 0], [0, 1]]}), 422, "The path needs to end at [4, 4], got [0, 1]"),
        (_wish({"path": [[0, 0], [0, 5]]}), 422, "The path leaves the map at [0, 5]"),
        (_wish({"path": [[0, 0, 0]]}), 422, "at most 2 items"),
        (_wish({"path": ["A", "B", "?"]}), 422, "there is no '?'"),
        (_wish({"path": ["A", 3]}), 422, "valid list"),
        (_wish({"path": []}), 422, "at least 1 item"),
        (
            _wish([1] * 16, "knapsack"),
            422,
            "69.5 over",
        ),
        (_wish({"path": [[0, 0]]}, "knapsack"), 422, "A path is for routes"),
        (_wish({"path": [[0, 0], [1, 1]]}, "terrain"), 422, "The path needs to end at [11, 11]"),
        (_wish({"path": [[0, 0], [11, 11]]}, "terrain"), 422, "is not a single move"),
    ],
)
def test_bad_requests_are_told_in_a_sentence(
    client: Client, asked: dict[str, Any], status: int, words: str
) -> None:
    answer = client.post("/api/explain", content=json.dumps(asked), headers=_JSON)
    assert (answer.status_code, list(answer.json())) == (status, ["detail"])
    assert words in answer.json()["detail"]
    assert answer.json()["detail"].strip().endswith((".", "?"))


_JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"pipeline": "grid", "context": {"values": [NaN]}}',
        b'{"pipeline": "grid", "context": {"values": [1e999, Infinity, -Infinity]}}',
        b'{"pipeline": "grid", "context": {"row": ' + b"9" * 5000 + b"}}",
        b'{"pipeline": "\\ud800", "context": {"row": 0}}',
        b'{"pipeline": "grid", "context": {"values": ' + b"[" * 900 + b"]" * 900 + b"}}",
    ],
)
def test_bodies_that_make_no_sense_are_refused(client: Client, body: bytes) -> None:
    for path in ("/api/decide", "/api/explain"):
        answer = client.post(path, content=body, headers=_JSON)
        assert answer.status_code in (400, 404, 422)
        assert isinstance(answer.json()["detail"], str)


def _png(width: int, height: int) -> bytes:
    """A PNG whose header claims a size, with nothing behind it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = struct.pack(">I", zlib.crc32(kind + data))
        return struct.pack(">I", len(data)) + kind + data + check

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 10)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


def _saved(image: Image.Image, kind: str) -> bytes:
    file = io.BytesIO()
    image.save(file, kind)
    return file.getvalue()


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        ("!!", "The image is not in base64"),
        ("", "The image is not a PNG, a JPEG or a WebP"),
        ("data:text/html,hello", "needs to be in base64"),
        (b"GIF89a", "The image is not a PNG, a JPEG or a WebP"),
        (_saved(Image.new("RGB", (8, 8)), "GIF"), "The image is not a PNG, a JPEG or a WebP"),
        (_saved(Image.new("RGB", (8, 8)), "TIFF"), "The image is not a PNG, a JPEG or a WebP"),
        (_saved(Image.new("RGB", (301, 300)), "PNG"), "needs at most 90,000 pixels; 301 x 300 has"),
        (_saved(Image.new("RGB", (301, 300)), "WEBP"), "needs at most 90,000 pixels; 301 x 300"),
        (_saved(Image.new("RGB", (96, 96)), "WEBP")[:-30], "The image is not a PNG, a JPEG or"),
        (_png(60_000, 60_000), "needs at most 90,000 pixels"),
        (_png(2**31 - 1, 2**31 - 1), "pixels"),
        (_png(96, 96), "The image is damaged"),
        (_saved(Image.effect_noise((96, 96), 50), "PNG")[:-3000], "The image is damaged"),
    ],
)
def test_bad_images_are_told(client: Client, sent: str | bytes, words: str) -> None:
    image = sent if isinstance(sent, str) else base64.b64encode(sent).decode()
    asked = {"pipeline": "terrain", "context": {"image": image}}
    answer = client.post("/api/decide", json=asked)
    assert answer.status_code == 422
    assert words in answer.json()["detail"]


@pytest.mark.parametrize("mode", ["1", "L", "P", "LA", "RGBA", "CMYK", "I;16"])
def test_images_of_any_mode_are_read(client: Client, mode: str) -> None:
    kind = "JPEG" if mode == "CMYK" else "PNG"
    image = base64.b64encode(_saved(Image.new(mode, (96, 96)), kind)).decode()
    asked = {"pipeline": "terrain", "context": {"image": image}}
    assert client.post("/api/decide", json=asked).status_code == 200


def test_grey_in_16_bits_keeps_its_shades() -> None:
    canvas = Canvas(1, 2, 2, 0.0, 1.0, torch.float64, 100)
    grey = np.array([[0, 65535], [32768, 257]], dtype=np.uint16)
    read = canvas.read(base64.b64encode(_saved(Image.fromarray(grey), "PNG")).decode())
    assert read[0].numpy() == pytest.approx(grey / 65535, abs=1 / 255)


def test_webp_is_read_as_png_is() -> None:
    canvas = Canvas(3, 4, 4, 0.0, 1.0, torch.float64, 100)
    shades = np.random.default_rng(0).integers(0, 256, (4, 4, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(shades).save(file, "WEBP", lossless=True, exact=True)
    read = canvas.read(base64.b64encode(file.getvalue()).decode())
    assert read.permute(1, 2, 0).numpy() == pytest.approx(shades / 255)


def test_photos_are_read_as_they_are_seen() -> None:
    canvas = Canvas(1, 2, 2, 0.0, 1.0, torch.float64, 100)
    image = Image.fromarray(np.array([[0, 255], [0, 0]], dtype=np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned clockwise
    file = io.BytesIO()
    image.save(file, "PNG", exif=exif)
    assert canvas.read(base64.b64encode(file.getvalue()).decode())[0].tolist() == [[0, 0], [0, 1]]


def test_a_fault_of_the_server_is_reported_with_all_headers() -> None:
    app = create_app(Source(), Limits(), Address("localhost", 80))

    @app.get("/broken")
    async def broken() -> None:
        raise RuntimeError("a secret of the server")

    async def asked() -> httpx.Response:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return await client.get("/broken")

    answer = asyncio.run(asked())
    assert answer.status_code == 500
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert answer.json() == {"detail": "The server failed to answer this request."}


def test_maps_have_no_features_to_lock(client: Client) -> None:
    asked = _wish({"row": 5}, "terrain") | {"features": {"locked": ["x0"]}}
    answer = client.post("/api/explain", json=asked)
    assert answer.status_code == 422
    assert "for tables, not for images" in answer.json()["detail"]


@pytest.mark.parametrize("chunked", [False, True])
def test_large_bodies_are_refused_also_in_pieces(client: Client, chunked: bool) -> None:
    body = json.dumps({"pipeline": "x" * (LIMITS.body + 1)}).encode()
    pieces = (body[k : k + 5000] for k in range(0, len(body), 5000))
    answer = client.post("/api/decide", content=pieces if chunked else body, headers=_JSON)
    assert answer.status_code == 413
    assert answer.json()["detail"] == "A request may be at most 0.2 MB."


def test_every_answer_carries_the_security_headers(client: Client) -> None:
    paths = ("/", "/docs", "/api/health", "/api/tasks/none", "/nowhere", "/openapi.json")
    answers = [client.get(path) for path in paths]
    answers += [client.post("/api/decide", content=b"x"), client.get("/", headers={"Host": "evil"})]
    for answer in answers:
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "cache-control" in answer.headers
        assert "access-control-allow-origin" not in answer.headers
        assert "server" not in answer.headers
    assert "unsafe" not in HEADERS["Content-Security-Policy"]


@pytest.mark.parametrize(
    "path",
    [
        "/static/../server.py",
        "/static/%2e%2e/server.py",
        "/static/..%2fserver.py",
        "/static//etc/passwd",
        "/static/%00",
        "/t/../../etc/passwd",
        "/api/tasks/..%2f..%2fetc",
        "/api/pipelines/%2e%2e",
        "/api/pipelines/grid/contexts/50",
        "/api/pipelines/grid/contexts/-1",
        "/api/pipelines/grid/thumbnails",
        "/api/tasks/none/events",
        "/api/tasks/none/result.png",
    ],
)
def test_what_is_not_there_is_not_found(client: Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 404
    assert isinstance(answer.json()["detail"], str)


@pytest.mark.parametrize("row", ["x", "1.5", "1e3", "9" * 5000])
def test_row_numbers_in_addresses_are_checked(client: Client, row: str) -> None:
    assert client.get(f"/api/pipelines/grid/contexts/{row}").status_code in (404, 422)
