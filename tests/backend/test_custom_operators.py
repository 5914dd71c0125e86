"""torch.ops.torch_mlu: boxes, voxels, packed softmax and CTC against plain computations on the CPU."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch_mlu  # noqa: F401

OPS = torch.ops.torch_mlu
Point = tuple[float, float]


def corners(box: list[float]) -> list[Point]:
    x, y, _, dx, dy, _, angle = box
    cos, sin = math.cos(angle), math.sin(angle)
    unturned = [(-dx / 2, -dy / 2), (dx / 2, -dy / 2), (dx / 2, dy / 2), (-dx / 2, dy / 2)]
    return [(x + a * cos - b * sin, y + a * sin + b * cos) for a, b in unturned]


def common_area(first: list[float], second: list[float]) -> float:
    """The first box, cut along each side of the second (Sutherland and Hodgman)."""
    polygon, knife = corners(first), corners(second)
    for (x0, y0), (x1, y1) in zip(knife, knife[1:] + knife[:1], strict=True):

        def left(point: Point, x0: float = x0, y0: float = y0, x1: float = x1, y1: float = y1) -> float:
            return (x1 - x0) * (point[1] - y0) - (y1 - y0) * (point[0] - x0)

        kept: list[Point] = []
        for here, there in zip(polygon, polygon[1:] + polygon[:1], strict=True):
            a, b = left(here), left(there)
            if a >= 0:
                kept.append(here)
            if (a >= 0) != (b >= 0):
                part = a / (a - b)
                kept.append((here[0] + part * (there[0] - here[0]), here[1] + part * (there[1] - here[1])))
        polygon = kept
    return sum(a[0] * b[1] - b[0] * a[1] for a, b in zip(polygon, polygon[1:] + polygon[:1], strict=True)) / 2


def some_boxes(count: int, seed: int) -> torch.Tensor:
    draw = random.Random(seed)
    rows = [
        [
            draw.uniform(-2, 2),
            draw.uniform(-2, 2),
            0,
            draw.uniform(0.5, 4),
            draw.uniform(0.5, 4),
            1,
            draw.uniform(-4, 4),
        ]
        for _ in range(count)
    ]
    return torch.tensor(rows)


def test_boxes_overlap_as_cut_polygons_do() -> None:
    a, b = some_boxes(12, 1), some_boxes(9, 2)
    expected = torch.tensor([[common_area(x, y) for y in b.tolist()] for x in a.tolist()])
    assert expected.count_nonzero() > 50
    ours = OPS.boxes_overlap_bev(a.mlu(), b.mlu())
    assert ours.device.type == "mlu" and ours.dtype == torch.float32
    assert torch.allclose(ours.cpu(), expected, atol=1e-4)


def test_boxes_without_a_turn_overlap_as_rectangles_and_equal_ones_wholly() -> None:
    a = torch.tensor([[0, 0, 5, 2, 2, 9, 0.0], [10, 10, 0, 1, 1, 1, 0.0]]).mlu()
    b = torch.tensor([[1, 1, -5, 2, 2, 1, 0.0], [0, 0, 0, 2, 2, 1, math.pi / 2], [0, 0, 0, 1, 1, 1, 0.7]]).mlu()
    assert torch.allclose(OPS.boxes_overlap_bev(a, b).cpu(), torch.tensor([[1.0, 4.0, 1.0], [0, 0, 0]]), atol=1e-5)
    assert torch.allclose(OPS.boxes_iou_bev(a, b).cpu(), torch.tensor([[1 / 7, 1.0, 0.25], [0, 0, 0]]), atol=1e-5)


def test_many_boxes_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_mlu._ops import boxes

    a, b = some_boxes(12, 3).mlu(), some_boxes(5, 4).mlu()
    whole = OPS.boxes_iou_bev(a, b)
    monkeypatch.setattr(boxes, "PAIRS", 10)
    assert torch.equal(OPS.boxes_iou_bev(a, b), whole)


def test_suppression_keeps_the_best_of_those_that_overlap() -> None:
    boxes = some_boxes(30, 5)
    kept: list[int] = []
    sizes = (boxes[:, 3] * boxes[:, 4]).tolist()
    rows = boxes.tolist()
    for number, row in enumerate(rows):
        shared = [(common_area(rows[other], row), other) for other in kept]
        if all(area / (sizes[other] + sizes[number] - area) <= 0.2 for area, other in shared):
            kept.append(number)
    ours = OPS.nms3D(boxes.mlu(), 0.2)
    assert ours.dtype == torch.int64 and ours.device.type == "mlu" and ours.tolist() == kept
    assert 1 < len(kept) < 30
    assert OPS.nms3D_cpu(boxes, 0.2).tolist() == kept
    assert OPS.nms3D(boxes[:0].mlu(), 0.2).shape == (0,)


def test_points_are_told_the_first_box_that_holds_them() -> None:
    boxes = torch.stack([some_boxes(6, 6), some_boxes(6, 7)])
    points = torch.randn(2, 200, 3, generator=torch.Generator().manual_seed(1))
    expected = []
    for batch in range(2):
        for x, y, z in points[batch].tolist():
            found = -1
            for number, (cx, cy, cz, dx, dy, dz, angle) in enumerate(boxes[batch].tolist()):
                along = (x - cx) * math.cos(angle) + (y - cy) * math.sin(angle)
                across = (y - cy) * math.cos(angle) - (x - cx) * math.sin(angle)
                if abs(along) < dx / 2 and abs(across) < dy / 2 and abs(z - cz) <= dz / 2:
                    found = number
                    break
            expected.append(found)
    ours = OPS.points_in_boxes_mlu(points.mlu(), boxes.mlu())
    assert ours.shape == (2, 200) and ours.dtype == torch.int32 and len(set(expected)) > 3
    assert ours.flatten().tolist() == expected
    assert OPS.points_in_boxes_mlu(points.mlu(), boxes[:, :0].mlu()).unique().tolist() == [-1]


def filled(*shape: int) -> torch.Tensor:
    return torch.ones(shape).mlu()


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("boxes_iou_bev", lambda: (filled(1, 7, 3), filled(1, 7)), "Boxes_a is not a 2-dims Tensor."),
        ("boxes_iou_bev", lambda: (filled(1, 7), filled(1, 6)), "Boxes_b is not an .N, 7. shaped Tensor."),
        ("boxes_iou_bev", lambda: (filled(1, 7).half(), filled(1, 7)), "inputs dtype should be float"),
        ("boxes_overlap_bev", lambda: (filled(0, 7), filled(1, 7)), "need be greater than 0"),
        ("nms3D", lambda: (filled(1, 2), 0.1), r"boxes sizes should be \(batch_size, 7\)\."),
        ("nms3D", lambda: (filled(2), 0.1), "boxes should be a 2D tensor, got 1D"),
        ("nms3D", lambda: (filled(1, 7).cpu(), 0.1), "dets must be a MLU tensor"),
        ("points_in_boxes_mlu", lambda: (filled(1, 2, 2), filled(1, 2, 7)), "The last dimension of points"),
        ("dump", lambda: (filled(1).int(),), "Currently only support float32 and float16"),
    ],
)
def test_wrong_arguments_are_refused_in_the_words_of_the_real_ones(
    name: str, arguments: Callable[[], tuple[Any, ...]], text: str
) -> None:
    with pytest.raises(RuntimeError, match=text):
        getattr(OPS, name)(*arguments())


def test_features_of_points_are_added_up_in_their_voxels() -> None:
    generator = torch.Generator().manual_seed(2)
    voxels = torch.randint(-1, 5, (2, 60, 3), generator=generator, dtype=torch.int32)
    voxels[..., 2] %= 2
    features = torch.randn(2, 60, 8, generator=generator)
    expected = torch.zeros(2, 3, 4, 8)
    notes = -torch.ones(2, 60, 3, dtype=torch.int32)
    for batch in range(2):
        for point, (x, y, z) in enumerate(voxels[batch].tolist()):
            if 0 <= x < 4 and 0 <= y < 3 and z == 0:
                expected[batch, y, x] += features[batch, point]
                notes[batch, point] = torch.tensor([batch, y, x])
    pooled, memo = torch.zeros(2, 3, 4, 8).mlu(), (-torch.ones(2, 60, 3, dtype=torch.int32)).mlu()
    assert OPS.voxel_pooling(2, 60, 8, 4, 3, 1, voxels.mlu(), features.mlu(), pooled, memo) is True
    assert torch.allclose(pooled.cpu(), expected, atol=1e-5) and torch.equal(memo.cpu(), notes)
    with pytest.raises(RuntimeError, match="geom_xyz and pos_memo must be int tensor"):
        OPS.voxel_pooling(2, 60, 8, 4, 3, 1, voxels.float().mlu(), features.mlu(), pooled, memo)


def packed(lengths: list[int], heads: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(heads * sum(length * length for length in lengths), generator=generator)
    return scores, torch.randn(sum(lengths), generator=generator)


def reference_softmax(scores: torch.Tensor, mask: torch.Tensor, lengths: list[int], heads: int) -> torch.Tensor:
    parts, at, row = [], 0, 0
    for length in lengths:
        block = scores[at : at + heads * length * length].view(heads, length, length)
        parts.append((block + mask[row : row + length]).softmax(-1).flatten())
        at, row = at + heads * length * length, row + length
    return torch.cat(parts)


@pytest.mark.parametrize("probability", [0.0, 0.4, 1.0])
def test_packed_softmax_and_dropout_have_the_gradient_of_the_plain_ones(probability: float) -> None:
    lengths, heads = [5, 1, 7], 3
    scores, mask = packed(lengths, heads, 1)
    card, sizes = scores.mlu(), torch.tensor(lengths)
    torch.mlu.manual_seed(3)
    out, kept = OPS.mask_softmax_dropout_fprop(card, mask.mlu(), 3, sizes, heads, probability, False, False, True)
    leaf = scores.clone().requires_grad_()
    soft = reference_softmax(leaf, mask, lengths, heads)
    assert torch.allclose(card.cpu(), soft, atol=1e-6)  # the scores become their softmax
    assert kept.dtype == torch.uint8
    scale = 0.0 if probability == 1 else 1 / (1 - probability)
    expected = soft * kept.cpu() * scale
    assert torch.allclose(out.cpu(), expected, atol=1e-6)
    grad = torch.randn(scores.shape, generator=torch.Generator().manual_seed(4))
    (wanted,) = torch.autograd.grad(expected, leaf, grad)
    ours = grad.mlu()
    OPS.mask_softmax_dropout_bprop_(card, ours, kept, 3, sizes, heads, probability, False, False)
    assert torch.allclose(ours.cpu(), wanted, atol=1e-6)


def test_packed_softmax_drops_what_dropout_would_and_nothing_in_evaluation() -> None:
    scores, mask = packed([6, 4], 2, 2)
    sizes = torch.tensor([6, 4], dtype=torch.int32)
    torch.mlu.manual_seed(5)
    plain = torch.nn.functional.dropout(reference_softmax(scores, mask, [6, 4], 2).mlu(), 0.5)
    torch.mlu.manual_seed(5)
    out, _ = OPS.mask_softmax_dropout_fprop(scores.mlu(), mask.mlu(), 2, sizes, 2, 0.5, False, False, True)
    assert torch.allclose(out, plain, atol=1e-6)
    out, kept = OPS.mask_softmax_dropout_fprop(scores.mlu(), mask.mlu(), 2, sizes, 2, 0.5, False, False, False)
    assert kept is None and torch.allclose(out.cpu(), reference_softmax(scores, mask, [6, 4], 2), atol=1e-6)
    with pytest.raises(RuntimeError, match="input and mask must be on MLU, seq_len must be on CPU!"):
        OPS.mask_softmax_dropout_fprop(scores.mlu(), mask.mlu(), 2, sizes.mlu(), 2, 0.5, False, False, False)


def test_warp_ctc_takes_scores_and_has_the_gradient_of_ctc_after_log_softmax() -> None:
    torch.manual_seed(0)
    scores = torch.randn(20, 4, 6, requires_grad=True)
    lengths, wanted = torch.full((4,), 20), torch.tensor([3, 5, 2, 4])
    target = torch.randint(1, 6, (14,))
    expected = torch.nn.functional.ctc_loss(scores.log_softmax(2), target, lengths, wanted, reduction="sum")
    (slope,) = torch.autograd.grad(expected, scores)
    card = scores.detach().mlu().requires_grad_()
    loss = OPS.warp_ctc_loss(card, target.mlu(), lengths.mlu(), wanted.mlu(), 0, 1, True, 0)
    assert loss.shape == (1,) and loss.item() == pytest.approx(expected.item(), rel=1e-5)
    loss.backward()
    assert torch.allclose(card.grad.cpu(), slope, atol=1e-5)
    with pytest.raises(RuntimeError, match="warp_ctc_loss only support sum mode."):
        OPS.warp_ctc_loss(card, target.mlu(), lengths.mlu(), wanted.mlu(), 0, 2, True, 0)


def test_ctc_of_log_probabilities_gives_its_gradient_beside_the_loss() -> None:
    torch.manual_seed(0)
    given = torch.randn(9, 2, 5).log_softmax(2)
    target = torch.tensor([[1, 2], [3, 4]])
    leaf = given.clone().requires_grad_()
    expected = torch.nn.functional.ctc_loss(leaf, target, [9, 9], [2, 2], reduction="none")
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    card = given.mlu().requires_grad_()
    loss, raw = OPS.ctc_loss_forward(card, target.mlu(), None, None, [9, 9], [2, 2], 0, 0, False, 2)
    assert torch.allclose(loss.cpu(), expected, atol=1e-5) and torch.allclose(raw.cpu(), slope, atol=1e-5)
    weights = torch.tensor([2.0, -1.0]).mlu()
    (ours,) = torch.autograd.grad(loss, card, weights)
    assert torch.allclose(ours, raw * weights[None, :, None])


@pytest.mark.parametrize("underflow", [False, True])
def test_ctc_of_probabilities_has_the_loss_and_gradient_of_ctc_of_their_logarithms(underflow: bool) -> None:
    torch.manual_seed(0)
    scores = torch.randn(9, 2, 5)
    if underflow:
        scores[3, 0, 4] = -200.0  # softmax makes 0 of it
    target = torch.tensor([[1, 2], [3, 1]])
    leaf = scores.clone().requires_grad_()
    expected = torch.nn.functional.ctc_loss(leaf.log_softmax(2), target, [9, 9], [2, 2], reduction="none")
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    card = scores.mlu().requires_grad_()
    loss, _ = OPS.ctc_loss_forward(card.softmax(2), target.mlu(), None, None, [9, 9], [2, 2], 0, 0, False, 1)
    (ours,) = torch.autograd.grad(loss.sum(), card)
    assert torch.allclose(loss.cpu(), expected, atol=1e-5) and torch.allclose(ours.cpu(), slope, atol=1e-5)


def test_unpooling_by_the_operator_has_a_gradient() -> None:
    pooled, indices = torch.nn.functional.max_pool2d(torch.randn(1, 2, 4, 4).mlu(), 2, return_indices=True)
    pooled.requires_grad_()
    back = OPS.max_unpool2d(pooled, indices, [2, 2], [2, 2], [0, 0], [4, 4])
    grad = torch.randn_like(back)
    back.backward(grad)
    expected = OPS.max_unpool2d_backward(grad, pooled.detach(), indices, [2, 2], [2, 2], [0, 0], [4, 4])
    assert torch.equal(pooled.grad, expected)


def test_dump_says_that_it_ran() -> None:
    assert OPS.dump(torch.ones(2).mlu()) is True and OPS.dump(torch.ones(2).half().mlu()) is True
