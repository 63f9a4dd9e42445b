"""Benchmarks: what the library costs, as ratios to peers and to the limit, in one run.

``python3 dev bench SUITE`` runs them. A ratio below 1 means that ours is cheaper.
"""
