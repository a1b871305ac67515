"""Sections on what was done: the data, the model, the training, in prose from the settings and in small tables."""

from tinylm.report.blocks import Blocks, bullets, facts, gallery, paragraph, picture, table
from tinylm.report.sources import Run, as_number
from tinylm.report.wording import ABSENT, big, count, exact, figure, many, name_of, share, visible

SPLIT_USES = {
    "train": "what the model learns from",
    "held_out": "a share of train kept apart, for early stopping and every choice",
    "evaluation": "text that training never sees, read by evaluate and the benches only",
}
STREAM_USES = SPLIT_USES | {
    "held_out": "the end of the train text's tokens, for early stopping and every choice",
    "evaluation": "what evaluate and the benches read: text of its own, or the held-out tokens",
}
_TOKENIZERS = {
    "bpe": "Tokens are byte-level BPE pieces, learnt from the train split.",
    "gpt2": "Tokens are those of GPT-2: byte-level BPE with its own vocabulary.",
    "longest_match": "Tokens are pieces learnt from the train split and matched greedily, the longest first.",
}
_PUNCTUATION = {
    "drop": "punctuation dropped",
    "keep": "each mark a token",
    "attached": "punctuation left on its word",
}
_SOURCES = {
    "skipgram": "Word vectors are fastText's, trained on the train split alone",
    "counts": "Word vectors are from counts of neighbours in the train split, by singular values",
    "file": "Word vectors are read from a fastText file",
    "random": "Token vectors start at random",
}
_LAYOUTS = {
    "stories": "rows of one story each, padded and masked",
    "stream": "windows cut one after another from the stream of all tokens",
    "windows": "windows of the stream, one from every token on (stride 1)",
}
_OPTIMIZERS = {
    "adam": "Adam (Kingma and Ba 2015)",
    "adamw": "AdamW (Loshchilov and Hutter 2019)",
    "muon": "Muon (Jordan 2024) for the blocks' matrices and AdamW for the rest",
}
_NORMS = {
    "layer": "layer norm",
    "rms": "RMS norm (Zhang and Sennrich 2019)",
    "std": "layer norm that divides by (deviation + eps)",
}
_POSITIONS = {
    "sinusoids": "sinusoidal positions (Vaswani et al. 2017)",
    "learned": "learned positions",
    "rotary": "rotary positions (Su et al. 2021)",
    "none": "no positions",
}


def _text_prose(run: Run) -> str:
    tokenizer = str(run.param("vocab", "tokenizer"))
    if tokenizer == "words":
        case = "lower-case, " if run.param("vocab", "lower_case") is True else ""
        punctuation = _PUNCTUATION.get(str(run.param("vocab", "punctuation")), "")
        tokens = f"Tokens are words ({case}{punctuation})."
    else:
        tokens = _TOKENIZERS.get(tokenizer, "")
    vectors = _SOURCES.get(str(run.param("embedding", "source")), "")
    if run.param("data", "held_out") == "tokens":
        vectors = vectors.replace("the train split alone", "the whole train text, before the cut")
    tuned = {"tuned": "tuned with the model", "frozen": "kept frozen"}.get(
        str(run.param("model", "embedding")), ""
    )
    return " ".join(
        part for part in (tokens, f"{vectors}, {tuned}." if vectors and tuned else "") if part
    )


def data(run: Run) -> Blocks:
    """Source, splits and vocabulary."""
    rows = [
        [
            name_of(name),
            count(row.get("stories")),
            count(row.get("words")),
            count(run.get("vocab", "tokens", name)),
            share(run.get("vocab", "unknown_share", name)),
            (STREAM_USES if run.param("data", "held_out") == "tokens" else SPLIT_USES).get(
                name, ABSENT
            ),
        ]
        for name, row in run.table("download", "splits").items()
    ]
    embedding, source, size = (
        run.mapping("vocab", "embedding"),
        run.get("download", "source"),
        run.get("vocab", "size"),
    )
    unknown = as_number(run.get("vocab", "unknown_share", "train"))
    lengths = run.mapping("vocab", "sequence_length")
    heads = ["split", "stories", "words", "tokens", "<unk>", "use"]
    notes = run.get("vocab", "split", "notes")
    cut = (
        f"The one stream of tokens was cut: {'; '.join(map(str, notes))}."
        if isinstance(notes, list) and notes
        else ""
    )
    return (
        paragraph(_text_prose(run) if rows else "", cut)
        + table("The three splits", heads, rows, prose=["use"], stacked=True)
        + facts(
            [
                ("source", visible(source) if source is not None else ABSENT),
                ("vocabulary", f"{count(size)} ids" if size is not None else ABSENT),
                ("different words in train", count(run.get("vocab", "words_seen"))),
                (
                    "of train's text covered by the vocabulary",
                    share(None if unknown is None else 1 - unknown),
                ),
                ("word vectors", visible(embedding.get("source", ABSENT))),
                ("vector width", count(embedding.get("width"))),
                ("words with a vector", share(embedding.get("coverage"))),
                *(
                    (f"tokens per story without special tokens, {name_of(str(key))}", figure(value))
                    for key, value in lengths.items()
                ),
            ]
        )
    )


def _model_prose(run: Run) -> str:
    chosen = run.params.get("model")
    if not isinstance(chosen, dict):
        return ""
    activation = {"relu": "ReLU", "gelu": "GELU"}.get(
        str(chosen.get("activation")), visible(chosen.get("activation"))
    )
    width = count(run.get("vocab", "embedding", "width") or run.param("embedding", "width"))
    head_width = chosen.get("head_width")
    sentences = [
        f"A decoder-only transformer of width {width}: {many(chosen.get('layers'), 'block')} of masked attention with "
        f"{many(chosen.get('heads'), 'head')}{f' of width {count(head_width)}' if head_width else ''} and a "
        f"feed-forward layer of {count(chosen.get('feed_forward'))} units ({activation}).",
        f"Each sublayer has {_NORMS.get(str(chosen.get('norm_kind')), 'a norm')} "
        f"{'before it' if chosen.get('norm') == 'pre' else 'after its residual'}; the model has "
        f"{_POSITIONS.get(str(chosen.get('positions')), 'positions')} and sees {count(chosen.get('context'))} tokens.",
        "Its output weights are the embedding."
        if chosen.get("tied_output") is True
        else "Its output has own weights.",
        f"Dropout is {exact(chosen.get('dropout'))}."
        if as_number(chosen.get("dropout"))
        else "There is no dropout.",
    ]
    return " ".join(sentences)


def model(run: Run) -> Blocks:
    """Parts, parameters and operations."""
    train = run.mapping("train")
    rows = [
        [name_of(name), count(value)]
        for name, value in run.mapping("train", "parameters_by_part").items()
    ]
    if rows:
        rows.append(["total", count(train.get("parameters"))])
    note = (
        "The model reads a window of tokens and gives, at each of them, a probability for every token of the "
        "vocabulary to come next; a mask keeps each position from seeing later ones."
    )
    drawn = picture(
        "parameters",
        "Parameters by part. A tied output uses the embedding and has none of its own.",
    )
    return (
        paragraph(_model_prose(run), note)
        + facts(
            [
                ("trained parameters", count(train.get("parameters_trainable"))),
                ("FLOPs per token, forward", big(train.get("forward_flop_per_token"))),
                ("FLOPs per token, training", big(train.get("training_flop_per_token"))),
                ("cache of one row", _bytes(train.get("kv_cache_bytes_per_row"))),
                ("weights", _bytes(train.get("weight_bytes"))),
                ("optimizer state", _bytes(train.get("optimizer_bytes"))),
            ]
        )
        + gallery(drawn, table("Parameters by part", ["part", "parameters"], rows))
    )


def _bytes(value: object) -> str:
    number = as_number(value)
    return ABSENT if number is None else f"{figure(number / 2**20)} MiB"


def _steps_prose(chosen: dict) -> list[str]:
    optimizer = str(chosen.get("optimizer"))
    rates = f"a peak rate of {exact(chosen.get('lr'))}"
    if optimizer == "muon":
        rates = f"peak rates of {exact(chosen.get('muon_lr'))} and {exact(chosen.get('lr'))}"
    decay = as_number(chosen.get("weight_decay"))
    decayed = {"all": "on all parameters"}.get(str(chosen.get("decay")), "on the blocks' matrices")
    schedule = {
        "cosine": f"falls as a cosine to {share(chosen.get('final_lr'), 0)} of its peak",
        "constant": "stays there",
    }.get(str(chosen.get("schedule")), "")
    clip = chosen.get("clip_norm")
    return [
        f"The optimizer is {_OPTIMIZERS.get(optimizer, visible(optimizer))} with {rates}, betas "
        f"{exact(chosen.get('beta1'))} and {exact(chosen.get('beta2'))}, "
        + (f"weight decay {exact(decay)} {decayed}" if decay else "without weight decay")
        + (
            f", gradients clipped at norm {exact(clip)}."
            if clip is not None
            else ", without clipping."
        ),
        f"The rate rises over the first {share(chosen.get('warmup'), 0)} of the budget and {schedule}."
        if as_number(chosen.get("warmup"))
        else f"The rate starts at its peak and {schedule}.",
    ]


def training(run: Run) -> Blocks:
    """How the weights were fitted, in prose."""
    chosen = run.params.get("train")
    if not isinstance(chosen, dict):
        return []
    epochs, stop, together = (
        chosen.get("epochs"),
        chosen.get("stop_after"),
        chosen.get("accumulation"),
    )
    budget = f"{big(chosen.get('tokens'))} tokens" if epochs is None else f"{exact(epochs)} epochs"
    return paragraph(
        f"The model learns to predict each next token from the true ones before it (teacher forcing); the loss is the "
        f"mean cross-entropy. A mini-batch is {count(chosen.get('batch_size'))} "
        f"{_LAYOUTS.get(str(chosen.get('layout')), 'rows')}; "
        + (
            "each makes an update."
            if together == 1
            else f"{count(together)} of them make an update."
        ),
        *_steps_prose(chosen),
        f"The budget is {budget}{f', of which {big(stop)} tokens were run' if stop is not None else ''}, in "
        f"{visible(run.get('train', 'precision') or chosen.get('precision'))}, with seed {count(chosen.get('seed'))}.",
        "The saved weights are those of the last update."
        if chosen.get("patience") is None
        else f"Training stops after {count(chosen.get('patience'))} validations without improvement; the saved weights "
        "are those of the best.",
        ""
        if chosen.get("recompute") in (None, False, "none")
        else "Activations are computed again in the backward pass.",
    )


_WORKS = (  # (the setting for which the work is cited, the work)
    ("", "A. Vaswani et al. Attention Is All You Need. NeurIPS 2017."),
    (
        "storybook local hub",
        "R. Eldan, Y. Li. TinyStories: How Small Can Language Models Be? arXiv 2305.07759, 2023.",
    ),
    (
        "skipgram file",
        "P. Bojanowski et al. Enriching Word Vectors with Subword Information. TACL 5, 2017.",
    ),
    (
        "bpe gpt2",
        "R. Sennrich, B. Haddow, A. Birch. Neural Machine Translation of Rare Words. ACL 2016.",
    ),
    ("rms", "B. Zhang, R. Sennrich. Root Mean Square Layer Normalization. NeurIPS 2019."),
    (
        "xavier",
        "X. Glorot, Y. Bengio. Understanding the Difficulty of Training Deep Networks. AISTATS 2010.",
    ),
    ("adam", "D. Kingma, J. Ba. Adam: A Method for Stochastic Optimization. ICLR 2015."),
    ("adamw muon", "I. Loshchilov, F. Hutter. Decoupled Weight Decay Regularization. ICLR 2019."),
    ("muon", "K. Jordan et al. Muon: An Optimizer for Hidden Layers in Neural Networks. 2024."),
    (
        "muon",
        "N. Amsel et al. The Polar Express: Optimal Matrix Sign Methods. arXiv 2505.16932, 2025.",
    ),
    (
        "",
        "S. Chen, J. Goodman. An Empirical Study of Smoothing Techniques. Harvard TR-10-98, 1998.",
    ),
    (
        "",
        "K. Papineni et al. BLEU: A Method for Automatic Evaluation of Machine Translation. ACL 2002.",
    ),
    ("", "T. Chen et al. Training Deep Nets with Sublinear Memory Cost. arXiv 1604.06174, 2016."),
)


def literature(run: Run) -> Blocks:
    """The works that these settings are based on."""
    places = (
        ("data", "source"),
        ("vocab", "tokenizer"),
        ("embedding", "source"),
        ("model", "norm_kind"),
        ("model", "init"),
        ("train", "optimizer"),
    )
    chosen = {str(run.param(*place)) for place in places}
    return bullets(
        work for settings, work in _WORKS if not settings or chosen & set(settings.split())
    )
