"""What training on shards takes: bytes, operations, seconds and money, computed before it starts.

``workload.py`` says what is trained, ``machines.py`` on what, and ``rates.py`` how fast a core is,
which ``probe.py`` measures. ``memory.py``, ``work.py`` and ``traffic.py`` count bytes in memory,
operations and bytes on the network. ``plan.py`` puts them together, ``limits.py`` says what ends
first as data grows, and ``estimate.py`` is the plan of a training that is about to start.
"""
