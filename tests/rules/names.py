"""A rule of names: identifiers name the thing that they hold."""

import ast

# Words that name nothing: they tell how a value was come by, not what it is.
EMPTY_NAMES = {"found", "place", "places", "kept", "own", "said", "turned", "moment"}
EMPTY_NAMES |= {"figure", "figures"}  # "moments" are those of Adam


def defined_names(tree: ast.AST) -> list[tuple[int, str]]:
    """(line, name) of every variable, argument, attribute, function and class that is defined."""
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.id if isinstance(node, ast.Name) else node.attr
            names.append((node.lineno, name))
        elif isinstance(node, ast.arg):
            names.append((node.lineno, node.arg))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.append((node.lineno, node.name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.append((node.lineno, node.target.id))
    return names


def says_nothing(sources: dict[str, str]) -> list[str]:
    """Definitions whose name is one of EMPTY_NAMES, with or without an underscore before it."""
    offenders = []
    for path, text in sources.items():
        for line, name in defined_names(ast.parse(text)):
            if name.strip("_") in EMPTY_NAMES:
                offenders.append(f"{path}, line {line}: {name}")
    return offenders
