import pytest

from tinylm.bench.traffic import CHUNK_ROWS, format_traffic, update_traffic
from tinylm.model.describe import summary
from tinylm.model.recompute import RunRecomputing

TOKENS = 34  # two rows of the context
# One block: 4 x 19^2 attention, 2 x 19 x 23 feed-forward, their biases 4 x 19 + 23 + 19, two norms of 2 x 19
BLOCK = 1444 + 874 + 118 + 76
NUMBERS = 4 * 19 + 4 * 19 + 2 * 23 + 3 * 17  # activations of a token in the products' precision


def counted(model, optimizer="adamw", precision="fp32", tokens=TOKENS) -> dict[str, int]:
    return {part.part: part.bytes for part in update_traffic(model, tokens, optimizer, precision)}


def test_bytes_of_a_small_model_in_fp32(new_model):
    assert counted(new_model(layers=1).float()) == {
        "embedding": (2 * 34 * 4 + 31 * 4 + 2 * 34 * 4) * 19,
        "blocks: weights": BLOCK * 3 * 4,
        "blocks: activations": 4 * 34 * (2 * 19 * 4 + NUMBERS * 4),
        "output: logits, loss": 5 * 34 * 31 * 4 + 31 * 19 * (2 * 4 + 2 * 4),
        "optimizer, norm": (31 * 19 + BLOCK + 2 * 19) * 8 * 4,
    }


def test_bf16_halves_what_products_read_and_adds_copies_of_the_weights(new_model):
    wide, low = (
        counted(new_model(layers=2), precision=precision) for precision in ("fp32", "bf16")
    )
    assert low["blocks: activations"] == wide["blocks: activations"] - 4 * 2 * 34 * NUMBERS * 2
    assert low["blocks: weights"] == 2 * BLOCK * (2 * 2 + 4 + 2 + 4)
    assert low["output: logits, loss"] == 5 * 34 * 31 * 2 + 31 * 19 * (4 + 2 + 2 * 2 + 2 * 4)
    assert low["optimizer, norm"] == wide["optimizer, norm"]


def test_frozen_vectors_muon_recomputation_and_chunks(new_model):
    tuned, frozen = counted(new_model()), counted(new_model(embedding="frozen"))
    assert frozen["embedding"] == 2 * 34 * 19 * 4
    assert (
        tuned["output: logits, loss"] - frozen["output: logits, loss"] == 34 * 31 * 4 + 31 * 19 * 8
    )
    assert tuned["optimizer, norm"] - frozen["optimizer, norm"] == 31 * 19 * 32
    muon = counted(new_model(), optimizer="muon")
    assert tuned["optimizer, norm"] - muon["optimizer, norm"] == 2 * (1444 + 874) * 2 * 4
    model = new_model(run_blocks=RunRecomputing("blocks"))
    again = counted(model)
    assert (
        again["blocks: activations"] * 8 == tuned["blocks: activations"] * 10
    )  # one of the two blocks
    assert again["blocks: weights"] * 6 == tuned["blocks: weights"] * 7
    rows = [
        counted(new_model(), tokens=CHUNK_ROWS + more)["output: logits, loss"] for more in (0, 1)
    ]
    assert rows[1] - rows[0] == 5 * 31 * 4 + 31 * 19 * 16


@pytest.mark.parametrize("on", ["none", "blocks"])
def test_operations_are_those_of_the_description(new_model, on):
    model = new_model(run_blocks=RunRecomputing(on))
    parts = update_traffic(model, TOKENS, "adamw", "fp32")
    assert sum(part.flop for part in parts) == TOKENS * summary(model)["training_flop_per_token"]
    lines = format_traffic(parts).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[-1].split()[0] == "together"
    assert f"{sum(part.bytes for part in parts) / 2**20:,.1f}" == lines[-1].split()[-1]
