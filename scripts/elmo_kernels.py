"""The two expensive parts of a biLM, with their derivatives written out: the LSTM layer, and the sampled softmax.

The LSTM computes what `evenhand.models.encoders.elmo.network.ElmoLSTMLayer` does. Its steps are matrix products and one
elementwise kernel each, and the gradients of the matrices are single products over all tokens. The softmax turns the
logits into their gradient in place. Elementwise parts are Triton kernels on a GPU, and torch elsewhere.
"""

import os
from typing import Any

import torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # runs the kernels on the CPU, to test them
try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

FORGET_BIAS = 1.0
BLOCK = 1024


def fused(x: torch.Tensor) -> bool:
    """Whether the kernels run for this tensor."""
    return triton is not None and (x.is_cuda or INTERPRETED)


if triton is not None:

    @triton.jit
    def _tanh(x):
        return 2 * tl.sigmoid(2 * x) - 1

    @triton.jit
    def _cell_forward(
        g, before, after, out, sg, sb, sa, so, n, clip, FORGET: tl.constexpr, C: tl.constexpr, BLOCK: tl.constexpr
    ):
        way = tl.program_id(1).to(tl.int64)
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        gate = g + way * sg + (at // C).to(tl.int64) * (4 * C) + at % C
        i = tl.sigmoid(tl.load(gate, inside, 0.0).to(tl.float32))
        j = _tanh(tl.load(gate + C, inside, 0.0).to(tl.float32))
        f = tl.sigmoid(tl.load(gate + 2 * C, inside, 0.0).to(tl.float32) + FORGET)
        o = tl.sigmoid(tl.load(gate + 3 * C, inside, 0.0).to(tl.float32))
        c = f * tl.load(before + way * sb + at, inside, 0.0) + i * j
        c = tl.minimum(tl.maximum(c, -clip), clip)
        tl.store(after + way * sa + at, c, inside)
        tl.store(out + way * so + at, (o * _tanh(c)).to(out.dtype.element_ty), inside)

    @triton.jit
    def _cell_backward(
        g,
        before,
        after,
        dm,
        dc,
        sg,
        sb,
        sa,
        sm,
        sd,
        n,
        clip,
        FORGET: tl.constexpr,
        C: tl.constexpr,
        BLOCK: tl.constexpr,
    ):
        way = tl.program_id(1).to(tl.int64)
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        inside = at < n
        gate = g + way * sg + (at // C).to(tl.int64) * (4 * C) + at % C
        i = tl.sigmoid(tl.load(gate, inside, 0.0).to(tl.float32))
        j = _tanh(tl.load(gate + C, inside, 0.0).to(tl.float32))
        f = tl.sigmoid(tl.load(gate + 2 * C, inside, 0.0).to(tl.float32) + FORGET)
        o = tl.sigmoid(tl.load(gate + 3 * C, inside, 0.0).to(tl.float32))
        c = tl.load(after + way * sa + at, inside, 0.0)
        t = _tanh(c)
        m = tl.load(dm + way * sm + at, inside, 0.0).to(tl.float32)
        d = tl.load(dc + way * sd + at, inside, 0.0) + m * o * (1 - t * t)
        d = tl.where(tl.abs(c) < clip, d, 0.0)
        kind = g.dtype.element_ty
        tl.store(gate, (d * j * i * (1 - i)).to(kind), inside)
        tl.store(gate + C, (d * i * (1 - j * j)).to(kind), inside)
        tl.store(gate + 2 * C, (d * tl.load(before + way * sb + at, inside, 0.0) * f * (1 - f)).to(kind), inside)
        tl.store(gate + 3 * C, (m * t * o * (1 - o)).to(kind), inside)
        tl.store(dc + way * sd + at, d * f, inside)

    @triton.jit
    def _softmax_rows(z, bias, drawn, true, target, weight, loss, slope, S, BLOCK: tl.constexpr):
        row = tl.program_id(0).to(tl.int64)
        at = tl.arange(0, BLOCK)
        inside = at < S
        x = tl.load(z + row * S + at, inside, 0.0).to(tl.float32) + tl.load(bias + at, inside, 0.0)
        other = tl.load(drawn + at, inside, -1) != tl.load(target + row)
        x = tl.where(inside & other, x, float("-inf"))
        t, w = tl.load(true + row), tl.load(weight + row)
        top = tl.maximum(tl.max(x, 0), t)
        x = tl.exp(x - top)
        sums = tl.sum(x, 0) + tl.exp(t - top)
        tl.store(loss + row, (tl.log(sums) + top - t) * w)
        tl.store(slope + row, (tl.exp(t - top) / sums - 1) * w)
        tl.store(z + row * S + at, (x * (w / sums)).to(z.dtype.element_ty), inside)


def cell_forward(g: torch.Tensor, before: torch.Tensor, after: torch.Tensor, out: torch.Tensor, clip: float) -> None:
    """From the sums of the gates (2, rows, 4 cells) and the cells before, write the cells after and sigmoid(o) tanh(c).

    All have two directions, and contiguous rows within each.
    """
    ways, rows, cells = before.shape
    if fused(g):
        strides = (x.stride(0) for x in (g, before, after, out))
        grid = (triton.cdiv(rows * cells, BLOCK), ways)
        _cell_forward[grid](g, before, after, out, *strides, rows * cells, clip, FORGET_BIAS, cells, BLOCK)
        return
    i, j, f, o = g.float().chunk(4, -1)
    torch.clamp((f + FORGET_BIAS).sigmoid() * before + i.sigmoid() * j.tanh(), -clip, clip, out=after)
    out.copy_(o.sigmoid() * after.tanh())


def cell_backward(
    g: torch.Tensor, before: torch.Tensor, after: torch.Tensor, dm: torch.Tensor, dc: torch.Tensor, clip: float
) -> None:
    """Replace the sums of the gates by their gradients, and the gradient of the cells by that of the cells before."""
    ways, rows, cells = before.shape
    if fused(g):
        strides = (x.stride(0) for x in (g, before, after, dm, dc))
        grid = (triton.cdiv(rows * cells, BLOCK), ways)
        _cell_backward[grid](g, before, after, dm, dc, *strides, rows * cells, clip, FORGET_BIAS, cells, BLOCK)
        return
    i, j, f, o = g.float().chunk(4, -1)
    i, j, f, o, t, m = i.sigmoid(), j.tanh(), (f + FORGET_BIAS).sigmoid(), o.sigmoid(), after.tanh(), dm.float()
    d = torch.where(after.abs() < clip, dc + m * o * (1 - t * t), 0.0)
    g.copy_(torch.cat([d * j * i * (1 - i), d * i * (1 - j * j), d * before * f * (1 - f), m * t * o * (1 - o)], -1))
    torch.mul(d, f, out=dc)


class LSTMLayer(torch.autograd.Function):
    """Outputs of both directions for (2, tokens, rows, inputs), from the state zero."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        bias: torch.Tensor,
        projection: torch.Tensor,
        cell_clip: float,
        projection_clip: float,
    ) -> torch.Tensor:
        """`weight`, `bias` and `projection` have the precision of `x`."""
        ways, tokens, rows, inputs = x.shape
        cells = projection.shape[1]
        gates = torch.baddbmm(bias[:, None], x.flatten(1, 2), weight[:, :inputs]).view(ways, tokens, rows, 4 * cells)
        states = x.new_empty(ways, tokens + 1, rows, cells, dtype=torch.float32)
        states[:, 0] = 0
        inner, outputs = x.new_empty(ways, tokens, rows, cells), x.new_empty(ways, tokens, rows, projection.shape[2])
        recurrent = weight[:, inputs:]
        for step in range(tokens):
            sums, out = gates[:, step], outputs[:, step]
            if step:
                sums.baddbmm_(outputs[:, step - 1], recurrent)
            cell_forward(sums, states[:, step], states[:, step + 1], inner[:, step], cell_clip)
            torch.bmm(inner[:, step], projection, out=out)
            out.clamp_(-projection_clip, projection_clip)
        ctx.save_for_backward(x, weight, projection, outputs)
        ctx.gates, ctx.states, ctx.inner, ctx.clips = gates, states, inner, (cell_clip, projection_clip)
        return outputs

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of the inputs and of the three parameters."""
        x, weight, projection, outputs = ctx.saved_tensors
        gates, states, inner = ctx.gates, ctx.states, ctx.inner
        ctx.gates = ctx.states = ctx.inner = None
        _, tokens, _, inputs = x.shape
        free = (outputs.abs() < ctx.clips[1]).to(grad.dtype)
        recurrent, back = weight[:, inputs:].transpose(1, 2), projection.transpose(1, 2)
        dh, dc = torch.empty_like(outputs), torch.zeros_like(states[:, 0])
        for step in reversed(range(tokens)):
            if step + 1 < tokens:
                torch.baddbmm(grad[:, step], gates[:, step + 1], recurrent, out=dh[:, step])
                dh[:, step].mul_(free[:, step])
            else:
                torch.mul(grad[:, step], free[:, step], out=dh[:, step])
            dm = torch.bmm(dh[:, step], back)
            cell_backward(gates[:, step], states[:, step], states[:, step + 1], dm, dc, ctx.clips[0])
        flat = gates.flatten(1, 2)
        dx = torch.bmm(flat, weight[:, :inputs].transpose(1, 2)).view_as(x)
        dweight = torch.empty_like(weight)
        dweight[:, :inputs] = torch.bmm(x.flatten(1, 2).transpose(1, 2), flat)
        if tokens > 1:
            dweight[:, inputs:] = torch.bmm(outputs[:, :-1].flatten(1, 2).transpose(1, 2), gates[:, 1:].flatten(1, 2))
        else:
            dweight[:, inputs:] = 0
        dprojection = torch.bmm(inner.flatten(1, 2).transpose(1, 2), dh.flatten(1, 2))
        return dx, dweight, flat.sum(1, dtype=torch.float32), dprojection, None, None


class SampledLoss(torch.autograd.Function):
    """The weighted sum of -log(e^true / (e^true + sum over drawn words of e^logit)); a drawn target does not count."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        rows: torch.Tensor,
        bias: torch.Tensor,
        true: torch.Tensor,
        drawn: torch.Tensor,
        targets: torch.Tensor,
        weights: torch.Tensor,
    ) -> torch.Tensor:
        """`x` (n, width), `rows` (samples, width), `bias` (samples), the others one number for each row of `x`."""
        z = x @ rows.T
        if fused(z):
            losses, slopes = torch.empty_like(true), torch.empty_like(true)
            block = triton.next_power_of_2(z.shape[1])
            arguments = (z, bias, drawn, true, targets, weights, losses, slopes, z.shape[1])
            _softmax_rows[(len(z),)](*arguments, block, num_warps=16)
        else:
            logits = (z.float() + bias).masked_fill(drawn == targets[:, None], -torch.inf)
            sums = torch.logaddexp(logits.logsumexp(-1), true)
            losses, slopes = (sums - true) * weights, ((true - sums).exp() - 1) * weights
            z = ((logits - sums[:, None]).exp() * weights[:, None]).to(z.dtype)
        ctx.save_for_backward(x, rows)
        ctx.slopes, ctx.z = slopes, z
        return losses.sum()

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Gradients of outputs, rows, bias and true logits."""
        x, rows = ctx.saved_tensors
        z, slopes = ctx.z, ctx.slopes
        ctx.z = None
        dbias = z.sum(0, dtype=torch.float32) * grad
        return (z @ rows) * grad.to(x.dtype), (z.T @ x) * grad.to(x.dtype), dbias, slopes * grad, None, None, None
