"""Import the slow libraries while the reader is still looking at the first page.

Importing torch and transformer-lens takes seconds. No page that can do without them imports them, and a background
thread brings them in after the first page has been delivered. The thread calls nothing of Streamlit.
"""

from __future__ import annotations

import importlib
import threading
import time

SLOW_MODULES = ("torch", "transformer_lens", "lab.models", "lab.analysis", "lab.plots")

_started = threading.Event()
_lock = threading.Lock()


def _import_all(delay: float) -> None:
    time.sleep(delay)  # an import holds the interpreter: let the browser fetch the page's own files first
    for name in SLOW_MODULES:
        try:
            importlib.import_module(name)
        except Exception:  # the page that needs the module reports this error where its reader can see it
            return


def start(delay: float = 3.0) -> bool:
    """Start the warming thread once per server process; returns whether this call started it."""
    with _lock:
        if _started.is_set():
            return False
        _started.set()
    threading.Thread(target=_import_all, args=(delay,), name="warm-imports", daemon=True).start()
    return True
