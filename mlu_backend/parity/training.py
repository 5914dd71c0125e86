"""The part of the recorder that follows training: parameters, losses, gradients, optimizer steps, loss scaling."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.parameter import is_lazy

from mlu_backend.parity import nested
from mlu_backend.parity.measuring import Measuring
from mlu_backend.parity.surroundings import as_number, hyperparameters, random_states

LEFT_BEHIND = 20
"""
Steps another optimizer makes in a row before it counts the steps instead. Networks that train against each other give
one of the two up to five; those that give it more begin with that one.
"""


class Training(Measuring):
    """What happens around a step."""

    def _reset(self) -> None:
        super()._reset()
        self._optimizers: dict[int, tuple[weakref.ref[Any], int]] = {}
        self._optimizers_by_number: dict[int, weakref.ref[Any]] = {}
        self._leader: int | None = None
        self._others: dict[int, int] = {}  # steps of the other optimizers since the leader's last
        self._hyperparameters: dict[int, Any] = {}
        self._scaled: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}
        self._scale: float | None = None
        self._states: set[str] = set()
        self._began = False
        self._stepped: set[int] = set()

    def _begin(self) -> None:
        if not self._began:
            self._began = True
            self._identify()
            self.random_state("start")

    def _state(self, root: torch.nn.Module, path: str) -> None:
        """All parameters and buffers of a root, before it first computes."""
        if path in self._states:
            return
        self._states.add(path)
        items = [[f"{path}.{name}", self.stat(p)] for name, p in root.named_parameters() if not is_lazy(p)]
        buffers = [[f"{path}.{name}", self.stat(b)] for name, b in root.named_buffers() if not is_lazy(b)]
        self.writer.event(k="state", root=path, step=self.step, parameters=items, buffers=buffers)

    def backward(self, roots: list[torch.Tensor]) -> None:
        """A backward pass is about to start from these tensors."""
        with self._quiet():
            entries = []
            for i, root in enumerate(roots):
                unscaled = self._scaled.get(id(root))
                index = unscaled[1] if unscaled is not None and unscaled[0]() is root else self.stat(root)
                entries.append([str(i), index])
            self.writer.event(k="loss", step=self.step, roots=entries, site=self.site(3))

    def gradients(self, results: Iterable[torch.Tensor | None]) -> None:
        """What ``torch.autograd.grad`` returned."""
        with self._quiet():
            entries = [[str(i), self.stat(g, fresh=True)] for i, g in enumerate(results) if g is not None]
            self.writer.event(k="autograd", step=self.step, out=entries, site=self.site(3))

    def _parameter_names(self, optimizer: torch.optim.Optimizer, number: int) -> Iterator[tuple[str, torch.Tensor]]:
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                yield self.modules.parameter(parameter, f"optimizer{number}.group{g}.{p}"), parameter

    def before_step(self, optimizer: torch.optim.Optimizer) -> None:
        """Gradients as the optimizer is about to use them."""
        with self._quiet():
            self._begin()
            number = self._number(optimizer)
            items = [
                [name, self.stat(parameter.grad, fresh=True)]
                for name, parameter in self._parameter_names(optimizer, number)
                if parameter.grad is not None
            ]
            name, site = type(optimizer).__name__, self.site(3)
            self.writer.event(
                k="grads", step=self.step, opt=number, items=items, scale=self._scale, type=name, site=site
            )
            groups = [hyperparameters(group) for group in optimizer.param_groups]
            if self._hyperparameters.get(number) != groups:
                self._hyperparameters[number] = groups
                self.writer.event(k="optimizer", opt=number, step=self.step, type=name, groups=groups, site=site)

    def after_step(self, optimizer: torch.optim.Optimizer) -> bool:
        """An optimizer stepped. True when the program has made the steps it was asked for."""
        done = False
        with self._quiet():
            number = self._number(optimizer)
            self._lead(number)
            first = number not in self._stepped  # a second optimizer steps after the first one has counted the step
            self._stepped.add(number)
            if first or (self.options.every and (self.step + 1) % self.options.every == 0):
                items = [[n, self.stat(p, fresh=True)] for n, p in self._parameter_names(optimizer, number)]
                self.writer.event(k="parameters", step=self.step, opt=number, items=items)
            rates = [as_number(group.get("lr")) for group in optimizer.param_groups]
            self.writer.event(k="step", step=self.step, opt=number, lr=rates, site=self.site(3))
            if number == self._leader:
                self.random_state("step")
                self.step += 1
                self._seen.clear()
                self._watched.clear()
                self._scaled.clear()
                self.writer.flush(force=False)
                done = 0 < self.options.steps <= self.step
        return done

    def _lead(self, number: int) -> None:
        """
        The steps of the first optimizer are the program's. One that is gone, or has not stepped while another did so
        often, was of an earlier part of the training.
        """
        if number == self._leader:
            self._others.clear()
            return
        self._others[number] = self._others.get(number, 0) + 1
        leader = None if self._leader is None else self._optimizers_by_number.get(self._leader)
        if leader is None or leader() is None or self._others[number] > LEFT_BEHIND:
            self._leader = number
            self._others.clear()

    def _number(self, optimizer: torch.optim.Optimizer) -> int:
        known = self._optimizers.get(id(optimizer))
        if known is not None and known[0]() is optimizer:
            return known[1]
        number = len(self._optimizers_by_number)
        self._optimizers[id(optimizer)] = (weakref.ref(optimizer), number)
        self._optimizers_by_number[number] = weakref.ref(optimizer)
        if self._leader is None:
            self._leader = number
        return number

    def _parameters(self, when: str) -> None:
        for reference, number in list(self._optimizers.values()):
            optimizer = reference()
            if optimizer is not None:
                items = [[n, self.stat(p, fresh=True)] for n, p in self._parameter_names(optimizer, number)]
                self.writer.event(k="parameters", step=self.step, opt=number, items=items, when=when)

    def saved(self, value: Any) -> None:
        """
        What goes into a file: averages, buffers and states of optimizers that nothing else may show before the end.
        """
        with self._quiet():
            items = [[name, self.stat(tensor)] for name, tensor in nested.saved(value)]
            if items:
                self.writer.event(k="saved", step=self.step, items=items, site=self.site(3))

    def scaled(self, loss: torch.Tensor, result: torch.Tensor) -> None:
        """A loss was multiplied by a scale: the loss is what is recorded when its backward pass starts."""
        with self._quiet():
            self._scaled[id(result)] = (weakref.ref(result), self.stat(loss))

    def scaler(self, what: str, **fields: Any) -> None:
        """A GradScaler was made or updated."""
        with self._quiet():
            self._scale = fields.get("scale", self._scale)
            self.writer.event(k="scaler", what=what, step=self.step, site=self.site(3), **fields)

    def random_state(self, when: str) -> None:
        """Fingerprints of the states of all random generators."""
        self.writer.event(k="random", when=when, step=self.step, states=random_states())

    def last_words(self) -> None:
        """The parameters a program ends with."""
        self._identify()
        self._parameters("end")
