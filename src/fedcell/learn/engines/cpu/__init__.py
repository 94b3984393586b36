"""One client after another on every core."""
