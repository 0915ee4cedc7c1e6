"""The suites of `./dev bench`: each takes the settings and returns its contests."""

from collections.abc import Callable

from bench.suites.contest import Contest, Settings
from bench.suites.encoder import encoder
from bench.suites.matmul import matmul

SUITES: dict[str, Callable[[Settings], list[Contest]]] = {
    "encoder": encoder,
    "matmul": matmul,
}
