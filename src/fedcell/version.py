"""The version, where everything reads it."""

__version__ = "0.1.0"
