"""Proofs: scenarios of our own code and of asyncio's, explored. ``python3 dev prove``."""
