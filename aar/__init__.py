"""Aar: a coding agent and agent runtime on Trio."""

from aar._version import __version__

__all__ = ["__version__"]
