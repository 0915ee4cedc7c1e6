"""What tests of the cache folder begin with."""

from __future__ import annotations

import os
from pathlib import Path

MODEL = """graph g(%x: f32[rows, 24]) {
  %w = constant {value = f32[24, 100] random 1}
  %m = matmul(%x, %w)
  %y = relu(%m)
  return %y as "y"
}"""


class OwnCache:
    """A small model, and an environment with a cache folder of its own.

    `switch` is the variable by which tests leave aside what these are about.
    """

    def __init__(self, folder: Path, switch: str) -> None:
        self.model = folder / "model.graph"
        self.model.write_text(MODEL)
        self.cache = folder / "cache"
        self.environment = {**os.environ, "OPWELD_CACHE_DIR": str(self.cache)}
        self.environment.pop(switch, None)
