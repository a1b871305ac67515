"""Section `vocab` of params.yaml."""

from dataclasses import dataclass

from tinylm.base.config import setting

TOKENIZERS = ("words", "bpe", "gpt2", "longest_match")
PUNCTUATIONS = ("drop", "keep", "attached")
LEAST_SIZE = {"bpe": 256 + 3, "longest_match": 1}  # bpe: each byte, and the special tokens


@dataclass(frozen=True, kw_only=True)
class VocabSettings:
    """Which tokenizer, and its settings; a tokenizer ignores those of the others."""

    tokenizer: str = setting(choices=TOKENIZERS)
    lower_case: bool = setting(True)
    punctuation: str = setting("drop", choices=PUNCTUATIONS)
    min_count: int = setting(1, low=1)
    max_size: int | None = setting(None, low=1, high=1 << 32)  # as many ids as 32 bits hold
    path: str = setting("")

    @property
    def keeps_punctuation(self) -> bool:
        """Whether texts that differ in punctuation alone have different ids."""
        return self.tokenizer != "words" or self.punctuation != "drop"

    def problems(self) -> list[str]:
        """Rules between the fields, each line beginning with a field's name."""
        problems = []
        least = LEAST_SIZE.get(self.tokenizer, 0)
        if least and (self.max_size or 0) < least:
            size = "null" if self.max_size is None else self.max_size
            problems.append(
                f"max_size: {self.tokenizer} expects a whole number >= {least}, got {size}"
            )
        if self.tokenizer == "gpt2" and not self.path:
            problems.append("path: expected a folder with tokenizer: gpt2, got ''")
        return problems
