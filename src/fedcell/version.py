"""The version, which everything reads from here."""

__version__ = "0.1.0"
