"""The texts that people see while something runs, and when they print a value."""
