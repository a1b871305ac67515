from tinylm.learn.use import train


def run(updates):
    return train(
        updates,
        {
            "model": {"norm": "post", "final_norm": False, "layers": 4, "init": "xavier"},
            "train": {"optimizer": "adamw", "lr": 3e-3, "warmup": 0.3, "tokens": 150_000},
        },
    )


def replacements(student):
    def learning_rate(progress, peak, warmup, schedule, final):
        return student.learning_rate(progress * 1e6, 1e6, peak, warmup, final)

    return {"tinylm.train.trainer.learning_rate": learning_rate}
