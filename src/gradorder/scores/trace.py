"""Watch a model's layers during one forward and backward pass and add up squared gradient norms.

A forward hook on every layer with trainable parameters keeps its input; a hook on its output receives the gradient
there during the backward pass, and the layer's rule turns the two into squared norms, after which both are let go.
Weight gradients are never needed: where nobody else asks for them, the backward pass goes through activations only.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import register_multi_grad_hook

from gradorder.precision import widened
from gradorder.scores.layers import Rule, rule_for
from gradorder.scores.layers.attention import LinearCall, attention_calls, padded_rows, projection
from gradorder.scores.layers.fallback import ModuleCall, UnknownLayoutError, fallback, output_tensors
from gradorder.scores.layers.forms import Form, sum_squares
from gradorder.scores.nested import Nested, mapped_tensors

Rows = tuple[int, int]
"""Some rows of a parameter: the first, and the one after the last."""


@dataclass(frozen=True, eq=False)
class _Use:
    """The gradients of one use of a parameter."""

    parameter: nn.Parameter
    form: Form
    rows: Rows | None
    """Those it is for; None: all."""


@dataclass(eq=False)
class SquaredNorms:
    """The squared gradient norms of one batch, added up as the backward pass goes."""

    num_examples: int | None = None
    """None: of no interest, gradients that come are let go."""
    _uses: Counter[int] = field(default_factory=Counter)
    _total: torch.Tensor | None = None
    _waiting: dict[int, list[_Use]] = field(default_factory=dict)
    on_form: Callable[[nn.Parameter, Form, Rows | None], None] | None = None
    """Told of every gradient that comes, where somebody checks them."""

    def expect(self, parameter: nn.Parameter) -> None:
        """Count one use of a parameter in the forward pass."""
        self._uses[id(parameter)] += 1

    def num_uses(self, parameter: nn.Parameter) -> int:
        """How often a parameter was used."""
        return self._uses[id(parameter)]

    def restart(self) -> None:
        """Forget what an earlier backward pass through the same forward pass has added."""
        self._total = None
        self._waiting.clear()

    def add(self, parameter: nn.Parameter, form: Form, rows: Rows | None = None) -> None:
        """One use's gradients of a parameter, or of some of its rows; several uses wait for each other."""
        if self.on_form is not None:
            self.on_form(parameter, form, rows)
        if self._uses[id(parameter)] == 1:
            self._add(form.squares())
        else:
            self._waiting.setdefault(id(parameter), []).append(_Use(parameter, form, rows))

    def _add(self, squares: torch.Tensor) -> None:
        self._total = squares if self._total is None else self._total.add_(squares)

    def squares(self) -> torch.Tensor | None:
        """The sums over all parameters, shape (B,); None if no gradient has come."""
        for uses in self._waiting.values():
            self._add(_joined(uses))
        self._waiting.clear()
        return self._total


def _joined(uses: Sequence[_Use]) -> torch.Tensor:
    """The squared norm of a sum of gradients, each of all rows of a parameter or of some."""
    blocks: dict[Rows | None, list[Form]] = {}
    for use in uses:
        blocks.setdefault(use.rows, []).append(use.form)
    parts = sorted(rows for rows in blocks if rows is not None)
    if len(blocks) == 1 or (None not in blocks and all(end <= start for (_, end), (start, _) in pairwise(parts))):
        return torch.stack([sum_squares(forms) for forms in blocks.values()]).sum(0)  # no entry in common
    whole = [use.form if use.rows is None else padded_rows(use.form, use.rows, len(use.parameter)) for use in uses]
    return sum_squares(whole)


class LayerWatch:
    """Forward hooks on the layers of a model. A subclass says where a call's gradients go.

    Args:
        model: its layers are watched while the context `on` lasts.
        parameters: those whose gradients count.
    """

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.modules = list(model.modules())
        self._counted = {id(parameter) for parameter in parameters}
        self.is_paused = False
        self.has_one_backward = False
        """Whether inputs may be let go as the backward pass comes by, as autograd does with its own."""
        self._unseen: set[nn.Module] = set()

    @contextmanager
    def on(self) -> Iterator[None]:
        """Watch."""
        with ExitStack() as stack:
            inside_attention: set[nn.Module] = set()
            for module in self.modules:
                if isinstance(module, nn.MultiheadAttention) and _is_plain(module, nn.MultiheadAttention):
                    inside_attention.add(module.out_proj)
                    self._watch_attention(module, stack)
                elif module not in inside_attention:
                    self._watch_layer(module, stack)
            yield

    def _watch_layer(self, module: nn.Module, stack: ExitStack) -> None:
        own = {n: p for n, p in module._parameters.items() if id(p) in self._counted}  # noqa: SLF001 - a plain read
        if own:
            hook = _Hook(self, own, rule_for(module))  # type: ignore[arg-type]
            # First, so that what it sees is the layer's own output, whatever other hooks make of it.
            stack.callback(module.register_forward_hook(hook, prepend=True, with_kwargs=True).remove)

    def _watch_attention(self, module: nn.MultiheadAttention, stack: ExitStack) -> None:
        running = ExitStack()

        def enter(_module: nn.Module, _args: Nested) -> None:
            running.enter_context(attention_calls(module, partial(self._attention_called, module)))

        def leave(_module: nn.Module, _args: Nested, _output: Nested) -> None:
            running.close()

        stack.callback(module.register_forward_pre_hook(enter).remove)
        stack.callback(module.register_forward_hook(leave, always_call=True).remove)

    # ------------------------------------------------------------ to be said by the two kinds of watch

    def current(self) -> SquaredNorms:
        """Where the calls that happen now belong."""
        raise NotImplementedError

    def graph_output(self, output: torch.Tensor, *, is_fresh: bool) -> torch.Tensor:
        """The output as part of the graph."""
        raise NotImplementedError

    def spread(
        self, module: nn.Module, inputs: torch.Tensor, output: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Input and output of a layer that runs once for the whole batch, as if it ran for every example."""
        del module
        return inputs, output

    # ------------------------------------------------------------ calls

    def is_recording(self, module: nn.Module) -> bool:
        """Whether a call that happens now counts."""
        if self.is_paused:
            return False
        if torch._C._current_graph_task_id() != -1:  # noqa: SLF001 - as torch's own checkpointing asks
            if module in self._unseen:
                raise RuntimeError(
                    f"{type(module).__name__} runs again inside the backward pass: its gradients cannot be told "
                    "apart. Use torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
                )
            return False
        if not torch.is_grad_enabled():
            self._unseen.add(module)
            return False
        self._unseen.discard(module)
        return True

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Calls in here do not count."""
        self.is_paused = True
        try:
            yield
        finally:
            self.is_paused = False

    def _attention_called(
        self,
        module: nn.MultiheadAttention,
        call: LinearCall,
        output: torch.Tensor,
    ) -> torch.Tensor:
        counted = [p for p in (call.weight, call.bias) if p is not None and id(p) in self._counted]
        if not counted or not self.is_recording(module):
            return output
        norms = self.current()
        for parameter in counted:
            norms.expect(parameter)

        def arrived(gradient: torch.Tensor) -> None:
            size = norms.num_examples
            if self.is_paused or size is None:
                return
            right, left = _wide(call.inputs.detach(), gradient)
            if left.numel() % (size * left.shape[-1]) or right.numel() % (size * right.shape[-1]):
                raise UnknownLayoutError("MultiheadAttention works on another number of examples than the batch has")
            with in_full_precision(gradient.device):
                end = call.first_row + left.shape[-1]
                rows = None if end - call.first_row == len(call.weight) else (call.first_row, end)
                forms = projection(right, left, size)
                for parameter, form in zip((call.weight, call.bias), forms, strict=True):
                    if parameter is not None and id(parameter) in self._counted:
                        norms.add(parameter, form, rows)

        output = self.graph_output(output, is_fresh=True)
        output.register_hook(arrived)
        return output

    def seen(self, output: torch.Tensor) -> None:
        """A layer's output, one row per example, for those who check it."""


class _Hook:
    """The forward hook of one layer."""

    def __init__(self, watch: LayerWatch, parameters: dict[str, nn.Parameter], rule: Rule | None) -> None:
        self._watch = watch
        self._parameters = parameters
        self._rule = rule

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Nested) -> Nested:
        if not self._watch.is_recording(module):
            return None
        norms = self._watch.current()
        for parameter in self._parameters.values():
            norms.expect(parameter)
        if self._rule is not None and len(args) == 1 and not kwargs and _has_simple_settings(module, args[0]):
            inputs, output = self._watch.spread(module, args[0], output)
            return self._watch_tensor(module, self._rule, inputs, output, norms)
        return self._watch_any(module, args, kwargs, output, norms)

    def _watch_tensor(
        self, module: nn.Module, rule: Rule, inputs: torch.Tensor, output: torch.Tensor, norms: SquaredNorms
    ) -> torch.Tensor:
        output = self._watch.graph_output(output, is_fresh=True)
        self._watch.seen(output)
        kept: list[torch.Tensor] = [inputs.detach()]
        version = inputs._version  # noqa: SLF001 - as autograd checks what it saves

        def arrived(gradient: torch.Tensor) -> None:
            size = norms.num_examples
            if self._watch.is_paused or size is None:
                return
            saved = kept.pop() if self._watch.has_one_backward else kept[0]
            if saved._version != version:  # noqa: SLF001
                raise RuntimeError(f"the input of {type(module).__name__} was changed in place after it was used")
            if len(saved) != size or len(gradient) != size:
                raise UnknownLayoutError(
                    f"{type(module).__name__} works on {len(gradient)} rows, but the batch has {size} examples"
                )
            with in_full_precision(gradient.device):
                forms = rule(module, *_wide(saved, gradient))
                for name, parameter in self._parameters.items():
                    norms.add(parameter, forms[name])

        output.register_hook(arrived)
        return output

    def _watch_any(
        self,
        module: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        output: Nested,
        norms: SquaredNorms,
    ) -> Any:  # noqa: ANN401
        output = mapped_tensors(lambda tensor: self._watch.graph_output(tensor, is_fresh=False), output)
        outputs = output_tensors(output)
        has_gradient = [place for place, tensor in enumerate(outputs) if tensor.requires_grad]
        tensors = [outputs[place] for place in has_gradient]
        if not tensors:
            raise UnknownLayoutError(f"{type(module).__name__} returns no tensor that can have a gradient")

        def arrived(gradients: Sequence[torch.Tensor | None]) -> None:
            size = norms.num_examples
            if self._watch.is_paused or size is None:
                return
            kept_args, kept_kwargs = mapped_tensors(torch.Tensor.detach, (args, kwargs))
            everywhere: list[torch.Tensor | None] = [None] * len(outputs)
            for place, gradient in zip(has_gradient, gradients, strict=True):
                everywhere[place] = gradient
            call = ModuleCall(module, kept_args, kept_kwargs, everywhere)
            with self._watch.paused(), torch.enable_grad():
                forms = fallback(call, list(self._parameters), size)
            for name, form in forms.items():
                norms.add(self._parameters[name], form)

        register_multi_grad_hook(tensors, arrived)
        return output


def _has_simple_settings(module: nn.Module, inputs: Any) -> bool:  # noqa: ANN401
    """Whether the rule serves this call; the rest goes to the fallback or is refused."""
    if isinstance(module, nn.Embedding | nn.EmbeddingBag):
        if module.max_norm is not None:
            raise UnknownLayoutError("an embedding with max_norm changes its weight in the forward pass")
        if module.scale_grad_by_freq:
            raise ValueError(
                "scale_grad_by_freq=True divides by counts over the batch: there is no per-example gradient"
            )
    if isinstance(module, nn.EmbeddingBag):
        return module.mode in ("sum", "mean") and inputs.ndim == 2  # noqa: PLR2004 - (B, N)
    return isinstance(inputs, torch.Tensor)


@contextmanager
def in_full_precision(device: torch.device) -> Iterator[None]:
    """Norms are not computed in half precision, even where autocast is on."""
    if not torch.is_autocast_enabled(device.type):
        yield
    else:
        with torch.autocast(device.type, enabled=False):
            yield


def _is_plain(module: nn.Module, kind: type[nn.Module]) -> bool:
    return type(module).forward is kind.forward


def _wide(inputs: torch.Tensor, gradient: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both in float32 or better. Under autocast the layer saw its input in the precision of its output."""
    if inputs.is_floating_point():
        inputs = widened(inputs.to(gradient.dtype))
    return inputs, widened(gradient)
