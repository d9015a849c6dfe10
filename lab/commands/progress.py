"""How far training is: a bar in a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any

LINE_SECONDS = 15.0
"""Where there is no terminal: the time between two lines."""
