"""What CUDA does with which operation: it waits, sorts, refuses, or only looks at memory another way.

From the documentation of ``torch.use_deterministic_algorithms`` and the sources of torch 2.13; all functions take an
operation as dispatched (a ``torch._ops.OpOverload``) and its arguments.
"""

import torch

# The host needs the result, or the size of the result, before it can go on.
WAITING = {"_local_scalar_dense", "is_nonzero", "nonzero", "masked_select", "equal", "_unique", "_unique2",
           "unique_dim", "unique_consecutive", "bincount"}
# By index; under deterministic algorithms each sorts its indices first.
_SORTED_IF_DETERMINISTIC = {"index_copy", "index_copy_", "index_add", "index_add_", "scatter_add", "scatter_add_"}
_SORTS = {"sort", "argsort", "msort", "embedding_dense_backward"}
_INDEXING = {"index", "_unsafe_index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index_put"}
# Those that raise, whatever their arguments.
_REFUSED = {
    "_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward", "_ctc_loss_backward", "_pdist_backward",
    "_embedding_bag_dense_backward", "_scaled_dot_product_cudnn_attention_backward", "adaptive_max_pool2d_backward",
    "adaptive_max_pool3d_backward", "avg_pool3d_backward", "fractional_max_pool2d_backward",
    "fractional_max_pool3d_backward", "grid_sampler_2d_backward", "grid_sampler_3d_backward", "histc", "index_reduce",
    "index_reduce_", "kthvalue", "max_pool3d_with_indices_backward", "max_unpool2d", "max_unpool3d", "nanmedian",
    "nll_loss2d_forward", "nll_loss2d_backward", "put", "put_", "reflection_pad1d_backward",
    "reflection_pad2d_backward", "reflection_pad3d_backward", "replication_pad1d_backward",
    "replication_pad2d_backward", "replication_pad3d_backward", "upsample_bicubic2d_backward",
    "upsample_bilinear2d_backward", "upsample_linear1d_backward", "upsample_trilinear3d_backward"}
# No kernel is launched: memory is looked at another way, or only set aside.
_SILENT = {"_unsafe_view", "_reshape_alias", "lift_fresh", "empty", "empty_like", "empty_strided", "new_empty",
           "new_empty_strided", "resize_", "set_", "_pack_padded_sequence", "prim_layout"}
# Operands that may be numbers kept on the CPU, beside those of pointwise operations.
_TAKE_CPU_NUMBERS = {"index_put", "index_put_", "_index_put_impl_", "masked_fill", "masked_fill_", "fill", "fill_",
                     "where"}
# Lengths of packed sequences belong on the CPU; anything may be copied.
_TAKE_CPU_TENSORS = {"_pack_padded_sequence", "_pack_padded_sequence_backward", "_pad_packed_sequence", "_copy_from",
                     "copy_", "_to_copy", "set_data"}


def name_of(func):
    """Return the operation's name without its overload."""
    return func.overloadpacket.__name__


def launches(func):
    """Whether a kernel is launched."""
    return not (func.is_view or name_of(func) in _SILENT or name_of(func).startswith("sym_"))


def waits(func, args, kwargs):
    """Return what the host waits for, in words; None for nothing."""
    name = name_of(func)
    if name == "repeat_interleave" and kwargs.get("output_size") is None:
        return "repeat_interleave without output_size"
    if name in _INDEXING and any(_is_mask(index) for index in args[1]) and not _fills_a_mask(name, args, kwargs):
        return f"{name} by a mask"
    return name if name in WAITING else None


def _is_mask(index):
    return isinstance(index, torch.Tensor) and index.dtype in (torch.bool, torch.uint8)


def _fills_a_mask(name, args, kwargs):
    """``t[mask] = number`` is carried out as masked_fill, which needs no index."""
    accumulate = kwargs.get("accumulate", args[3] if len(args) > 3 else False)
    return name not in ("index", "_unsafe_index") and args[2].numel() == 1 and not accumulate


def sorts(func, args, kwargs):
    """Whether it sorts; accumulating by index always does."""
    name, deterministic = name_of(func), torch.are_deterministic_algorithms_enabled()
    if name in _INDEXING and name not in ("index", "_unsafe_index"):
        if _fills_a_mask(name, args, kwargs) and any(_is_mask(index) for index in args[1]):
            return False
        return deterministic or kwargs.get("accumulate", args[3] if len(args) > 3 else False)
    if name in ("scatter", "scatter_") and func._overloadname == "src":
        return deterministic
    return name in _SORTS or deterministic and name in _SORTED_IF_DETERMINISTIC


def refusal(func, args, kwargs):
    """Return what raises under deterministic algorithms, in words; None for nothing.

    >>> refusal(torch.ops.aten.cumsum.default, (torch.ones(2), 0), {})
    'cumsum of floating-point numbers'
    """
    name, overload = name_of(func), func._overloadname
    if name in _REFUSED:
        return name
    if name in ("cumsum", "cumsum_") and (args[0].is_floating_point() or args[0].is_complex()):
        return "cumsum of floating-point numbers"
    if name == "median" and overload != "default":
        return "median with indices"
    if name == "bincount" and (len(args) > 1 and args[1] is not None or kwargs.get("weights") is not None):
        return "bincount with weights"
    if name in ("scatter_reduce", "scatter_reduce_") and _reduction(args, kwargs) in ("prod", "mean"):
        return f"scatter_reduce with reduce='{_reduction(args, kwargs)}'"
    if name in ("scatter", "scatter_") and "reduce" in overload:
        return "scatter with reduce"
    return None


def _reduction(args, kwargs):
    return kwargs.get("reduce", args[4] if len(args) > 4 else None)


def copied_indices(func, args):
    """Return the indices that are on the CPU beside a tensor on the device: allowed, for a copy each time."""
    return [index for index in args[1] if isinstance(index, torch.Tensor)] if name_of(func) in _INDEXING else []


def takes_from_cpu(func, tensor):
    """Whether ``tensor``, which is on the CPU, may stand beside tensors on the device."""
    name = name_of(func)
    if name in _TAKE_CPU_TENSORS:
        return True
    numbers = torch.Tag.pointwise in func.tags or name in _TAKE_CPU_NUMBERS or name.startswith("_foreach")
    return tensor.dim() == 0 and numbers


def draws(func):
    """Whether it draws from a generator."""
    return torch.Tag.nondeterministic_seeded in func.tags
