"""The examples run as their docstrings say."""

import ast
import json
import re
from pathlib import Path

from tests.cli.support import processes, query, run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def documented(example: str) -> list[str]:
    """Return the arguments after `dev` in the example's docstring."""
    text = ast.get_docstring(ast.parse((EXAMPLES / example).read_text())) or ""
    (command,) = re.findall(r"^Run it with:\s+python3 dev (.+)$", text, re.MULTILINE)
    return str(command).split()


def test_translate_runs_as_its_docstring_says(tmp_path: Path) -> None:
    """From the root of the checkout, except that its run is kept elsewhere."""
    arguments = [*documented("translate.py"), "--json", "--runs-dir", str(tmp_path)]
    ended = run(*arguments, cwd=EXAMPLES.parent)
    assert ended.code == 0, ended.errors
    assert (ended.facts["items"], ended.facts["ok"]) == (6, 6)
    rows = query(Path(ended.facts["record"]), "SELECT key, value FROM outcomes")
    values = {int(key): json.loads(value) for key, value in rows}
    lines = [json.loads(line) for line in (EXAMPLES / "lines.jsonl").read_text().splitlines()]
    assert {line["id"]: line["text"] for line in lines} == {
        number: value["text"] for number, value in values.items()
    }
    assert values[1]["answer"] == "hetay illmay urnstay henway hetay aterway omescay"
    assert {number: value["words"] for number, value in values.items()} == {
        line["id"]: len(line["text"].split()) for line in lines
    }
    assert not processes("for line in sys.stdin: print(len(line.split())")


def test_translate_sets_bad_lines_aside(tmp_path: Path) -> None:
    """The other lines are translated; the bad ones are listed, and the exit code says it."""
    items = tmp_path / "lines.jsonl"
    items.write_text('{"id": 7}\n{"id": 1, "text": "one line"}\nno json\n["a list"]\n')
    ended = run("run", str(EXAMPLES / "translate.py"), "--items", "lines.jsonl", cwd=tmp_path)
    assert ended.code == 1
    assert "1 items: 1 ok. " in ended.output
    assert "3 lines of input set aside:" in ended.errors
    for number in (1, 3, 4):
        assert ended.errors.count(f"lines.jsonl:{number}: ") == 1


def test_translate_needs_its_items(tmp_path: Path) -> None:
    """Exit code 2 with the name of the option."""
    ended = run("run", str(EXAMPLES / "translate.py"), cwd=tmp_path)
    assert (ended.code, ended.output) == (2, "")
    assert "missing: --items" in ended.errors
