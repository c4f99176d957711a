"""Holdfast from Python: a client on the standard library, and the parts of a trainer, which need torch."""

from .client import Client, HoldfastError, Session

__all__ = ["Client", "HoldfastError", "Session"]
__version__ = "0.1.0"
