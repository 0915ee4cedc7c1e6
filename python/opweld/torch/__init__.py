"""The backend of `torch.compile`, and the account of what it did.

    compiled = torch.compile(model, backend="opweld")

needs no import of this; it is found by its entry point.
"""

from opweld.torch.account import ModelAccount, account_of, explain
from opweld.torch.backend import backend, graphs
from opweld.torch.custom import custom_op

__all__ = ["ModelAccount", "account_of", "backend", "custom_op", "explain", "graphs"]
