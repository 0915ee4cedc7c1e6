"""Translations of ATen operators into Opweld's, by family; importing this registers all of them."""

from opweld.torch.lower import (  # noqa: F401
    attention,
    contract,
    convolution,
    elementary,
    indexing,
    norms,
    pointwise,
    reductions,
    sources,
    views,
)
