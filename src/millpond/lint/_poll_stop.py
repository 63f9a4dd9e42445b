"""poll-stop: a state is looked at every so often, with a sleep between."""

import ast
from collections.abc import Iterator, Sequence

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Loop, Module, chains, inside, leaves, with_inside
from millpond.lint._names import chain, last
from millpond.lint._waits import is_sleep, is_stop_word

_PURE_CALLS = frozenset({"len", "bool", "any", "all", "min", "max", "float", "int", "isinstance"})
_STATE_CALLS = frozenset(
    {"is_set", "is_stopped", "is_ready", "is_closed", "is_closing", "is_running", "done"}
    | {"empty", "full", "qsize", "locked", "cancelled", "stopped", "closed", "ready"}
)
_SPEAKING = frozenset({"debug", "info", "warning", "error", "exception", "log", "print"})
_RUNNING = frozenset({"running", "is_running", "should_run", "keep_running", "alive"})


def look(module: Module) -> Iterator[Sighting]:
    """Find loops that sleep between two looks."""
    for function in module.coroutines:
        for loop in module.own(function):
            if not isinstance(loop, ast.While | ast.For):
                continue
            within = list(inside(loop))
            sleeps = [node for node in within if is_sleep(module, node)]
            awaits = [node for node in within if isinstance(node, ast.Await | ast.AsyncFor)]
            direct = [node for node in sleeps if _loop_of(module, node) is loop]
            if not direct or any(isinstance(node, ast.AsyncWith) for node in within):
                continue
            tests = list(_tests(module, loop))
            changed = _changed_by(loop)
            if len(awaits) == len(sleeps) and _only_looks(module, loop):
                polled = {it for test in tests for it in _polled(module, test, changed)}
                if polled:
                    # One that others can change, where there is a choice.
                    name = min(polled, key=lambda it: (not it.startswith("self."), it))
                    yield Sighting(loop, f"`{name}` is looked at again and again, with a sleep")
                    continue
            flags = {it for test in tests for it in _flags(module, test, changed)}
            flags -= {it for it in flags if _is_awaited(awaits, it)}
            slow = [node for node in direct if isinstance(node, ast.Await) and not _is_yield(node)]
            if flags and slow and not _is_cancelled(module, function):
                yield Sighting(slow[0], f"a sleep that `{min(flags)}` ends only when it is over")


def _loop_of(module: Module, node: ast.AST) -> Loop | None:
    for around in module.above(node):
        if isinstance(around, ast.While | ast.For | ast.AsyncFor):
            return around
    return None


def _is_yield(node: ast.Await) -> bool:
    """Whether it is ``sleep(0)``."""
    return (
        isinstance(node.value, ast.Call)
        and bool(node.value.args)
        and isinstance(node.value.args[0], ast.Constant)
        and node.value.args[0].value == 0
    )


def _tests(module: Module, loop: ast.While | ast.For) -> Iterator[ast.expr]:
    """Yield the tests that end the loop."""
    if isinstance(loop, ast.While):
        yield loop.test
    for node in with_inside(*loop.body):
        if (
            isinstance(node, ast.If)
            and leaves(node.body)
            and isinstance(node.body[-1], ast.Break | ast.Return)
            and _loop_of(module, node) is loop
        ):
            yield node.test


def _changed_by(loop: ast.AST) -> set[str]:
    """Return what the loop assigns itself: a count of attempts, an answer."""
    return {
        chain(node)
        for node in inside(loop)
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del)
    }


def _only_looks(module: Module, loop: ast.While | ast.For) -> bool:
    """Whether a loop calls nothing that could do any work."""
    for node in with_inside(*loop.body):
        if isinstance(node, ast.Call) and not _is_harmless(module, node):
            return False
        if isinstance(node, ast.Yield | ast.YieldFrom | ast.For | ast.Delete):
            return False
    return True


def _is_harmless(module: Module, call: ast.Call) -> bool:
    parent = module.parent(call)
    if is_sleep(module, parent):
        return True
    name = chain(call.func)
    if isinstance(call.func, ast.Attribute) and not name:
        return False
    return (
        name in _PURE_CALLS
        or last(name) in _SPEAKING
        or _is_time(module, call)
        or (last(name) in _STATE_CALLS and not call.args)
        or name.startswith("random.")
    )


def _is_time(module: Module, call: ast.Call) -> bool:
    name = module.names.resolve(call.func)
    return name.startswith("time.") or last(chain(call.func)) in {"time", "monotonic", "loop_time"}


def _polled(module: Module, test: ast.expr, changed: set[str]) -> set[str]:
    """Return the state of this process that a test looks at; nothing if it asks elsewhere."""
    functions: set[str] = set()
    for node in with_inside(test):
        if isinstance(node, ast.Call):
            if _is_time(module, node):
                return set()
            if not _is_harmless(module, node):
                return set()
            name = chain(node.func)
            if name in _PURE_CALLS:
                functions.add(name)
        elif isinstance(node, ast.Await | ast.NamedExpr | ast.Subscript):
            return set()
    return {
        dotted
        for dotted in chains(test)
        if dotted not in changed
        and dotted not in functions
        and dotted.partition(".")[0] not in changed
        and not last(dotted).isupper()
        and not dotted[0].isupper()  # a member of an enumeration
    }


def _flags(module: Module, test: ast.expr, changed: set[str]) -> set[str]:
    """Return the flags in a test that ask for an end, each true or false by itself."""
    found: set[str] = set()
    for term in _terms(test):
        called = isinstance(term, ast.Call)
        if isinstance(term, ast.Call):
            if term.args or term.keywords or _is_time(module, term):
                continue
            term = term.func  # noqa: PLW2901 - the flag is what is called
        flag = chain(term)
        name = last(flag)
        if called and name in {"is_set", "is_stopped"}:
            flag = flag.rpartition(".")[0]
            name = "stop" if name == "is_stopped" else last(flag)
        is_stop = is_stop_word(name) or name.lstrip("_") in _RUNNING
        # What belongs to a part of a part is the state of something else.
        is_own = flag.removeprefix("self.").count(".") == 0
        if flag and is_stop and is_own and flag not in changed and not flag[0].isupper():
            found.add(flag)
    return found


def _terms(test: ast.expr) -> Iterator[ast.expr]:
    match test:
        case ast.BoolOp(values=values):
            for value in values:
                yield from _terms(value)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _terms(operand)
        case _:
            yield test


def _is_awaited(awaits: Sequence[ast.AST], flag: str) -> bool:
    """Whether the loop also waits for the flag itself."""
    return any(
        dotted == flag or dotted.startswith(f"{flag}.")
        for node in awaits
        if isinstance(node, ast.Await)
        for dotted in chains(node.value)
    )


def _is_cancelled(module: Module, function: ast.AST) -> bool:
    """Whether somebody in the same class cancels something, most likely the sleeper."""
    around = module.class_of(function) or module.tree
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "cancel"
        for node in ast.walk(around)
    )


RULE = Rule(
    name="poll-stop",
    why="What happens during the sleep is noticed late, and a shorter sleep costs wake-ups for"
    " nothing.",
    mend="Wait for the change itself: `wait_until(notify, predicate)`, or"
    " `wait_until_or_stopped` beside a timeout where the stop must end a pause.",
    look=look,
)
