"""The environments of the tools: a group of them that can be installed together has one."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Scripts in consumers/ and their groups. A script may not be named like a package: it would be imported in its place.
TOOLS = {
    "transformers_loading": "python",
    "transformers_generate": "python",
    "transformers_training": "python",
    "tokenizers_alone": "python",
    "ctranslate2_converted": "python",
    "lm_eval_likelihoods": "python",
    "transformer_lens_bridge": "python",
    "onnx_runtime": "python",
    "saelens_loader": "saelens",
}


def command_of(tool: str) -> list[str]:
    """The command that runs a tool's script, in an environment that is made if it is missing or out of date."""
    group = TOOLS[tool]
    folder = ROOT / f".venv-neighbours-{group}"
    needed = HERE / f"requirements-{group}.txt"
    installed = folder / needed.name  # a copy of what was installed
    python = folder / "bin/python"
    if not installed.exists() or installed.read_bytes() != needed.read_bytes():
        print(f"{folder.name}: installing {needed.name} ...", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "-r", str(needed)], check=True)
        shutil.copy(needed, installed)
    return [str(python), str(HERE / f"consumers/{tool}.py")]
