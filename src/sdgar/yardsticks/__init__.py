"""Yardsticks: known models that are computed in closed form or by exact sweeps, to compare with.

They have no sampler, no engine and no epochs; each is a record of hyper-parameters whose ``solve``
turns interactions into scores. The plainest one, most popular, is ``evaluation.popularity``.
"""
