"""The suites of `./dev bench`.

Each takes whether tiny sizes will do and how many threads there are, and returns its cases; the
first line of its docstring says what it measures.
"""

from collections.abc import Callable

from bench.case import Case
from bench.suites.attention import attention
from bench.suites.bf16 import bf16
from bench.suites.cache import cache
from bench.suites.chain import chain
from bench.suites.encoder import encoder
from bench.suites.layer import layer
from bench.suites.matmul import matmul
from bench.suites.moe import moe
from bench.suites.norms import norms
from bench.suites.pointwise import pointwise
from bench.suites.small_batch import small_batch

SUITES: dict[str, Callable[[bool, int], list[Case]]] = {
    "pointwise": pointwise,
    "norms": norms,
    "matmul": matmul,
    "attention": attention,
    "cache": cache,
    "bf16": bf16,
    "chain": chain,
    "moe": moe,
    "layer": layer,
    "encoder": encoder,
    "small-batch": small_batch,
}
