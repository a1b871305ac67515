from tinylm.learn.use import generate


def run(updates):
    return generate()


def replacements(student):
    import torch

    def choose(logits, settings, u):
        words = []
        filters = (settings.temperature, settings.top_k, settings.top_p)
        for row, number in zip(logits, u.tolist(), strict=True):
            p = student.probabilities(row.double(), *filters)
            words.append(student.draw(p, number))
        return torch.tensor(words)

    return {"tinylm.decoding.filters.choose": choose}
