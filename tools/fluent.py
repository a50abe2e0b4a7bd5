"""Write the `__init__` files of the operators and sources, and the methods of the stream classes.

    python tools/fluent.py            write the files
    python tools/fluent.py --check    fail if one of them is not as it would be written

An operator is written once, in its file. `Stream`'s method has the same signature, with `self` in the place of
`source`. The docstring of the method is the first paragraph and the arguments of the operator's docstring.

The methods stand in the class itself, between the two marks `BEGIN` and `END`. The type variables that they need stand
between the same marks at the top of the file, and their imports among the others. The tool leaves everything else in
the file alone. It writes no method that the class defines by hand.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re
import subprocess
import sys
import textwrap
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "rstreams"
RUFF = str(Path(sys.executable).with_name("ruff"))
NOT_BLOCKING = frozenset({"partition", "publish", "replay"})  # they give other things than one stream
BEGIN = "# from here on written by tools/fluent.py: change the operator, then run `make format`"
END = "# written by tools/fluent.py up to here"
WIDTH = 120 - 8  # of a docstring's line, without the indentation of a method's body


@dataclass
class Function:
    """A public function of its own file, as the file has it.

    Attributes:
        name: Its name, and that of the file.
        signatures: Its overloads, if it has any, and then the function itself.
        imports: For every name the file imports or defines, the line that brings it in.
        type_variables: The lines that define the type variables, by their names.
    """

    name: str
    signatures: list[ast.FunctionDef]
    imports: dict[str, str]
    type_variables: dict[str, str] = field(default_factory=dict)

    @property
    def implementation(self) -> ast.FunctionDef:
        """Return the function itself."""
        return self.signatures[-1]


def functions(kind: str) -> list[Function]:
    """Return what the package `kind` offers: a function in each of its public files."""
    files = sorted((PACKAGE / kind).glob("[a-z]*.py"))
    return [_function(file, f"rstreams.{kind}.{file.stem}") for file in files]


def _function(file: Path, module: str) -> Function:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    imports: dict[str, str] = {}
    type_variables: dict[str, str] = {}
    signatures = []
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            imports |= {name.name: f"from {node.module} import {name.name}" for name in node.names}
        elif isinstance(node, ast.ClassDef):
            imports[node.name] = f"from {module} import {node.name}"
        elif isinstance(node, ast.FunctionDef) and node.name == file.stem:
            signatures.append(node)
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            for name in _targets(node):
                if "TypeVar(" in ast.unparse(node):
                    type_variables[name] = ast.unparse(node)
                else:
                    imports[name] = f"from {module} import {name}"
    assert signatures, f"{file} must define a function of its own name"
    return Function(file.stem, signatures, imports, type_variables)


def _targets(node: ast.Assign | ast.AnnAssign) -> list[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return [target.id for target in targets if isinstance(target, ast.Name)]


# ---------------------------------------------------------------------------------------------------- lists of packages


def package_list(kind: str, docstring: str) -> str:
    """Return the `__init__` of a package with one public function a file."""
    names = [function.name for function in functions(kind)]
    lines = [
        f'"""{docstring}"""',
        "",
        "from rstreams._checks.other_names import answer_names as _answer_names",
        "from rstreams._checks.publishers import require_source_in as _require_source_in",
    ]
    for name in names:
        reason = "  # noqa: A004 - the field's name" if hasattr(builtins, name) else ""
        lines.append(f"from rstreams.{kind}.{name} import {name}{reason}")
    calls = ["_answer_names(__name__)", "_require_source_in(__name__)"]
    return "\n".join([*lines, "", f"__all__ = {names!r}", "", *calls])


# ---------------------------------------------------------------------------------------------------------- the methods


class _Renamed(ast.NodeTransformer):
    """Put other expressions in the place of names."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return ast.parse(self._names[node.id], mode="eval").body if node.id in self._names else node


@dataclass
class Face(ABC):
    """A class whose methods are made from functions.

    Attributes:
        name: The class, such as "Stream".
        file: The file that defines it.
        kinds: The packages whose functions become methods.
        left_out: The functions that do not.
        refers: Whether a docstring is only a reference to that of `rstreams.Stream`.
    """

    name: str
    file: Path
    kinds: tuple[str, ...]
    left_out: AbstractSet[str] = frozenset()
    refers: bool = True

    def functions(self) -> list[tuple[str, Function]]:
        """Return the functions that become methods, each with its kind."""
        by_hand = _methods_by_hand(self.file, self.name)
        return [
            (kind, each)
            for kind in self.kinds
            for each in functions(kind)
            if each.name not in by_hand and each.name not in self.left_out
        ]

    def method(self, function: Function, kind: str) -> Iterator[str]:
        """Yield the lines of the method for a function, overloads included."""
        overloads = function.signatures[:-1]
        for signature in overloads:
            yield ""
            yield from self._one(signature, kind, overloaded=True)
        yield ""
        yield from self._one(_of_anything(function.implementation) if overloads else function.implementation, kind)

    def _one(self, signature: ast.FunctionDef, kind: str, *, overloaded: bool = False) -> Iterator[str]:
        method = ast.parse(ast.unparse(signature)).body[0]
        assert isinstance(method, ast.FunctionDef)
        items = _drop_source(method) if kind == "operators" else None
        itself = f"self: {self.name}[{items}]" if items else "self"
        method.returns, wraps = self._returns(method.returns)
        arguments = _call_arguments(method.args)
        if overloaded:
            yield "@overload"
        if kind == "sources":
            yield "@staticmethod"
        returns = f" -> {ast.unparse(method.returns)}:"
        parameters = [itself] if kind == "operators" else []
        parameters += [ast.unparse(method.args)] if arguments else []
        yield f"def {method.name}({', '.join(parameters)}){returns}"
        if overloaded:
            yield "    ..."
            return
        yield from textwrap.indent(_docstring(signature, kind, refers=self.refers), "    ").splitlines()
        yield "    " + self._body(method.name, kind, arguments, wraps=wraps)

    def _returns(self, returns: ast.expr | None) -> tuple[ast.expr, bool]:
        assert isinstance(returns, ast.Subscript), "a function here returns a Publisher of something"
        inner, wraps = returns.slice, False
        if isinstance(inner, ast.Subscript) and ast.unparse(inner.value) == "Publisher":
            inner = ast.parse(f"Stream[{ast.unparse(inner.slice)}]", mode="eval").body
            wraps = True
        return ast.parse(f"{self.name}[{ast.unparse(inner)}]", mode="eval").body, wraps

    @abstractmethod
    def _body(self, name: str, kind: str, arguments: list[str], *, wraps: bool) -> str:
        """Return the one line of the method `name`; `wraps` if each item becomes a stream."""


class StreamFace(Face):
    """The methods of `Stream`, which call the functions."""

    def _body(self, name: str, kind: str, arguments: list[str], *, wraps: bool) -> str:
        source = ["self._source"] if kind == "operators" else []
        call = f"{kind}.{name}({', '.join([*source, *arguments])})"
        return f"return Stream(shown_as({call}, Stream))" if wraps else f"return Stream({call})"


class BlockingFace(Face):
    """The methods of `BlockingStream`, which call those of `Stream`."""

    def _body(self, name: str, kind: str, arguments: list[str], *, wraps: bool) -> str:
        del kind, wraps
        return f"return self._with(self._stream.{name}({', '.join(arguments)}))"


def _drop_source(method: ast.FunctionDef) -> str | None:
    """Take the source out of the parameters, and put the items of `self` in the place of its type variable.

    Where the source must be one of special items, return their type.
    """
    arguments = method.args
    several = not (arguments.posonlyargs or arguments.args)
    if several:
        source = arguments.vararg
        assert source is not None, f"{method.name} has no source"
    else:
        source = (arguments.posonlyargs or arguments.args).pop(0)
    assert isinstance(source.annotation, ast.Subscript), f"{method.name}: the source is a Publisher of something"
    of = source.annotation.slice
    if several:
        source.arg = "others"
    if not isinstance(of, ast.Name) or (of.id != "T" and not several):
        # The items must be of a type that can be handed back to them, or have to do with others.
        return ast.unparse(of)
    if several:
        if of.id != "Any":
            _Renamed({of.id: "T_co | R"}).visit(method)
            source.annotation = ast.parse("Publisher[R]", mode="eval").body
    else:
        _Renamed({of.id: "T_co"}).visit(method)
    return None


def _of_anything(implementation: ast.FunctionDef) -> ast.FunctionDef:
    """Return the implementation behind overloads with parameters of any type: the overloads say which."""
    copy = ast.parse(ast.unparse(implementation)).body[0]
    assert isinstance(copy, ast.FunctionDef)
    arguments = copy.args
    rest = [*arguments.posonlyargs, *arguments.args][0 if arguments.vararg else 1 :]
    for argument in [*rest, *arguments.kwonlyargs]:
        argument.annotation = ast.Name("Any")
    return copy


def _call_arguments(arguments: ast.arguments) -> list[str]:
    return [
        *(each.arg for each in [*arguments.posonlyargs, *arguments.args]),
        *([f"*{arguments.vararg.arg}"] if arguments.vararg else []),
        *(f"{each.arg}={each.arg}" for each in arguments.kwonlyargs),
        *([f"**{arguments.kwarg.arg}"] if arguments.kwarg else []),
    ]


def _docstring(signature: ast.FunctionDef, kind: str, *, refers: bool) -> str:
    if refers:
        return f'"""See `Stream.{signature.name}`."""'
    whole = inspect.cleandoc(ast.get_docstring(signature) or "")
    text = whole.split("\n\n", 1)[0]
    arguments = _entries(_section(whole, "Args"))
    if kind == "operators":
        arguments = [entry for entry in arguments if not entry.startswith("source:")]
        text = text.replace("of `source`", "of this stream").replace("`source`", "this stream")
        arguments = [entry.replace("`source`", "this stream") for entry in arguments]
    parts = [text]
    if arguments:
        parts.append("\n".join(["Args:", *map(_wrapped, arguments)]))
    parts.append(f"Demand, holds, errors: `rstreams.{kind}.{signature.name}`.")
    body = "\n\n".join(parts)
    return f'"""{body}\n"""'


def _section(docstring: str, name: str) -> list[str]:
    lines = docstring.splitlines()
    if f"{name}:" not in lines:
        return []
    begin = lines.index(f"{name}:") + 1
    end = next((i for i in range(begin, len(lines)) if not lines[i].startswith("    ")), len(lines))
    return lines[begin:end]


def _entries(arguments: list[str]) -> list[str]:
    """Return the entries of an `Args` section, each in one line."""
    entries: list[str] = []
    for line in arguments:
        if line.startswith("        "):
            entries[-1] += " " + line.strip()
        else:
            entries.append(line.strip().replace("*sources:", "*others:"))  # as the parameter of the method is called
    return entries


def _wrapped(entry: str) -> str:
    return textwrap.fill(
        entry,
        WIDTH,
        initial_indent="    ",
        subsequent_indent="        ",
        break_long_words=False,
        break_on_hyphens=False,
    )


# ------------------------------------------------------------------------------------------------------------ the files


def class_file(face: Face) -> str:
    """Return the text of the file with the class of `face`, its methods and all that they need written anew."""
    before, _, middle, _, behind = _cut(face.file)
    wanted = face.functions()
    methods = [line for kind, each in wanted for line in face.method(each, kind)]
    names = _names_in("\n".join(methods))
    by_hand = _variables_in(before)
    variables: dict[str, str] = {}
    for _, each in wanted:
        for name, line in each.type_variables.items():
            if name in names and name != "T_co":
                known = by_hand.get(name) or variables.setdefault(name, line)
                assert known == line, f"{each.name}: {name} is another type variable elsewhere"
    names |= _names_in("\n".join(variables.values()))
    imports = {each.imports[name] for _, each in wanted for name in names if name in each.imports}
    future = "from __future__ import annotations\n"
    head, found, rest = before.partition(future)
    assert found, f"{face.file} must import annotations from __future__"
    needed = ["from rstreams import operators, sources", "from typing import Any, TypeVar, overload", *sorted(imports)]
    return "".join(
        [
            head,
            future,
            "\n".join(needed),  # `formatted` merges and sorts them, and leaves out those without use
            rest,
            _region(sorted(variables.values())),
            middle,
            _region(textwrap.indent("\n".join(methods), "    ").splitlines(), "    "),
            behind,
        ]
    )


def _region(lines: Sequence[str], margin: str = "") -> str:
    return "\n".join([f"{margin}{BEGIN}", "", *lines, "", f"{margin}{END}", ""])


def _cut(file: Path) -> list[str]:
    """Return the parts of a file: before, in, between, in and behind its two written regions."""
    parts = re.split(rf"(?ms)^ *{re.escape(BEGIN)}\n(.*?)^ *{re.escape(END)}\n", file.read_text("utf-8"))
    assert len(parts) == 5, f"{file} must have two regions between the marks of tools/fluent.py"
    return parts


def _methods_by_hand(file: Path, name: str) -> set[str]:
    tree = ast.parse("".join(_cut(file)[::2]))
    [definition] = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    return {node.name for node in definition.body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _variables_in(text: str) -> dict[str, str]:
    assignments = [node for node in ast.parse(text).body if isinstance(node, ast.Assign)]
    return {name: ast.unparse(node) for node in assignments for name in _targets(node)}


def _names_in(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def files() -> dict[Path, str]:
    """Return the text of every file that this tool writes."""
    stream = StreamFace("Stream", PACKAGE / "stream" / "_stream.py", ("sources", "operators"), refers=False)
    blocking = BlockingFace("BlockingStream", PACKAGE / "blocking" / "_stream.py", ("operators",), NOT_BLOCKING)
    return {
        PACKAGE / "operators" / "__init__.py": package_list(
            "operators",
            "Operators, one a file: functions from publisher to publisher that take part in demand and holds.",
        ),
        PACKAGE / "sources" / "__init__.py": package_list(
            "sources", "Sources, one in each file: functions that return a publisher without an upstream."
        ),
        stream.file: class_file(stream),
        blocking.file: class_file(blocking),
    }


def formatted(file: Path, text: str) -> str:
    """Return `text` as ruff would write it into `file`, its imports sorted and those without use left out."""
    for command in (["check", "--fix-only", "--quiet", "--select", "I,F401"], ["format", "--quiet"]):
        name = ["--stdin-filename", str(file)]
        line = [RUFF, *command, *name, "-"]
        text = subprocess.run(line, input=text, capture_output=True, text=True, check=True).stdout
    return text


def main(arguments: Sequence[str]) -> int:
    """Write or check the files; return the exit status."""
    stale = []
    for file, text in files().items():
        wanted = formatted(file, text)
        if not file.exists() or file.read_text(encoding="utf-8") != wanted:
            stale.append(file.relative_to(ROOT))
            if "--check" not in arguments:
                file.write_text(wanted, encoding="utf-8")
    if "--check" in arguments and stale:
        print("not as tools/fluent.py writes them (run `make format`):", *stale)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
