"""Commands of git."""

import subprocess

from tinylm.base.command import CommandFailed


def git(*words: str) -> str:
    """The output of a git command. Raises CommandFailed with git's last line if it fails."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["failed"]
        raise CommandFailed(f"git: {lines[-1]}")
    return done.stdout.strip()


def git_or_none(*words: str) -> str | None:
    """The unchanged output of a git command; None if it fails, as it does outside a repository."""
    done = subprocess.run(["git", *words], capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else None
