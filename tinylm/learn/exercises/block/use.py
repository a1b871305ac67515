from tinylm.learn.use import train
from tinylm.model.transformer import Block

cached = Block.forward  # as it is now: a run replaces it


def run(updates):
    # The exercise has no biases: both models leave them out, or keep them at zero.
    return train(
        updates,
        {"model": {"qkv_bias": False, "attention_bias": False}},
        frozen=("feed_forward.up.bias", "feed_forward.down.bias"),
    )


def replacements(student):
    def forward(block, x, mask, layer_cache=None, attention_weights_out=None):
        if layer_cache is not None:  # the text at the end: the exercise has no cache
            return cached(block, x, mask, layer_cache)
        attention = block.attention
        forward = block.feed_forward
        weights = {"gain1": block.norm1.gain, "bias1": block.norm1.bias,
                   "gain2": block.norm2.gain, "bias2": block.norm2.bias,
                   "qkv": attention.qkv.weight, "out": attention.out.weight,
                   "up": forward.up.weight, "down": forward.down.weight}  # fmt: skip
        return student.block(x, weights, attention.heads)

    return {"tinylm.model.transformer.Block.forward": forward}
