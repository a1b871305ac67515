"""Rules of what must not be called: finished parts of torch, and writers other than tinylm/base/files.py."""

import ast
import re
from collections.abc import Iterator

BY_HAND = ("tinylm/model/", "tinylm/kernels/", "tinylm/train/", "tinylm/decoding/")
# (a file, what it may use all the same)
FINISHED_BY_CHOICE = (
    "tinylm/kernels/train/attention.py",
    "torch.nn.functional.scaled_dot_product_attention",
)
FINISHED_PARTS = (
    *("torch.layer_norm", "torch.optim", "torch.utils.checkpoint", "torch.nn.utils.clip_grad"),
    *(f"torch.nn.{name}" for name in ("LayerNorm", "RMSNorm", "MultiheadAttention", "Transformer")),
    *(f"torch.nn.{name}" for name in ("CrossEntropyLoss", "NLLLoss")),
    *(
        f"torch.nn.functional.{name}"
        for name in ("layer_norm", "rms_norm", "cross_entropy", "nll_loss")
    ),
    *(
        f"torch.nn.functional.{name}"
        for name in ("scaled_dot_product_attention", "multi_head_attention_forward")
    ),
)
WRITING = ("tinylm/base/files.py", "tinylm/host/processes.py")  # files; locks
OPENERS = {"open", "fdopen", "memmap", "open_memmap"}
WRITERS = re.compile(
    "write_(text|bytes|table)|to_(csv|json|parquet|pickle|excel)|save(_file|_model|_pretrained|_to_disk)"
    "|save(fig|z|z_compressed|txt)|imsave|tofile|extractall|urlretrieve|copy(2|file|fileobj|tree)|(hardlink|symlink)_to|move|rename|replace"
)
SAVERS = ("np.save", "numpy.save", "torch.save", "pickle.dump", "shutil.copy")
GUARDS = {"atomic_path", "atomic_write", "TemporaryDirectory"}


def dotted(node: ast.AST, names: dict[str, str]) -> str:
    """F.relu -> torch.nn.functional.relu, through the file's own imports."""
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value, names)}.{node.attr}"
    return names.get(node.id, node.id) if isinstance(node, ast.Name) else ""


def finished_parts(source: str) -> list[str]:
    """Uses of torch's finished parts."""
    tree, names, used = ast.parse(source), {}, []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.asname: alias.name for alias in node.names if alias.asname}
            used += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
            used += [f"{node.module}.{alias.name}" for alias in node.names]
    used += [
        dotted(node, names) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)
    ]
    return sorted({name for name in used if name.startswith(FINISHED_PARTS)})


def calls(node: ast.AST, guarded: bool = False) -> Iterator[tuple[ast.Call, bool]]:
    """All calls below a node, and whether each stands inside a `with atomic_...` block."""
    if isinstance(node, ast.With):
        makers = [
            item.context_expr.func for item in node.items if isinstance(item.context_expr, ast.Call)
        ]
        guarded = guarded or any(dotted(maker, {}).rpartition(".")[2] in GUARDS for maker in makers)
    for child in ast.iter_child_nodes(node):
        yield from calls(child, guarded)
    if isinstance(node, ast.Call):
        yield node, guarded


def opens_for_writing(call: ast.Call) -> bool:
    """Whether an open(...) names a mode that writes, or one that the source does not show."""
    is_method = isinstance(call.func, ast.Attribute) and dotted(call.func, {}) not in (
        "gzip.open",
        "io.open",
    )
    modes = [
        *(k.value for k in call.keywords if k.arg == "mode"),
        *call.args[0 if is_method else 1 :],
    ]
    return bool(modes) and (
        not isinstance(modes[0], ast.Constant) or bool(set(str(modes[0].value)) & set("wax+"))
    )


def bare_writes(source: str) -> list[str]:
    """Calls that write a file outside of an atomic block, as `line: call`."""
    found, tree = [], ast.parse(source)
    nodes = list(ast.walk(tree))
    ours = {  # what tinylm's own modules offer is looked at where it stands
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tinylm")
        for alias in node.names
    }
    memory = {
        ast.unparse(target)
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if dotted(node.value.func, {}) in ("io.BytesIO", "io.StringIO")
    }
    for call, guarded in calls(tree):
        whole = dotted(call.func, {})
        name = whole.rpartition(".")[2]
        if (
            guarded
            or whole in ours
            or any(keyword.arg == "columns" for keyword in call.keywords)  # rename of a frame
            or (call.args and ast.unparse(call.args[0]) in {"os.devnull", "os.dup(1)", *memory})
        ):
            continue
        of_text = (name == "replace" and not whole.startswith(("os.", "Path"))) or (
            name.startswith("to_") and not call.args  # DataFrame.to_csv() returns the text
        )
        if (
            whole in SAVERS
            or (WRITERS.fullmatch(name) and not of_text)
            or (name in OPENERS and opens_for_writing(call))
        ):
            found.append(f"line {call.lineno}: {ast.unparse(call.func)}")
    return found


def uses_finished_parts(sources: dict[str, str]) -> list[str]:
    """Attention, norms, losses, optimizers and checkpointing are written by hand."""
    return [
        f"{path} uses {name}"
        for path, text in sources.items()
        if path.startswith(BY_HAND)
        for name in finished_parts(text)
        if (path, name) != FINISHED_BY_CHOICE
    ]


def writes_past_files_py(sources: dict[str, str]) -> list[str]:
    """Files are written by tinylm/base/files.py alone."""
    return [
        f"{path}, {call}"
        for path, text in sources.items()
        if path not in WRITING
        for call in bare_writes(text)
    ]
