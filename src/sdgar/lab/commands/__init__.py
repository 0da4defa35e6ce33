"""The commands for experiments."""

COMMANDS = {
    "compare": (
        "Compare systems on the same rows, with the same seeds, and by a paired test over users.",
        "sdgar.lab.commands.compare:compare",
    ),
    "tune": (
        "Search a system's settings for the best --metric on validation rows.",
        "sdgar.lab.commands.tune:tune",
    ),
    "paper": (
        "Regenerate a table or a figure of the paper: data first, then Markdown and PNG from it.",
        "sdgar.lab.commands.paper:paper",
    ),
    "data prepare": (
        "Prepare one of the paper's data sets from its raw file, as the paper does.",
        "sdgar.lab.commands.data_sets:prepare",
    ),
    "data download": (
        "Fetch the raw file of one of the paper's data sets; verified, resumed if interrupted.",
        "sdgar.lab.commands.data_sets:download",
    ),
    "data synthetic": (
        "Make up events with the size and skew of a known data set.",
        "sdgar.lab.commands.data_sets:synthetic",
    ),
}
"""The table of the entry point ``lab`` of the group ``sdgar.commands``."""
