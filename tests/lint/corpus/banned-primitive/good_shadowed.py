"""The name stands for something else here."""

from asyncio import wait_for


def ask(wait_for):
    return wait_for(3)


__all__ = ["ask", "wait_for"]
