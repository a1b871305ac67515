"""tinylm check: everything that can be known before the first stage runs."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from tinylm.base import paths
from tinylm.base.config import PARAMS_FILE, InputError, load_params
from tinylm.cli.machine import check_files, check_machine
from tinylm.decoding.texts import encode_prompt
from tinylm.presets.sections import Finding, Read, check_rules, read_sections, vocab_limit
from tinylm.text.tokens.tokenizer import Tokenizer, open_tokenizer


def _made(read: Read) -> Tokenizer | None:
    """The vocabulary that the vocab stage made, if it is of the kind that section `vocab` names."""
    made = open_tokenizer(paths.TOKENIZER) if Path(paths.TOKENIZER).exists() else None
    vocab = read.get("vocab")
    return None if made is None or (vocab is not None and made.kind != vocab.tokenizer) else made


def known_vocab_size(read: Read) -> int | None:
    """Ids of the vocabulary: as the vocab stage made it, but at most what section `vocab` allows; None if unknown."""
    limit = vocab_limit(read)
    made = _made(read)
    if made is None:
        return limit
    return len(made) if limit is None else min(len(made), limit)


def check_sample_prompt(read: Read) -> Iterator[Finding]:
    """Whether training can begin a text with its sample prompt, once the vocabulary is made."""
    made, train = _made(read), read.get("train")
    if made is None or train is None:
        return
    key = "train.sample_prompt"
    try:
        yield Finding(key, f"{len(encode_prompt(made, train.sample_prompt, f'{PARAMS_FILE}: {key}'))} tokens")
    except InputError as error:
        yield Finding(key, repr(train.sample_prompt), str(error))


def find() -> list[Finding]:
    """All findings of the current folder; problems in one part do not hide those of another."""
    try:
        read, findings = read_sections(load_params())
    except InputError as error:
        read, findings = {}, [Finding(PARAMS_FILE, "", str(error))]
    try:
        vocab_size = known_vocab_size(read)
        findings += check_sample_prompt(read)
    except InputError as error:
        vocab_size = None
        findings.append(Finding(paths.TOKENIZER, "", str(error)))
    return [
        *findings,
        *check_rules(read, vocab_size),
        *check_files(read),
        *check_machine(read, vocab_size),
    ]


def table(findings: list[Finding]) -> str:
    """The findings as aligned columns: what, value, verdict."""
    first = max(len(finding.what) for finding in findings)
    second = max(len(finding.value) for finding in findings)
    return "\n".join(f"{f.what:{first}}  {f.value:{second}}  {f.verdict}" for f in findings)


def run(arguments: argparse.Namespace) -> None:
    """Print the table. Raises InputError if it contains a problem."""
    findings = find()
    print(table(findings))
    problems = sum(bool(finding.problem) for finding in findings)
    if problems:
        raise InputError(f"{problems} {'problem' if problems == 1 else 'problems'}, marked above")
