"""Models, the local training engines and evaluation."""
