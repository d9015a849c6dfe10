"""Ctrl-C and SIGTERM as a request to save and stop, for as long as nobody else handles them."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any

HANDLED = (signal.SIGINT, signal.SIGTERM)


class Signals:
    """with Signals() as signals: ... `signals.came` turns true at the first signal; a second one acts as
    usual.

    A handler that somebody else installed is left alone, and so is everything outside the main thread, where
    Python delivers no signals.
    """

    def __init__(self) -> None:
        self.came = False
        self._before: dict[signal.Signals, Any] = {}

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.came = True
        signal.signal(number, self._before[signal.Signals(number)])

    def __enter__(self) -> Signals:
        if threading.current_thread() is threading.main_thread():
            for number in HANDLED:
                if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
