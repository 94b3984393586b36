"""The engine for CPUs: every core trains one client after another."""
