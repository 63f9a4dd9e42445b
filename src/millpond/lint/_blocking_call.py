"""blocking-call: a call in an ``async def`` that holds the event loop."""

import ast
from collections.abc import Iterator

from millpond.lint._finding import Rule, Sighting
from millpond.lint._module import Module
from millpond.lint._names import chain, last

_VERBS = ("get", "post", "put", "patch", "delete", "head", "options", "request")
CALLS = frozenset(
    {"time.sleep", "builtins.open", "io.open", "builtins.input", "sqlite3.connect"}
    | {f"subprocess.{name}" for name in ("run", "call", "check_call", "check_output")}
    | {"subprocess.getoutput", "subprocess.getstatusoutput", "os.system", "os.wait", "os.waitpid"}
    | {"os.fsync", "os.fdatasync", "urllib.request.urlopen", "urllib.request.urlretrieve"}
    | {"socket.create_connection", "socket.getaddrinfo", "socket.gethostbyname"}
    | {f"shutil.{name}" for name in ("copy", "copy2", "copyfile", "copytree", "move", "rmtree")}
    | {"shutil.make_archive", "shutil.unpack_archive", "smtplib.SMTP", "ftplib.FTP"}
    | {"gzip.open", "bz2.open", "lzma.open", "zipfile.ZipFile", "tarfile.open"}
    | {"tempfile.TemporaryFile", "tempfile.NamedTemporaryFile"}
    | {f"{module}.{verb}" for module in ("requests", "httpx", "httpx2") for verb in _VERBS}
)
"""By the name that was imported."""
_STATEMENTS = frozenset({"execute", "executemany", "executescript"})
_CONNECTION = _STATEMENTS | {"commit", "rollback", "backup", "close"}
_SENDING = frozenset({*_VERBS, "send", "stream"})
METHODS: dict[str, frozenset[str]] = {
    "sqlite3.connect": _CONNECTION,
    "sqlite3.Connection": _CONNECTION,
    "sqlite3.Cursor": _STATEMENTS | {"fetchone", "fetchmany", "fetchall"},
    "subprocess.Popen": frozenset({"wait", "communicate"}),
    "threading.Thread": frozenset({"join"}),
    "threading.Event": frozenset({"wait"}),
    "threading.Condition": frozenset({"wait", "wait_for"}),
    "threading.Barrier": frozenset({"wait"}),
    "requests.Session": _SENDING,
    "httpx.Client": _SENDING,
    "httpx2.Client": _SENDING,
    "pathlib.Path": frozenset({"open"}),
}
"""By what the object was made by, or is annotated as."""
_RUNNERS = frozenset({"create_task", "start_soon"})  # of a group
PATH_METHODS = frozenset({"read_text", "read_bytes", "write_text", "write_bytes"})
"""Names that only a path has; an awaited one is that of an asynchronous path."""


def look(module: Module) -> Iterator[Sighting]:
    """Find blocking calls directly inside coroutines."""
    for function in module.coroutines:
        for node in module.own(function):
            if isinstance(node, ast.Call) and not isinstance(module.parent(node), ast.Await):
                name = _blocking(module, node)
                if name:
                    yield Sighting(node, f"`{name}` blocks the event loop")


def _blocking(module: Module, call: ast.Call) -> str:
    names = module.names
    name = names.resolve(call.func)
    if name in CALLS:
        return name.removeprefix("builtins.")
    if isinstance(call.func, ast.Attribute):
        method = call.func.attr
        if method in PATH_METHODS:
            return f"Path.{method}" if _may_be_path(module, call, call.func) else ""
        kind = names.kind(call.func.value)
        if method in METHODS.get(kind, ()):
            return f"{kind}.{method}"
    return ""


def _may_be_path(module: Module, call: ast.Call, function: ast.Attribute) -> bool:
    """Whether nothing speaks against it: neither another kind, nor a namesake, nor arguments."""
    kind = module.names.kind(function.value)
    if kind:
        return kind.startswith("pathlib.")
    return (
        len(call.args) == (1 if function.attr.startswith("write") else 0)
        and not any(it.name == function.attr for it in module.functions)
        and not _is_handed_on(module, call)
    )


def _is_handed_on(module: Module, call: ast.Call) -> bool:
    """Whether what a call returns is given to something that runs coroutines."""
    above = module.parent(call)
    if isinstance(above, ast.Starred | ast.List | ast.Tuple):
        above = module.parent(above)
    if not isinstance(above, ast.Call):
        return False
    name = module.names.resolve(above.func)
    return name.startswith(("asyncio.", "anyio.")) or last(chain(above.func)) in _RUNNERS


RULE = Rule(
    name="blocking-call",
    why="While it blocks, no other task runs: no timeout fires, no cancel arrives, no heartbeat"
    " is sent.",
    mend="Hand the function to a thread (`asyncio.to_thread`, or a worker of your own), or use"
    " an asynchronous counterpart.",
    look=look,
)
