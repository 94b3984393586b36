"""How a client plans its own steps, clock and power: OSAFL, its baselines and RawHFL."""
