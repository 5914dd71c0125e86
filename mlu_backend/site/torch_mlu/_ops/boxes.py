"""
Boxes of point clouds: overlaps seen from above, suppression, points inside, pooling of points into a plane.

A box is seven numbers: centre x, y, z, size dx, dy, dz, and heading, the angle in radians that turns it from the x
axis towards the y axis (torch_mlu r2.4, csrc/aten/operators/cpu/internal/nms3D_cpu_util.h). Texts of errors are from
csrc/aten/operators (mluop/boxes_iou_bev.cpp, cnnl/boxes_overlap_bev.cpp, cnnl/nms3D.cpp, mluop/points_in_boxes_mlu.cpp,
mluop/voxel_pooling.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

PAIRS = 1 << 16  # that are compared at once: some 50 MB


def _check(condition: bool, text: str) -> None:
    if not condition:
        raise RuntimeError(text)


def _turned(points: Tensor, angles: Tensor) -> Tensor:
    """``points`` (..., 2) turned about the origin by ``angles`` (...)."""
    x, y = points.unbind(-1)
    cos, sin = angles.cos(), angles.sin()
    return torch.stack([x * cos - y * sin, x * sin + y * cos], -1)


def _corners(boxes: Tensor) -> Tensor:
    """The corners of boxes (n, 7), seen from above, counter-clockwise: (n, 4, 2)."""
    signs = boxes.new_tensor([[-0.5, -0.5], [0.5, -0.5], [0.5, 0.5], [-0.5, 0.5]])
    return _turned(signs * boxes[:, None, 3:5], boxes[:, 6:7]) + boxes[:, None, :2]


def _inside(points: Tensor, boxes: Tensor, margin: float) -> Tensor:
    """Whether points (..., 2) lie in boxes (..., 7), seen from above."""
    local = _turned(points - boxes[..., :2], -boxes[..., 6])
    return (local.abs() < boxes[..., 3:5] / 2 + margin).all(-1)


def _cross(a: Tensor, b: Tensor) -> Tensor:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _crossings(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Where sides of polygons (n, 4, 2) and (m, 4, 2) cross: points (n, m, 16, 2), and which of them there are."""
    start, other = a[:, None, :, None], b[None, :, None, :]
    along, across = a.roll(-1, 1)[:, None, :, None] - start, b.roll(-1, 1)[None, :, None, :] - other
    area = _cross(along, across)
    gap = other - start
    at, there = _cross(gap, across) / area, _cross(gap, along) / area
    found = (area != 0) & (at >= 0) & (at <= 1) & (there >= 0) & (there <= 1)
    return (start + along * at[..., None]).flatten(2, 3), found.flatten(2)


def _overlaps(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """
    Areas (n, m) that boxes have in common, seen from above.

    The corners of a common area are corners of one box inside the other and crossings of sides; in order of their angle
    about a point between them they are its outline, for it is convex.
    """
    a, b = _corners(boxes_a), _corners(boxes_b)
    crossings, crossed = _crossings(a, b)
    shape = (len(a), len(b), 4, 2)
    corners_a, corners_b = a[:, None].expand(shape), b[None].expand(shape)
    points = torch.cat([crossings, corners_a, corners_b], 2)
    found = torch.cat(
        [crossed, _inside(corners_a, boxes_b[None, :, None], 1e-7), _inside(corners_b, boxes_a[:, None, None], 1e-7)], 2
    )
    points = torch.where(found[..., None], points, 0)
    centre = points.sum(2, keepdim=True) / found.sum(2).clamp(min=1)[..., None, None]
    around = points - centre
    angles = torch.where(found, torch.atan2(around[..., 1], around[..., 0]), torch.inf)
    order = angles.argsort(2)
    outline = around.gather(2, order[..., None].expand_as(around))
    # What is no corner goes where the first corner is, so that it adds no area.
    outline = torch.where(found.gather(2, order)[..., None], outline, outline[:, :, :1])
    return _cross(outline, outline.roll(-1, 2)).sum(2).abs() / 2 * found.any(2)


def _tiled(boxes_a: Tensor, boxes_b: Tensor, measure: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    a, b = (boxes.detach().to("cpu", torch.float64) for boxes in (boxes_a, boxes_b))
    rows = max(1, PAIRS // max(len(b), 1))
    parts = [measure(part, b) for part in a.split(rows)] if len(a) and len(b) else [a.new_zeros(len(a), len(b))]
    return torch.cat(parts).to(boxes_a)


def _iou(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    common = _overlaps(boxes_a, boxes_b)
    size_a, size_b = (boxes[:, 3] * boxes[:, 4] for boxes in (boxes_a, boxes_b))
    return common / (size_a[:, None] + size_b - common).clamp(min=1e-8)


def boxes_overlap_bev(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """The areas (n, m) that boxes (n, 7) and (m, 7) have in common, seen from above."""
    _check(boxes_a.dim() == 2 and boxes_b.dim() == 2, "Input tensor dims only support 2.")
    _check(len(boxes_a) > 0 and len(boxes_b) > 0, "The first dim size of input tensors need be greater than 0.")
    _check(boxes_a.shape[1] == 7 and boxes_b.shape[1] == 7, "The second dim size of input tensors need be 7.")
    _check(boxes_a.dtype == boxes_b.dtype == torch.float32, "Only support float dtype.")
    return _tiled(boxes_a, boxes_b, _overlaps)


def boxes_iou_bev(boxes_a: Tensor, boxes_b: Tensor) -> Tensor:
    """Common area over joint area (n, m) of boxes (n, 7) and (m, 7), seen from above."""
    for name, boxes in (("Boxes_a", boxes_a), ("Boxes_b", boxes_b)):
        _check(boxes.dim() == 2, f"{name} is not a 2-dims Tensor.")
    for name, boxes in (("Boxes_a", boxes_a), ("Boxes_b", boxes_b)):
        _check(boxes.shape[1] == 7, f"{name} is not an [N, 7] shaped Tensor.")
    _check(boxes_a.dtype == boxes_b.dtype == torch.float32, "inputs dtype should be float")
    return _tiled(boxes_a, boxes_b, _iou)


def _kept(dets: Tensor, threshold: float) -> list[int]:
    _check(dets.dim() == 2, f"boxes should be a 2D tensor, got {dets.dim()}D")
    _check(dets.shape[1] == 7, "boxes sizes should be (batch_size, 7).")
    _check(dets.dtype == torch.float32, "dets dtype should be float")
    close = (_tiled(dets, dets, _iou).cpu() > threshold).unbind(0)
    dropped = torch.zeros(len(dets), dtype=torch.bool)
    kept = []
    for number, near in enumerate(close):
        if not dropped[number]:
            kept.append(number)
            dropped |= near
    return kept


def nms3d(dets: Tensor, iou_threshold: float) -> Tensor:
    """
    Numbers (int64) of the boxes (n, 7) that stay when each takes those after it that overlap it too much.

    The boxes come sorted by score, the best first.
    """
    _check(dets.device.type == "mlu", "dets must be a MLU tensor.")
    return torch.tensor(_kept(dets, iou_threshold), dtype=torch.int64).to(dets.device)


def nms3d_cpu(dets: Tensor, iou_threshold: float) -> Tensor:
    """As :func:`nms3d`, for boxes on the CPU; the numbers are float32, as the real one gives them."""
    return torch.tensor(_kept(dets, iou_threshold), dtype=dets.dtype)


def points_in_boxes(points: Tensor, boxes: Tensor) -> Tensor:
    """
    The number of the first box that holds each point, -1 for none: (batch, points), int32.

    ``points`` (batch, points, 3), ``boxes`` (batch, boxes, 7), z of a box being its middle. The real schema calls the
    first argument ``boxes`` and its kernel takes it for the points; so does this.
    """
    _check(points.dtype == torch.float32, "Only float type is supported for points, in points_in_boxes_mlu")
    _check(boxes.dtype == torch.float32, "Only float type is supported for boxes, in points_in_boxes_mlu.")
    for name, tensor, width in (("points", points, 3), ("boxes", boxes, 7)):
        _check(tensor.dim() == 3, f"Dimension of {name} must be equal to 3, in points_in_boxes_mlu")
        _check(
            tensor.shape[2] == width,
            f"The last dimension of {name} must be equal to {width}, in points_in_boxes_mlu",
        )
    _check(
        len(points) == len(boxes),
        "The first dimension of points and boxes must be equal, in points_in_boxes_mlu",
    )
    found = torch.full(points.shape[:2], -1, dtype=torch.int32, device=points.device)
    for number in reversed(range(boxes.shape[1])):
        box = boxes[:, number : number + 1]
        holds = _inside(points[..., :2], box, 1e-5) & ((points[..., 2] - box[..., 2]).abs() <= box[..., 5] / 2)
        found = torch.where(holds, number, found)
    return found


def voxel_pooling(
    batch_size: int,
    num_points: int,
    num_channels: int,
    num_voxel_x: int,
    num_voxel_y: int,
    num_voxel_z: int,
    geom_xyz: Tensor,
    input_features: Tensor,
    output_features: Tensor,
    pos_memo: Tensor,
) -> bool:
    """
    Add the features of points (batch, points, channels) to ``output_features`` (batch, y, x, channels).

    ``geom_xyz`` (batch, points, 3), int32, is the voxel x, y, z of each point; points outside the grid are left out. Of
    the others ``pos_memo`` (batch, points, 3) notes batch, y and x, for the gradient.
    """
    _check(geom_xyz.dtype == pos_memo.dtype == torch.int32, "geom_xyz and pos_memo must be int tensor.")
    _check(
        input_features.dtype == output_features.dtype == torch.float32,
        "input_features and output_features must be float tensor.",
    )
    voxels = geom_xyz.reshape(batch_size, num_points, 3)
    x, y, z = voxels.long().unbind(-1)
    inside = (x >= 0) & (x < num_voxel_x) & (y >= 0) & (y < num_voxel_y) & (z >= 0) & (z < num_voxel_z)
    batch, point = inside.nonzero(as_tuple=True)
    rows, columns = y[inside], x[inside]
    features = input_features.reshape(batch_size, num_points, num_channels)[batch, point]
    output_features.index_put_((batch, rows, columns), features, accumulate=True)
    pos_memo[batch, point] = torch.stack([batch, rows, columns], -1).to(torch.int32)
    return True


OPERATORS: dict[str, Callable[..., Any]] = {
    "boxes_iou_bev": boxes_iou_bev,
    "boxes_overlap_bev": boxes_overlap_bev,
    "nms3D": nms3d,
    "nms3D_cpu": nms3d_cpu,
    "points_in_boxes_mlu": points_in_boxes,
    "voxel_pooling": voxel_pooling,
}
