"""Kernels in Triton, which comes with PyTorch for GPUs: imported by name, and only there (`fused.kernels`)."""
