"""Holdfast from Python: a client on the standard library, adapters for trainers, and a trainer, which needs torch."""

from .client import Client, HoldfastError, Session, Unreachable

__all__ = ["Client", "HoldfastError", "Session", "Unreachable"]
__version__ = "0.1.0"
