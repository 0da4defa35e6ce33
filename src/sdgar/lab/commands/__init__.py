"""The commands for experiments."""

COMMANDS = {
    "compare": (
        "Compare systems on the same rows, with the same seeds, and by a paired test over users.",
        "sdgar.lab.commands.compare:compare",
    ),
    "tune": (
        "Search a system's settings for the best --metric on validation rows.",
        "sdgar.lab.commands.compare:tune",
    ),
    "blend": (
        "Add the scores of two models of the same events: the sum is a model like any other.",
        "sdgar.lab.commands.blend:blend",
    ),
    "evaluate:run": (
        "Measure ranked lists of another system, from files of TREC.",
        "sdgar.lab.commands.trec_run:RUN",
    ),
    "paper": (
        "Regenerate a table or a figure of the paper: data first, then Markdown and PNG from it.",
        "sdgar.lab.commands.paper:paper",
    ),
    "data download": (
        "Download the raw file of one of the paper's data sets, and check its digest.",
        "sdgar.lab.commands.paper:download",
    ),
    "data prepare": (
        "Prepare one of the paper's data sets from its raw file, as the paper does.",
        "sdgar.lab.commands.paper:prepare",
    ),
    "data synthetic": (
        "Make up events with the size and skew of a known data set.",
        "sdgar.lab.commands.paper:synthetic",
    ),
}
"""The table of the entry point ``lab`` of the group ``sdgar.commands``."""
