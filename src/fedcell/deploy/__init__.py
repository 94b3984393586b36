"""What carries methods and runs to other processes and machines."""
