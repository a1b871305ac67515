RUN = "train"
SETTINGS = {"train": {"tokens": 200_000}}


def _with(output_factor):
    def output_layer(model):
        factor = model.__dict__.get("factor_at_start")
        if factor is None:
            factor = output_factor(model.embedding.detach())
            model.__dict__["factor_at_start"] = factor
        return model.embedding, model.output_bias, factor

    return {"tinylm.model.transformer.TinyLM.output_layer": output_layer}


def usual():
    """Our factor in float64, like the student's; the model keeps it in float32."""
    return _with(lambda embedding: embedding.square().mean().rsqrt() * embedding.shape[1] ** -0.5)


def replacements(student):
    return _with(student.output_factor)
