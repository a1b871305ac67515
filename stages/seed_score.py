"""Stage seed_score: score the weights of a further seed on the evaluation split, `python -m stages.seed_score 2`."""

import sys

from tinylm.base import paths
from tinylm.base.command import run_command
from tinylm.base.files import require, write_json
from tinylm.evaluate.settings import SEED
from tinylm.evaluate.split_score import headline, score_split
from tinylm.model.checkpoint import check_vocabulary, load_model
from tinylm.params.stage import Stage, seed_argument
from tinylm.vocab.open_tokenizer import open_tokenizer
from tinylm.vocab.token_store import TokenStore


def main() -> None:
    seed = seed_argument("seed_score")
    stage = Stage("seed_score")
    require(f"{paths.seed_run(seed)}/config.json", f"seed_train@{seed}")
    device = stage.begin(SEED)
    model, config = load_model(paths.seed_run(seed), device)
    check_vocabulary(paths.seed_run(seed), paths.TOKENIZER)
    tokenizer = open_tokenizer(paths.TOKENIZER)
    evaluation = TokenStore(paths.TOKENS, "evaluation")
    loss, table, _ = score_split(model, tokenizer, evaluation, config["layout"], paths.STORIES)
    # in the order of stage evaluate's stories
    stories = table[["nats", "raw_bits"]].to_dict("list")
    write_json(paths.seed_score(seed), headline(loss) | {"stories": stories})
    stage.refuse_edits()
    print(f"seed {seed}: evaluation perplexity {loss.perplexity:.3f}")


if __name__ == "__main__":
    sys.exit(run_command(main))
