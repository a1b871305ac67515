"""What must not stand in the source: torch's finished parts, writers past tinylm/base/files.py, files without end."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CORE = sorted((ROOT / "tinylm").rglob("*.py"))
STAGES = sorted((ROOT / "stages").rglob("*.py"))
BY_HAND = [path for path in CORE if path.relative_to(ROOT).parts[1] in ("model", "training", "decoding")]
FINISHED_PARTS = (
    "torch.nn.LayerNorm",
    "torch.nn.RMSNorm",
    "torch.nn.MultiheadAttention",
    "torch.nn.Transformer",
    "torch.nn.CrossEntropyLoss",
    "torch.nn.NLLLoss",
    "torch.nn.functional.layer_norm",
    "torch.nn.functional.cross_entropy",
    "torch.nn.functional.nll_loss",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
    "torch.nn.utils.clip_grad",
    "torch.layer_norm",
    "torch.optim",
    "torch.utils.checkpoint",
)
OPENERS = {"open", "fdopen", "memmap", "open_memmap"}
WRITERS = {
    "write_text",
    "write_bytes",
    "to_csv",
    "to_json",
    "to_parquet",
    "savefig",
    "imsave",
    "save_file",
    "save_model",
    "tofile",
    "savez",
    "savez_compressed",
    "savetxt",
    "to_pickle",
    "to_excel",
    "write_table",
    "save_pretrained",
    "save_to_disk",
    "extractall",
    "urlretrieve",
    "copyfile",
    "copyfileobj",
    "copy2",
    "hardlink_to",
    "copytree",
    "move",
    "symlink_to",
    "rename",
    "replace",
}
GUARDS = {"atomic_path", "atomic_write", "TemporaryDirectory"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


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
            names |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            used += [f"{node.module}.{alias.name}" for alias in node.names]
    used += [dotted(node, names) for node in ast.walk(tree) if isinstance(node, ast.Attribute | ast.Name)]
    return sorted({name for name in used if name.startswith(FINISHED_PARTS)})


def calls(node: ast.AST, guarded: bool = False) -> Iterator[tuple[ast.Call, bool]]:
    """All calls below a node, and whether each stands inside a `with atomic_...` block."""
    if isinstance(node, ast.With):
        makers = {
            dotted(item.context_expr.func, {}).rpartition(".")[2]
            for item in node.items
            if isinstance(item.context_expr, ast.Call)
        }
        guarded = guarded or bool(makers & GUARDS)
    for child in ast.iter_child_nodes(node):
        yield from calls(child, guarded)
    if isinstance(node, ast.Call):
        yield node, guarded


def opens_for_writing(call: ast.Call) -> bool:
    """Whether an open(...) names a mode that writes, or one that the source does not show."""
    function = call.func
    first = 0 if isinstance(function, ast.Attribute) and dotted(function, {}) not in ("gzip.open", "io.open") else 1
    mode = next((k.value for k in call.keywords if k.arg == "mode"), None)
    if mode is None and len(call.args) > first:
        mode = call.args[first]
    if mode is None:
        return False
    return not isinstance(mode, ast.Constant) or bool(set(str(mode.value)) & set("wax+"))


def bare_writes(source: str) -> list[str]:
    """Calls that write a file outside of an atomic block, as `line: call`."""
    found, tree = [], ast.parse(source)
    ours = {  # what tinylm's own modules offer has been looked at where it stands
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tinylm")
        for alias in node.names
    }
    memory = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and dotted(node.value.func, {}) in ("io.BytesIO", "io.StringIO")
    }
    for call, guarded in calls(tree):
        name = dotted(call.func, {}).rpartition(".")[2]
        first = call.args[0] if call.args else None
        into_memory = isinstance(first, ast.Name) and first.id in memory
        nowhere = first is not None and ast.unparse(first) == "os.devnull"
        if into_memory or nowhere or dotted(call.func, {}) in ours:
            continue
        text_replace = name == "replace" and not dotted(call.func, {}).startswith(("os.", "Path"))
        as_text = name.startswith("to_") and not call.args  # DataFrame.to_csv() returns the text
        library_save = dotted(call.func, {}) in ("np.save", "numpy.save", "torch.save", "pickle.dump", "shutil.copy")
        writes = (
            library_save
            or (name in WRITERS and not text_replace and not as_text)
            or (name in OPENERS and opens_for_writing(call))
        )
        if writes and not guarded:
            found.append(f"line {call.lineno}: {ast.unparse(call.func)}")
    return found


@pytest.mark.parametrize("path", BY_HAND, ids=name_of)
def test_the_parts_of_the_model_are_written_by_hand(path):
    fast = {
        "tinylm/kernels/training/attention_core.py": ["torch.nn.functional.scaled_dot_product_attention"]
    }  # train.attention
    assert finished_parts(path.read_text("utf-8")) == fast.get(name_of(path), [])


WRITE = ("tinylm/base/files.py", "tinylm/host/processes.py")  # files; locks


@pytest.mark.parametrize("path", [p for p in CORE + STAGES if name_of(p) not in WRITE], ids=name_of)
def test_nothing_but_files_py_writes(path):
    assert bare_writes(path.read_text("utf-8")) == []


@pytest.mark.parametrize("path", CORE + STAGES, ids=name_of)
def test_files_stay_short(path):
    limit = 80 if path in STAGES else 300
    assert len(path.read_text("utf-8").splitlines()) <= limit


@pytest.mark.parametrize(
    "source",
    [
        "from torch import nn\nnn.LayerNorm(3)",
        "import torch\nclass A(torch.nn.TransformerEncoderLayer): pass",
        "from torch.nn import functional as F\nF.cross_entropy(a, b)",
        "import torch.nn.functional as g\ng.scaled_dot_product_attention(q, k, v)",
        "from torch.optim import AdamW",
        "import torch.optim",
        "from torch.utils.checkpoint import checkpoint",
        "from torch.utils import checkpoint",
        "from torch import nn\nnn.utils.clip_grad_norm_(p, 1)",
    ],
)
def test_the_search_finds_finished_parts(source):
    assert finished_parts(source)


@pytest.mark.parametrize(
    "source",
    [
        "open(p, 'w')",
        "open(p, mode='ab')",
        "open(p, 'r+')",
        "open(p, mode)",
        "p.open('w')",
        "gzip.open(p, 'wt')",
        "p.write_text('x')",
        "frame.to_csv(p)",
        "with tempfile() as f:\n    figure.savefig(f)",
        "safetensors.torch.save_file({}, p)",
        "from safetensors.torch import save_model\nsave_model(m, p)",
        "os.replace(a, b)",
        "np.memmap(p, np.uint16, 'w+')",
        "torch.save(model, p)",
        "np.save(p, array)",
        "shutil.copy(a, b)",
        "archive.extractall(p)",
        "model.save_pretrained(p)",
        "with atomic_folder(p) as new:\n    (new / 'a').write_text('x')",
    ],
)
def test_the_search_finds_bare_writes(source):
    assert bare_writes(source)


@pytest.mark.parametrize(
    "source",
    [
        "open(p)",
        "open(p, 'rb')",
        "p.open()",
        "text.replace('a', 'b')",
        "with atomic_path(p) as t:\n    figure.savefig(t)",
        "with files.atomic_path(p) as t, open(t, 'wb') as f:\n    f.write(b'')",
        "print(frame.to_csv(index=False))",
        "target = io.BytesIO()\nfigure.savefig(target)",
        "os.open(os.devnull, os.O_WRONLY)",
        "from tinylm.base.files import write_bytes\nwrite_bytes(p, safetensors.torch.save(tensors))",
        "from tinylm.model.checkpoint import save_model\nsave_model('models', m)",
    ],
)
def test_the_search_lets_the_rest_pass(source):
    assert bare_writes(source) == []
