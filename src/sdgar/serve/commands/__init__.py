"""The commands of the service: serve, ab, keys, and those of its store."""

COMMANDS = {
    "serve": (
        "Answer over HTTP: recommendations, similar items, reasons, feedback, and a page.",
        "sdgar.serve.commands.serve:serve",
    ),
    "demo:serve": ("Serve the model of the demo.", "sdgar.serve.commands.serve:DEMO"),
    "ab": (
        "Compare the variants of a server by what users did with their lists.",
        "sdgar.serve.commands.store:ab",
    ),
    "keys": ("Make, list and revoke the API keys of a store.", None),
    "keys add": (
        "Make an API key and show it, once: the store keeps only its hash.",
        "sdgar.serve.commands.store:add",
    ),
    "keys list": (
        "Show the keys of a store, without their secrets.",
        "sdgar.serve.commands.store:list_",
    ),
    "keys revoke": (
        "Take a key back for good; servers hear of it within seconds.",
        "sdgar.serve.commands.store:revoke",
    ),
    "data export": (
        "Write all events of a store to a file, complete or not at all.",
        "sdgar.serve.commands.store:export",
    ),
    "data import-items": (
        "Put names, pictures, categories and features of items into a store.",
        "sdgar.serve.commands.store:import_items",
    ),
    "data import-users": (
        "Put names, pictures, categories and features of users into a store.",
        "sdgar.serve.commands.store:import_users",
    ),
    "data copy": (
        "Copy a whole store into a new one, such as a SQLite file into a PostgreSQL database.",
        "sdgar.serve.commands.store:copy",
    ),
}
"""The table of the entry point ``serve`` of the group ``sdgar.commands``."""
