"""Runs of a study: each setting and seed trained by the real training loop on the workspace's tokens."""

import itertools
import json
import math
from collections.abc import Iterator
from hashlib import sha256 as digest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tinylm.base import paths
from tinylm.base.closure import code_sha256
from tinylm.base.config import InputError, read_section
from tinylm.base.files import read_json, write_json
from tinylm.base.machine import pick_device
from tinylm.host.processes import exclusive_lock
from tinylm.host.runtime import RuntimeSettings, conditions
from tinylm.model.settings import ModelSettings
from tinylm.studies.study_plan import Study, workspace_problems
from tinylm.text.stories import read_stories
from tinylm.text.tokens.batches import Batch
from tinylm.text.tokens.matrix_file import load_matrix
from tinylm.text.tokens.token_store import TokenStore
from tinylm.text.tokens.tokenizer import open_tokenizer
from tinylm.text.vectors.matrix import embedding_matrix
from tinylm.text.vectors.settings import EmbeddingSettings
from tinylm.training.arithmetic import arithmetic
from tinylm.training.assembly import Assembly, assemble
from tinylm.training.curves import TrainResult, run_figures
from tinylm.training.loop import train
from tinylm.training.snapshot import Snapshots, fingerprint
from tinylm.training.trainer import TrainingFailed, TrainSettings

FOLDER = Path("runs/study")
TOKENS = [f"{paths.TOKENS}/{split}.{kind}" for split in ("train", "held_out") for kind in ("ids", "offsets")]
DATA = [paths.TOKENIZER, paths.EMBEDDING, *TOKENS]
POINTS = 60  # of a curve that are kept


def unigram_loss(train_ids: np.ndarray, held_out_ids: np.ndarray, vocab_size: int) -> float:
    """Held-out loss in nats per token under the train split's word counts plus one: without word order."""
    counts = np.bincount(train_ids, minlength=vocab_size).astype(np.float64) + 1
    return float(-np.log(counts / counts.sum())[np.asarray(held_out_ids[1:])].mean())


class Workbench:
    """The workspace's tokens, and runs of a study's settings on them."""

    def __init__(self, study: Study, params: dict[str, Any], threads: int | None = None) -> None:
        problems = workspace_problems(study, params)
        if problems:
            raise InputError(
                f"study {study.name} wants the tokens of preset {study.preset} ({'; '.join(problems[:3])}): "
                f"tinylm preset {study.preset}, then dvc repro vocab"
            )
        self.study, self.params = study, params
        self.runtime = read_section(params, "runtime", RuntimeSettings)
        self.threads = threads or self.runtime.threads
        self.device = pick_device(self.runtime.device)
        self.tokenizer = open_tokenizer(paths.TOKENIZER)
        self.stores = {split: TokenStore(paths.TOKENS, split) for split in ("train", "held_out")}

    def data(self) -> dict[str, Any]:
        """What the runs are trained and scored on."""
        train_ids, held_out_ids = (store.ids for store in self.stores.values())
        loss = unigram_loss(train_ids, held_out_ids, len(self.tokenizer))
        return {
            "source": self.params["data"]["source"],
            "vocabulary": len(self.tokenizer),
            "tokens": {split: len(store.ids) for split, store in self.stores.items()},
            "unigram_loss": loss,
            "unigram_perplexity": math.exp(loss),
            "uniform_loss": math.log(len(self.tokenizer)),
        }

    def _matrix(self, section: dict[str, Any], seed: int) -> np.ndarray:
        """The workspace's vectors, or those that the setting asks for; random ones are drawn per seed."""
        same = section == self.params["embedding"]
        if same and section["source"] != "random":
            return load_matrix(paths.EMBEDDING)
        settings = read_section({"embedding": section | {"seed": seed}}, "embedding", EmbeddingSettings)

        def texts() -> Iterator[str]:
            return (story["text"] for story in read_stories(paths.STORIES, "train"))

        return embedding_matrix(settings, self.tokenizer, texts)[0]

    def settings(self, setting: str, seed: int) -> tuple[ModelSettings, TrainSettings, dict[str, Any]]:
        """Sections model and train of one run, and its `embedding` section unparsed."""
        sections = self.study.sections(setting)
        sections["train"] |= {"seed": seed}
        source = f"study {self.study.name}, {setting}"
        model = read_section(sections, "model", ModelSettings, source)
        return model, read_section(sections, "train", TrainSettings, source), sections["embedding"]

    def parts(self, setting: str, seed: int) -> dict[str, Any]:
        """What decides a run's result: settings, data and code."""
        model, settings, embedding = self.settings(setting, seed)
        values = {f"embedding.{key}": value for key, value in embedding.items()}
        values["held_out_every"] = self.study.held_out_every
        parts = fingerprint({"model": model, "train": settings}, DATA, code_sha256("tinylm/studies/study.py"))
        return json.loads(json.dumps(parts | values))

    def run(self, setting: str, seed: int) -> dict[str, Any]:
        """One run, or the result of an earlier one with the same settings, data and code."""
        parts = self.parts(setting, seed)
        name = digest(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:16]
        path = FOLDER / f"{name}.json"
        if path.exists():
            return read_json(path)["result"]
        result = self._train(setting, seed, parts)
        write_json(path, {"study": self.study.name, "setting": setting, "parts": parts, "result": result})
        return result

    def _train(self, setting: str, seed: int, parts: dict[str, Any]) -> dict[str, Any]:
        model, settings, embedding = self.settings(setting, seed)
        matrix = torch.from_numpy(self._matrix(embedding, seed))
        assembly = assemble(model, settings, matrix, self.stores, self.tokenizer.pad_id, self.device, self.threads)
        every, measured_on = self.study.held_out_every, conditions(self.device, self.threads)
        parts = parts | arithmetic(measured_on, settings, self.device)
        snapshots = Snapshots(FOLDER / "snapshots", parts, self.runtime.snapshot_every_s)

        def held_out() -> Iterator[Batch]:
            return itertools.islice(assembly.held_out(), 0, None, every)

        figures: dict[str, Any]
        try:
            log_every_s = self.runtime.log_every_s
            result = train(
                assembly.model, assembly.batches, held_out, settings, log_every_s=log_every_s, snapshots=snapshots
            )
            figures = outcome(result, assembly)
        except TrainingFailed as error:  # also an answer: this setting does not train
            figures = {"diverged": 1, "error": str(error)}
        snapshots.finish()  # not if the run is interrupted
        mixed = {"mixed": "; ".join(snapshots.mixed)} if snapshots.mixed else {}
        return {**figures, "conditions": measured_on | mixed}


def outcome(result: TrainResult, assembly: Assembly) -> dict[str, Any]:
    """The figures of a finished run; losses in nats per token, held-out of the weights that would be saved."""
    figures, curves = run_figures(result, assembly.batches), result.curves
    epochs = figures.get("by_epoch", [])
    loss = result.best_held_out if result.kept_best else result.last_held_out
    stride = -(-len(curves.train) // POINTS)
    return {
        "diverged": int(not math.isfinite(loss)),
        "held_out_loss": loss,
        "held_out_perplexity": figures["held_out_perplexity"],
        "train_loss": figures["train_loss"],
        "epoch_train_loss": epochs[0]["train_loss"] if epochs else None,
        "updates": figures["updates"],
        "tokens": figures["tokens"],
        "epochs": figures["epochs"],
        "parameters": sum(p.numel() for p in assembly.model.parameters()),
        "train_s": round(result.train_s, 3),
        "tokens_per_s": round(result.tokens / max(result.train_s, 1e-9), 1),
        "curve": [list(point) for point in zip(curves.updates, curves.tokens, curves.train)][stride - 1 :: stride],
        "held_out": [list(point) for point in curves.held_out],
    }


def run_study(bench: Workbench, seeds: tuple[int, ...]) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """(setting, seed, figures) of every run, all settings with one seed before the next seed; under a lock."""
    with exclusive_lock(FOLDER / f"{bench.study.name}.lock", f"study {bench.study.name}"):
        for seed, setting in itertools.product(seeds, bench.study.settings):
            print(f"{bench.study.name}: {setting}, seed {seed}", flush=True)
            yield setting, seed, bench.run(setting, seed)
