"""Grading code that models write.

Running such code is dangerous. The sandbox limits what a program can do; it is **not a
security boundary**.
"""

from millpond.jobs.codeeval._job import codeeval

__all__ = ["codeeval"]
