"""Whether the report in report/ shows what is there now; DVC does not keep it, since it shows this machine's times."""

import hashlib
import json
from pathlib import Path
from typing import Any

from tinylm.base import paths
from tinylm.base.code import code_sha256
from tinylm.base.config import InputError
from tinylm.base.files import SUMS, check_sums, read_json, sha256, write_json, write_sums
from tinylm.report.sources import FILES

MADE = f"{paths.REPORT}/made_of.json"
OWN_TEXTS = f"{paths.REPORT}/own_texts.json"  # what the model made of report.prompts
SCRIPT = "stages/report.py"
LAB = f"{paths.REPORT}/lab.html"  # the model in a page (tinylm.lab)
MODEL = (
    paths.MODEL_CONFIG,
    f"{paths.MODELS}/checkpoints/{SUMS}",
    paths.TOKENIZER,
)  # the first two hold the weights' sums


def shown_sha256(folder: str | Path, params: dict[str, Any]) -> str:
    """One SHA-256 over all that a report shows: parameters, the files of the run, and what draws it."""
    root = Path(folder)
    named = [path for path, _ in FILES.values()] + [*MODEL]
    sums = {path: sha256(root / path) for path in sorted(named) if (root / path).is_file()}
    parts = [
        {name: section for name, section in params.items() if name != "runtime"},
        sums,
        code_sha256(SCRIPT),
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


def mark_current(
    folder: str | Path, params: dict[str, Any], pictures: list[str], lab: bool = False
) -> None:
    """Write into report/ what it shows, which pictures and whether lab.html belong to it, and the sums of its files."""
    write_json(
        Path(folder) / MADE,
        {"shown": shown_sha256(folder, params), "pictures": pictures, "lab": lab},
    )
    write_sums(Path(folder) / paths.REPORT)


def is_current(folder: str | Path, params: dict[str, Any]) -> bool:
    """Whether report/ and its pictures are whole and show what is there now."""
    root = Path(folder)
    try:
        for path in (paths.REPORT_PAGE, paths.REPORT_PDF, MADE):
            check_sums(root / path, "report")
        made = read_json(root / MADE)
        if made["lab"]:
            check_sums(root / LAB, "report")
        return made["shown"] == shown_sha256(folder, params) and all(
            (root / paths.PICTURES / f"{name}.png").is_file() for name in made["pictures"]
        )
    except (InputError, OSError, LookupError, TypeError):
        return False
