"""What the machine has: cores and memory."""
