"""Options of commands, and how their texts become values."""
