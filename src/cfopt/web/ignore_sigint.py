"""Ctrl-C is meant for the server, which then ends the process that has imported this."""

from __future__ import annotations

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
# Until here it was held back.
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
