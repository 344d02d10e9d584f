"""Train an adapter on calibration prefixes and their success rates, by one of two losses, and predict with it.

Prefixes are divided into batches and forward passes over token trees.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict
from torch import Tensor

from prmcal.arrays import Bools, Floats, Ints
from prmcal.errors import PluginFailedError
from prmcal.registry.calibrators.lora.model import ADAPTER, adapted, lora_config, quantile_model
from prmcal.registry.calibrators.lora.training import Passes, RowLoss, isolated, train
from prmcal.registry.contracts.calibrator import FitSupport
from prmcal.registry.contracts.data import Prefix
from prmcal.registry.models.memory import in_halves
from prmcal.registry.prms.token_tree import (
    TokenizedTrajectory,
    build_token_tree,
    collate_token_trees,
    pack_trajectories,
)
from prmcal.registry.prms.transformers import TransformersPRM

_LEAST_SHARE = 0.75
"""A tree smaller than this share of a pass's largest tree goes into another pass, to avoid padding."""


def quantile_loss(predicted: Tensor, target: Tensor, levels: Sequence[float]) -> Tensor:
    """Return the weighted quantile loss (wQL, section 3.2 of the paper) of each row, of shape (...).

    It is the mean over levels of ``beta max(0, y - r) + (1 - beta) max(0, r - y)``, for the prediction r in [0, 1], of
    shape (..., levels), and the target y = k/n, of shape (...). Its expectation is smallest if r is the beta-quantile
    of y. scikit-learn's mean_pinball_loss has no gradient.
    """
    betas = predicted.new_tensor(tuple(levels))
    short = target[..., None] - predicted
    return torch.maximum(betas * short, (betas - 1) * short).mean(dim=-1)


def squared_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """Return the squared error of each row, of shape (...), for predictions of shape (..., 1).

    Its expectation is smallest if the prediction is the mean of the target.
    """
    return (predicted[..., 0] - target).square()


def fit_adapter(
    prm: TransformersPRM,
    prefixes: Sequence[Prefix],
    rates: Floats,
    levels: Sequence[float],
    settings: Mapping[str, Any],
    support: FitSupport,
    fit: str,
) -> tuple[dict[str, Tensor], LoraConfig, int]:
    """Train an adapter. Return its weights on the CPU, its options, and the number of training batches.

    The PRM is not changed. It gets an output for each level. They are trained on the success rates of the prefixes, of
    shape (rows,). `settings` are the calibrator's arguments, and `fit` is a hash of everything else. Checkpoints of
    other fits are ignored.
    """
    base, sequences = quantile_model(prm, len(levels)), token_ids(prm, prefixes)
    by_trajectory = settings["batches"] == "trajectories"
    units = trajectories_of(prefixes) if by_trajectory else list(np.arange(len(prefixes))[:, None])
    epochs = plan_batches(units, settings["batch_size"], settings["epochs"], settings["seed"])
    batches = [batch for epoch in epochs for batch in epoch]
    config = lora_config(
        base, *(settings[name] for name in ("rank", "alpha", "dropout", "layers", "target_modules", "head"))
    )
    with isolated(settings["seed"], base.device):
        model = adapted(base, config)
        train(
            model,
            prm.tokenizer,
            lambda number: batch_passes(batches[number], prefixes, sequences, rates, prm),
            row_loss(settings["loss"], levels),
            [len(epoch) for epoch in epochs],
            settings,
            support,
            fit,
        )
        trained = get_peft_model_state_dict(model, adapter_name=ADAPTER, save_embedding_layers=False)
    return {name: weight.detach().cpu().clone() for name, weight in trained.items()}, config, len(batches)


def batch_passes(
    rows: Ints, prefixes: Sequence[Prefix], sequences: Sequence[Sequence[int]], rates: Floats, prm: TransformersPRM
) -> Passes:
    """Return the forward passes of a batch. Each prefix has the weight one over the batch size."""
    passes: Passes = []
    batch_sequences = [sequences[row] for row in rows]
    for trees in pack([prefixes[row] for row in rows], batch_sequences, prm):
        inputs, places, is_taken = collate(batch_sequences, trees, prm)
        target = np.zeros(is_taken.shape, dtype=np.float32)
        target[is_taken] = rates[rows[places]]
        weight = np.where(is_taken, 1.0 / len(rows), 0.0).astype(np.float32)
        passes.append({"inputs": inputs, "target": torch.from_numpy(target), "weight": torch.from_numpy(weight)})
    return passes


def row_loss(name: str, levels: Sequence[float]) -> RowLoss:
    """Return the loss function of rewards for each row, by its name."""
    return squared_loss if name == "mse" else partial(quantile_loss, levels=levels)


def mean_loss(predicted: Floats, rates: Floats, levels: Sequence[float], name: str) -> float:
    """Return the mean loss of predictions of shape (rows, levels)."""
    return float(row_loss(name, levels)(torch.from_numpy(predicted), torch.from_numpy(rates)).mean())


def token_ids(prm: TransformersPRM, prefixes: Sequence[Prefix]) -> list[tuple[int, ...]]:
    """Return the token ids of each prefix as the PRM reads it. Raises a PluginFailedError if one is too long for it."""
    ids_by_prefix = {prefix: prm.prefix_ids(prefix.question, prefix.steps) for prefix in set(prefixes)}
    sequences = []
    for prefix in prefixes:
        ids = ids_by_prefix[prefix]
        if ids is None:
            raise PluginFailedError(
                f"A prefix of {len(prefix.steps)} steps is longer than the {prm.max_tokens} tokens that the PRM reads. "
                "Leave out prefixes with the flag 'over_long'."
            )
        sequences.append(ids)
    return sequences


def trajectories_of(prefixes: Sequence[Prefix]) -> list[Ints]:
    """Return the rows of each trajectory: a run in which each prefix continues or repeats the one before."""
    starts = [0]
    for row, (before, prefix) in enumerate(pairwise(prefixes), start=1):
        if prefix.question != before.question or prefix.steps[: len(before.steps)] != before.steps:
            starts.append(row)
    return [np.arange(start, end) for start, end in zip(starts, [*starts[1:], len(prefixes)], strict=True)]


def plan_batches(units: Sequence[Ints], batch_size: int, epochs: int, seed: int) -> list[list[Ints]]:
    """Return the rows of every batch, for every epoch.

    A batch has about `batch_size` rows and consists of whole units. Their order is random in each epoch, and the
    batches of an epoch are as even in size as possible. The plan depends on the arguments alone.
    """
    sizes = np.array([len(unit) for unit in units])
    batches = max(1, round(int(sizes.sum()) / batch_size))
    plan = []
    for epoch in range(epochs):
        order = np.random.default_rng([seed, epoch]).permutation(len(units))
        starts = np.concatenate([[0], np.cumsum(sizes[order])[:-1]])
        batch_of = starts * batches // sizes.sum()
        numbers = np.unique(batch_of)
        plan.append([np.concatenate([units[unit] for unit in order[batch_of == number]]) for number in numbers])
    return plan


def pack(prefixes: Sequence[Prefix], sequences: Sequence[Sequence[int]], prm: TransformersPRM) -> list[list[list[int]]]:
    """Pack prefixes into token trees, and trees of similar size into forward passes, as large as the PRM's own.

    The prefixes of one trajectory go into the same tree. `sequences` are their token ids. The result has passes of
    trees of indices into `prefixes`.
    """
    order = sorted(range(len(prefixes)), key=lambda index: (prefixes[index].question, prefixes[index].steps))
    ordered = [prefixes[index] for index in order]
    runs = [[order[place] for place in run] for run in trajectories_of(ordered)]
    trajectories = [TokenizedTrajectory.of([tuple(sequences[index]) for index in run]) for run in runs]
    passes = pack_trajectories(trajectories, prm.tree_tokens, prm.batch_tokens, _LEAST_SHARE)
    return [[[index for run in tree for index in runs[run]] for tree in one_pass] for one_pass in passes]


def collate(
    sequences: Sequence[Sequence[int]], trees: Sequence[Sequence[int]], prm: TransformersPRM
) -> tuple[dict[str, Tensor], Ints, Bools]:
    """Build the inputs of one forward pass of the PRM, over the sequences whose indices are in `trees`.

    The inputs are the trees, and `leaves` of shape (trees, slots): one slot for each sequence. Also return the index of
    each sequence, of shape (sequences,), and which slots have a sequence, of shape (trees, slots).
    """
    weights = next(prm.modules[0].parameters())
    built = [build_token_tree([sequences[index] for index in tree]) for tree in trees]
    slots = max(len(tree) for tree in trees)
    leaves = np.zeros((len(trees), slots), dtype=np.int64)
    is_taken = np.zeros((len(trees), slots), dtype=np.bool_)
    for number, tree in enumerate(built):
        leaves[number, : len(tree.leaves)] = tree.leaves
        is_taken[number, : len(tree.leaves)] = True
    inputs = collate_token_trees(built, pad_id=0, dtype=weights.dtype, device=weights.device)
    inputs["leaves"] = torch.from_numpy(leaves).to(weights.device)
    return inputs, np.concatenate([np.asarray(tree, dtype=np.int64) for tree in trees]), is_taken


def predict_log_odds(model: PeftModel, prm: TransformersPRM, prefixes: Sequence[Prefix], quantiles: int) -> Floats:
    """Return the log-odds of each quantile of prefixes, of shape (rows, quantiles). Equal ones are computed once."""
    distinct = sorted(set(prefixes), key=lambda prefix: (prefix.question, prefix.steps))
    number = {prefix: index for index, prefix in enumerate(distinct)}
    rows = np.array([number[prefix] for prefix in prefixes], dtype=np.int64)
    sequences = token_ids(prm, distinct)
    log_odds = np.empty((len(distinct), quantiles))

    def predict(trees: Sequence[Sequence[int]]) -> None:
        inputs, places, is_taken = collate(sequences, trees, prm)
        with torch.inference_mode():
            log_odds[places] = model(**inputs).double().cpu().numpy()[is_taken]

    for trees in pack(distinct, sequences, prm):
        in_halves(predict, trees, lambda _: None)
    return log_odds[rows]
