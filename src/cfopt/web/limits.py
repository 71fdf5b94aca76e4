"""What one server allows, so that no request can take it down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server; times in seconds, sizes in bytes.

    Arguments:
        connections: at the same time, streams included; idle ones make room for others.
        header_seconds: that the head of a request may take to arrive.
        body: of a request.
        body_seconds: that a request may take to arrive.
        pixels: of an image that is sent, before it is made smaller.
        queue: searches that wait; one more is answered with 429.
        live_queue: quick calls that wait.
        workers: searches that run at the same time.
        search_seconds: of one search.
        live_seconds: of one quick call, such as a decision.
        drawing_seconds: of one picture.
        loading_seconds: until a worker is ready.
        grace_seconds: that a worker has to stop by itself before it is killed.
        kept_tasks: tasks that are remembered; the oldest finished ones are forgotten.
        kept_bytes: that their results may take together.
        beat_seconds: between two events of a stream, at most.
    """

    connections: int = 256
    header_seconds: float = 10.0
    body: int = 4_000_000
    body_seconds: float = 20.0
    pixels: int = 2048 * 2048
    queue: int = 32
    live_queue: int = 64
    workers: int = 1
    search_seconds: float = 120.0
    live_seconds: float = 5.0
    drawing_seconds: float = 30.0
    loading_seconds: float = 60.0
    grace_seconds: float = 1.0
    kept_tasks: int = 500
    kept_bytes: int = 150_000_000
    beat_seconds: float = 0.25
