"""The commands of the service and of its store: serve, ab, keys, and some of data."""

COMMANDS = {
    "serve": (
        "Serve recommendations, similar items, reasons, feedback and a page over HTTP.",
        "sdgar.serve.commands.serve:serve",
    ),
    "demo:serve": ("Serve the model of the demo.", "sdgar.serve.commands.serve:DEMO"),
    "ab": (
        "Compare the variants of a server by what users did with their lists.",
        "sdgar.serve.commands.store:ab",
    ),
    "keys": ("Create, list and revoke the API keys of a store.", None),
    "keys add": (
        "Create an API key and show it once: the store keeps only its hash.",
        "sdgar.serve.commands.store:add",
    ),
    "keys list": (
        "Show the keys of a store, without their secrets.",
        "sdgar.serve.commands.store:list_",
    ),
    "keys revoke": (
        "Revoke a key for good; servers notice within seconds.",
        "sdgar.serve.commands.store:revoke",
    ),
    "data export": (
        "Write all events of a store to a file.",
        "sdgar.serve.commands.store:export",
    ),
    "data import-items": (
        "Import names, pictures, categories and features of items into a store.",
        "sdgar.serve.commands.store:import_items",
    ),
    "data import-users": (
        "Import names, pictures, categories and features of users into a store.",
        "sdgar.serve.commands.store:import_users",
    ),
    "data copy": (
        "Copy a whole store into a new one, such as a SQLite file into a PostgreSQL database.",
        "sdgar.serve.commands.store:copy",
    ),
}
"""The table of the entry point ``serve`` of the group ``sdgar.commands``."""
