"""What one server allows, so that no request can take it down."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """The limits of a server; times in seconds, sizes in bytes.

    Arguments:
        connections: open at the same time, streams included; where all of them are in use, a
            request on one more gets a 503, and idle ones are closed for others.
        body: the bytes of a request's body.
        pixels: the pixels of an uploaded image, before it is made smaller.
        queue: searches that wait; one more is answered with 429.
        live_queue: quick calls that wait.
        workers: searches that run at the same time.
        search_seconds: the time that one search may take.
        live_seconds: the time that one quick call, such as a decision, may take.
        drawing_seconds: the time that one picture may take.
        loading_seconds: the time until a worker is ready.
        grace_seconds: the time that a worker has to stop by itself before it is killed.
        kept_tasks: tasks that are remembered; the oldest finished ones are forgotten.
        kept_bytes: the memory that their results may take together.
        unheard_seconds: the time after which a search that nobody follows or asks for is ended.
        beat_seconds: the longest time between two events of a stream.
    """

    connections: int = 256
    body: int = 4_000_000
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
    unheard_seconds: float = 10.0
    beat_seconds: float = 0.25
