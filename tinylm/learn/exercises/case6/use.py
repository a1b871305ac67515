RUN = "train"
SETTINGS = {"train": {"tokens": 200_000}}


def replacements(student):
    def output_layer(model):
        factor = model.__dict__.get("factor_at_start")
        if factor is None:
            factor = student.output_factor(model.embedding.detach())
            model.__dict__["factor_at_start"] = factor
        return model.embedding, model.output_bias, factor

    return {"tinylm.model.transformer.TinyLM.output_layer": output_layer}
