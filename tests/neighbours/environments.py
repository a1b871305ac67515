"""The environments of the tools: one for each group of tools that can be installed together."""

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
# Scripts in consumers/ and their groups. A script must not have the name of a package, which it would shadow.
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
    "optimum_onnx": "optimum",  # writes the graphs that javascript_readers reads
    "javascript_readers": "javascript",
    "llama_cpp_library": "llama_cpp",
}


def command_of(tool: str) -> list[str]:
    """The command that runs a tool's script. Its environment is created if it is missing or out of date."""
    group = TOOLS[tool]
    folder = ROOT / f".venv-neighbours-{group}"
    needed = HERE / f"requirements-{group}.txt"
    installed = folder / needed.name  # a copy of what was installed
    if not installed.exists() or installed.read_bytes() != needed.read_bytes():
        print(f"{folder.name}: installing {needed.name} ...", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        install = install_npm if group == "javascript" else install_pip
        install(folder, needed)
        shutil.copy(needed, installed)
    if group == "javascript":
        # Node looks for packages beside the script.
        script = shutil.copy(HERE / f"consumers/{tool}.mjs", folder)
        return ["node", str(script)]
    return [str(folder / "bin/python"), str(HERE / f"consumers/{tool}.py")]


def install_pip(folder: Path, needed: Path) -> None:
    """A virtual environment with these packages."""
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--disable-pip-version-check", "-r", str(needed)], check=True)


def install_npm(folder: Path, needed: Path) -> None:
    """A folder with these packages, one name@version per line, for Node 20 or newer.

    Leaves out optional packages, gigabytes of them for GPUs, and scripts that download more.
    """
    folder.mkdir()
    names = needed.read_text("utf-8").split()
    npm = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--omit=optional"]
    subprocess.run([*npm, "--ignore-scripts", *names], cwd=folder, check=True)
