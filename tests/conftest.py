"""Async tests run on a fresh loop, each with a deadline, so that a regression ends."""

import asyncio
import inspect

import pytest

DEADLINE_SECONDS = 10.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a coroutine test; ``@pytest.mark.deadline(seconds)`` allows it longer."""
    function = pyfuncitem.obj
    if not inspect.iscoroutinefunction(function):
        return None
    names = inspect.signature(function).parameters
    arguments = {name: pyfuncitem.funcargs[name] for name in names}
    marker = pyfuncitem.get_closest_marker("deadline")
    seconds = marker.args[0] if marker else DEADLINE_SECONDS

    async def bounded() -> None:
        async with asyncio.timeout(seconds):
            await function(**arguments)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not left, f"tasks left behind: {left}"

    asyncio.run(bounded())
    return True
