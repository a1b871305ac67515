from unittest import mock

from tinylm.learn.use import train


def output_factor(embedding):
    """Our factor in float64, like the student's; the model keeps it in float32."""
    return embedding.square().mean().rsqrt() * embedding.shape[1] ** -0.5


def _output_layer(model):
    factor = model.__dict__.get("factor_at_start")
    if factor is None:
        factor = output_factor(model.embedding.detach())
        model.__dict__["factor_at_start"] = factor
    return model.embedding, model.output_bias, factor


def run(updates):
    with mock.patch("tinylm.model.transformer.TinyLM.output_layer", _output_layer):
        return train(updates, {"train": {"tokens": 200_000}})


def replacements(student):
    return {"plan.output_factor": student.output_factor}
