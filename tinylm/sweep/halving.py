"""Successive halving by Optuna's rule: a run stops if others were better after as many updates.

The rule is asynchronous (ASHA, Li et al. 2020, https://arxiv.org/abs/1810.05934): which runs are
stopped depends on the order in which they get that far. All processes read and write one journal in
the sweep's folder.
"""

from pathlib import Path
from typing import Any

from tinylm.base.config import InputError
from tinylm.sweep.plan import Sweep

JOURNAL = "halving.journal"


def _study(folder: Path, first: int, factor: int) -> Any:
    try:
        import optuna
    except ModuleNotFoundError:
        raise InputError("--halving: the package is not installed; pip install optuna") from None
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    storage = JournalStorage(JournalFileBackend(str(folder / JOURNAL)))
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=first, reduction_factor=factor)
    return optuna.create_study(
        storage=storage, pruner=pruner, study_name="halving", load_if_exists=True
    )


def new_trials(folder: Path, runs: int, first: int, factor: int) -> list[int]:
    """Begin a journal; the number of each run's trial. first: updates until one can be stopped."""
    study = _study(folder, first, factor)
    return [study.ask()._trial_id for _ in range(runs)]


def should_stop(sweep: Sweep, number: int, update: int, loss: float) -> bool:
    """Whether the run, with this held-out loss after this update, is not among the best."""
    if sweep.halving is None:
        return False
    import optuna

    trial = optuna.trial.Trial(_study(sweep.folder, *sweep.halving), sweep.trials[number - 1])
    trial.report(loss, update)
    return bool(trial.should_prune())
