"""What every test runs under."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Leaves aside what was measured and compiled here before; tests of that say otherwise."""
    os.environ["OPWELD_TUNED"] = "0"
    os.environ["OPWELD_COMPILED"] = "0"
