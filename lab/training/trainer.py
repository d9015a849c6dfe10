"""The training loop: one step after another, and everything that is due between two of them.

What is due at a step is written in this order: evaluation, a line of metrics, a sample, dynamics, and then
the checkpoint. So a checkpoint promises that everything up to its step is on disk, and a resumed run sets
aside what came after and repeats it to the bit.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from lab.runs import Run, write_json
from lab.runs.checkpoints import step_folders
from lab.training.checkpoint import (
    Progress,
    clean_up,
    fixed_settings,
    is_scheduled,
    remove_checkpoint,
    save_checkpoint,
    thin_out,
)
from lab.training.config import RunConfig
from lab.training.data import Batches, TrainingData
from lab.training.distributed import World
from lab.training.dynamics import measure_dynamics
from lab.training.evaluation import Evaluation, evaluate
from lab.training.optimizers import Optimizers
from lab.training.precision import autocast
from lab.training.restore import SET_BACK, newest_whole, set_back
from lab.training.sampling import sample
from lab.training.schedule import lr_multiplier
from lab.training.signals import Signals
from model import GPT

HEARTBEAT_SECONDS = 1.0
PAUSE_POLL_SECONDS = 0.2
PROBE_TOKENS = 128

OnStep = Callable[[Mapping[str, Any]], None]


class Diverged(Exception):
    """Training cannot go on: the loss or the gradient is not finite, or has exploded for good.

    since: the first step whose weights are to blame.
    """

    def __init__(self, reason: str, since: int):
        super().__init__(reason)
        self.since = since


def _task_scores(evaluation: Evaluation | None) -> dict[str, float]:
    """What is measured of a task only: val_task_loss and val_accuracy, over the tokens that can be known."""
    if evaluation is None or evaluation.task_loss is None or evaluation.accuracy is None:
        return {}
    return {"val_task_loss": evaluation.task_loss, "val_accuracy": evaluation.accuracy}


class Trainer:
    """Trains the model of one run folder, from its newest checkpoint or from step 0.

    config is resolved: d_vocab, device and precision are final. on_step is called with each line of metrics.
    """

    def __init__(
        self,
        run: Run,
        config: RunConfig,
        data: TrainingData,
        device: torch.device,
        world: World,
        on_step: OnStep | None,
    ):
        self.run, self.config, self.data, self.world, self.on_step = run, config, data, world, on_step
        self.training, self.device = config.training, device
        self.model = GPT(config.model).to(device)
        self.model.tokenizer = data.tokenizer
        self.optimizers = Optimizers(self.model, self.training)
        self.batches = Batches(data.train, config.model.n_ctx, self.training.batch_size, self.training.data_seed)
        forward = torch.compile(self.model) if self.training.compile else self.model
        self.forward = world.wrap(forward, device)  # type: ignore[arg-type]
        self.progress = Progress()
        self.hashes = data.hashes
        self._noted: set[Any] = set()  # steps whose checkpoint is among the events
        self._done_noted = False  # whether the end is among them: a kill may have come before the status said so
        self._resumed_at = -1
        self._set_back_to = 0  # up to this step, what is written replaces what was there before a resume
        model = config.model
        self._has_dropout = max(model.embed_dropout, model.attn_dropout, model.resid_dropout) > 0
        self._parameters = list(self.model.parameters())
        self._clock = self._heartbeat = time.perf_counter()
        self._signals = Signals()

    # --- the loop -------------------------------------------------------------------------------------------

    def train(self) -> str:
        """Train to the end, or until asked to stop or diverged; returns the state it ended in."""
        resumed = self._restore()
        self._clock = time.perf_counter()
        self.model.train()
        self._status("running")
        with self._signals:
            if not resumed:
                self._first_weights()
                self._between_steps()  # what is due at step 0
            while self.progress.step < self.training.steps:
                pause, stop = self._requests()
                if stop or (pause and not self._pause()):
                    return self._stop()
                try:
                    self._step()
                except Diverged as reason:
                    return self._diverged(reason)
                self._between_steps()
        self._finish("done")
        return "done"

    def _first_weights(self) -> None:
        """At step 0: the weights of another model, where the run asks for them."""
        if self.training.from_weights is None:
            return
        from lab.training.initial import start_from

        digest = start_from(self.model, self.training.from_weights)
        if self.world.main:
            self.run.event("weights", of=self.training.from_weights, sha256=digest)

    def _step(self) -> None:
        """One update of the weights.

        Raises Diverged before it when the loss or the gradient is not finite.
        """
        started = time.perf_counter()
        progress, training = self.progress, self.training
        tokens = torch.from_numpy(self.world.rows(self.batches(progress.step))).to(self.device, non_blocking=True)
        with self._step_randomness(), autocast(training.precision, self.device):
            loss = self.forward(tokens[:, :-1], return_type="loss", targets=tokens[:, 1:])
        loss.backward()
        if training.grad_clip is None:
            norm = torch.nn.utils.get_total_norm([p.grad for p in self._parameters if p.grad is not None])
        else:
            norm = torch.nn.utils.clip_grad_norm_(self._parameters, training.grad_clip)
        mean_loss, grad_norm = torch.stack([loss.detach().float(), norm.float()]).tolist()
        if self.world.size > 1:
            mean_loss = self.world.total([mean_loss], self.device)[0] / self.world.size
        self._check(mean_loss, grad_norm)
        self.optimizers.set_lr(lr_multiplier(progress.step, training))
        self.optimizers.step()
        self.optimizers.zero_grad()
        progress.step += 1
        progress.tokens += training.batch_size * self.config.model.n_ctx
        progress.losses.append(mean_loss)
        progress.grad_norm = grad_norm
        progress.clipped += training.grad_clip is not None and grad_norm > training.grad_clip
        progress.seconds += time.perf_counter() - started

    @contextmanager
    def _step_randomness(self) -> Iterator[None]:
        """Dropout's random numbers, a function of (seed, step, rank); torch's own stream is untouched."""
        if not self._has_dropout:
            yield
            return
        seed = np.random.SeedSequence([self.training.seed, self.progress.step, self.world.rank])
        cuda = [self.device] if self.device.type == "cuda" else []
        with torch.random.fork_rng(devices=cuda):
            torch.manual_seed(int(seed.generate_state(1, np.uint64)[0] >> 1))
            yield

    def _check(self, loss: float, grad_norm: float) -> None:
        """Raise Diverged for a loss that is not finite, or far above a uniform guess for many steps in a row."""
        progress, training = self.progress, self.training
        at = f"diverged at step {progress.step}"
        since = progress.step - progress.exploded
        if not math.isfinite(loss):
            raise Diverged(f"{at}: the training loss is not finite", since)
        if not math.isfinite(grad_norm):
            raise Diverged(f"{at}: the gradient is not finite", since)
        if progress.first_loss is None:
            progress.first_loss = loss
        limit = training.divergence_factor * max(math.log(self.config.model.d_vocab), progress.first_loss)
        progress.exploded = progress.exploded + 1 if loss > limit else 0
        if training.divergence_patience and progress.exploded >= training.divergence_patience:
            raise Diverged(
                f"{at}: the training loss was above {limit:.3g} for {progress.exploded} steps in a row "
                f"({training.divergence_factor:g} times that of the untrained model)",
                since,
            )

    # --- between two steps ----------------------------------------------------------------------------------

    def _between_steps(self) -> None:
        """Write whatever is due now that `progress.step` updates are made."""
        step, training = self.progress.step, self.training
        if not self.world.main:
            return
        last = step == training.steps
        evaluation = (
            evaluate(self.model, self.data, training.eval_tokens) if step % training.eval_every == 0 or last else None
        )
        improved = evaluation is not None and self._note_best(evaluation)
        if evaluation is not None or step % training.log_every == 0:
            self._line(evaluation)
        if training.sample_every and (step % training.sample_every == 0 or last):
            self.run.append("samples", sample(self.model, self.data, training, step))
        if is_scheduled(step, training):
            if training.dynamics:
                probe = self.data.validation[: min(self.config.model.n_ctx, PROBE_TOKENS)]
                record = measure_dynamics(self.model, self.batches(step), probe)
                self.run.append("dynamics", {"step": step, **record})
            self._checkpoint()
        elif improved:
            self._checkpoint()
        if time.perf_counter() - self._heartbeat > HEARTBEAT_SECONDS:
            self._status("running", durable=False)

    def _note_best(self, evaluation: Evaluation) -> bool:
        """Whether this is the lowest validation loss so far; one that is not finite never is."""
        progress = self.progress
        if not math.isfinite(evaluation.loss):
            return False
        if progress.best_loss is not None and evaluation.loss >= progress.best_loss:
            return False
        progress.best_loss, progress.best_step = evaluation.loss, progress.step
        return True

    def _line(self, evaluation: Evaluation | None) -> None:
        """A line of metrics; train_loss and clipped are over the steps since the line before."""
        progress, training = self.progress, self.training
        multiplier = lr_multiplier(progress.step, training)
        count = len(progress.losses)
        record = {
            "step": progress.step,
            "tokens": progress.tokens,
            "seconds": progress.seconds,
            "wall_seconds": self._wall_seconds(),
            "train_loss": sum(progress.losses) / count if count else None,
            "val_loss": evaluation.loss if evaluation else None,
            "val_bpb": evaluation.bpb if evaluation else None,
            **_task_scores(evaluation),
            "lr": multiplier * training.lr,
            **({"muon_lr": multiplier * training.muon_lr} if training.optimizer == "muon" else {}),
            "grad_norm": progress.grad_norm,
            "clipped": progress.clipped / count if count and training.grad_clip is not None else None,
        }
        self.run.append("metrics", record)
        progress.losses, progress.clipped = [], 0
        if self.on_step is not None:
            self.on_step(record)

    def _checkpoint(self) -> None:
        """Make everything up to this step durable.

        A checkpoint whose weights are not finite is never written.
        """
        if not self.world.main or not all(torch.isfinite(p).all() for p in self._parameters):
            return
        self._wall_seconds()
        for name in ("metrics", "samples", "dynamics"):
            path = self.run.path / f"{name}.jsonl"
            if path.exists():
                with path.open("rb") as file:
                    os.fsync(file.fileno())
        step = self.progress.step
        again = self._resumed_at < step <= self._set_back_to
        if again or step not in self.run.checkpoints():
            optimizers = self.optimizers if self.training.optimizer_history else None
            settings = fixed_settings(self.config)
            save_checkpoint(self.run, self.model, optimizers, self.progress, self.hashes, settings)
            self._note_checkpoint(step)
        self._tidy()

    def _note_checkpoint(self, step: int) -> None:
        if step not in self._noted:
            self.run.event("checkpoint", step=step)
            self._noted.add(step)

    def _tidy(self) -> None:
        """What follows from the newest checkpoint: which one is best, and what it replaces."""
        if self.progress.best_step is not None:
            best = {"step": self.progress.best_step, "val_loss": self.progress.best_loss}
            write_json(self.run.path / "best.json", best)
        thin_out(self.run, self.progress, self.training)
        if self.progress.step >= self._set_back_to:
            (self.run.path / SET_BACK).unlink(missing_ok=True)

    def _wall_seconds(self) -> float:
        now = time.perf_counter()
        self.progress.wall_seconds += now - self._clock
        self._clock = now
        return self.progress.wall_seconds

    # --- requests and endings -------------------------------------------------------------------------------

    def _requests(self) -> tuple[bool, bool]:
        """Whether a pause, and a stop, is asked for, in the folder or by a signal; all processes hear the same."""
        pause = self.world.main and self.run.requested("pause")
        stop = self._signals.came or (self.world.main and self.run.requested("stop"))
        pause, stop = (value > 0 for value in self.world.total([float(pause), float(stop)], self.device))
        return pause, stop

    def _pause(self) -> bool:
        """Save and wait. False when a stop was asked for meanwhile."""
        self._checkpoint()
        self._status("paused")
        self._event("pause")
        while True:
            pause, stop = self._requests()
            if stop or not pause:
                break
            time.sleep(PAUSE_POLL_SECONDS)
            self._clock = time.perf_counter()  # a pause is no time spent
            if self.world.main and self._clock - self._heartbeat > HEARTBEAT_SECONDS:
                self._status("paused", durable=False)
        if stop:
            return False
        self._status("running")
        self._event("resume", process=os.getpid(), paused=True)
        return True

    def _stop(self) -> str:
        self._checkpoint()
        self._finish("stopped")
        return "stopped"

    def _diverged(self, reason: Diverged) -> str:
        """End without a step. Checkpoints of the very weights that failed are no good ones and go."""
        if self.world.main:
            if self.progress.losses:
                self._line(None)
            steps = self.run.checkpoints()
            for step in steps:
                if step >= reason.since > steps[0]:  # the last one there is stays
                    remove_checkpoint(self.run, step)
                    if self.progress.best_step == step:
                        (self.run.path / "best.json").unlink(missing_ok=True)
        self._finish("diverged", str(reason))
        return "diverged"

    def _finish(self, state: str, error: str | None = None) -> None:
        """Say how it ended: the event first, so that a kill in between repeats it rather than losing it."""
        if state != "done" or not self._done_noted:
            self._event({"stopped": "stop"}.get(state, state), **({"error": error} if error else {}))
        self._status(state, error=error)

    def _status(self, state: str, *, error: str | None = None, durable: bool = True) -> None:
        if self.world.main:
            self._heartbeat = time.perf_counter()
            self.run.write_status(state, self.progress.step, self.training.steps, error=error, durable=durable)

    def _event(self, kind: str, **details: Any) -> None:
        if self.world.main:
            self.run.event(kind, step=self.progress.step, **details)

    # --- resuming -------------------------------------------------------------------------------------------

    def _restore(self) -> bool:
        """Take up the newest whole checkpoint and set aside what was written after it; begin at step 0 where nothing
        was. Returns whether there was one.
        """
        if self.world.main:
            clean_up(self.run)
        self.world.wait()  # nobody reads what still gets its name
        found, damaged = newest_whole(self.run, self.model, self.optimizers, self.training.steps)
        self.progress = found or Progress()
        self.world.wait()  # nobody sets anything aside while another still reads
        if not self.world.main:
            return found is not None
        step = self._resumed_at = self.progress.step if found else -1
        self._set_back_to = max(set_back(self.run, step), *step_folders(self.run), step)
        events = self.run.events()
        self._noted = {event.get("step") for event in events if event.get("event") == "checkpoint"}
        self._done_noted = any((e.get("event"), e.get("step")) == ("done", self.training.steps) for e in events)
        if found:  # a kill may have come between a checkpoint and what follows from it
            for kept in self.run.checkpoints():
                if kept <= step:
                    self._note_checkpoint(kept)
            self._tidy()
        kind = "resume" if any(event.get("event") == "start" for event in events) else "start"
        self._event(kind, process=os.getpid(), **({"damaged": damaged} if damaged else {}))
        return found is not None
