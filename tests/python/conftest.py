"""What every test runs under."""

import os

import pytest


def pytest_configure(config: pytest.Config) -> None:
    """Leaves aside what somebody has measured on this machine; tests of tuning say otherwise."""
    os.environ["OPWELD_TUNED"] = "0"
