"""The device of a slot: whether torch can compute on it, repeatable results, free memory.

The slot decides which device it has; nothing here looks for another one.
"""

import gc
import os
from contextlib import suppress

from crowdsweep import machine
from crowdsweep.models.lazy_torch import torch

CPU = "cpu"
_REPEATABLE_PRODUCTS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # without it products on a GPU may add in another order


def why_unusable(device: str) -> str:
    """Returns why this process cannot compute on a device; empty where it can."""
    if device == CPU:
        return ""
    kind = torch.device(device).type
    if kind == "cuda" and not torch.backends.cuda.is_built():
        return f"torch {torch.__version__} of this machine is built without CUDA"
    try:
        held = torch.ones(2, 2, device=device)
        if float((held @ held).sum().cpu()) != 8.0:
            return f"torch {torch.__version__} computes wrongly on {device}"
    except (RuntimeError, AssertionError, NotImplementedError) as error:  # AssertionError: torch built without CUDA
        return f"torch {torch.__version__} of this machine cannot use {device}: {' '.join(str(error).split())[:300]}"
    return ""


def prepare(device: str) -> None:
    """Makes a device give the same numbers each time: kernels that add in a fixed order, products in full float32.

    To be called before the first computation there; on the CPU all of this is so. Where torch has no kernel that
    repeats, it warns.
    """
    if device == CPU:
        return
    os.environ.setdefault(*_REPEATABLE_PRODUCTS)
    torch.use_deterministic_algorithms(True, warn_only=True)
    # Nothing here reads what it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # pyright: ignore[reportAttributeAccessIssue] - a property of the module
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False


def release(device: str) -> None:
    """Frees unused memory: reference cycles, and the memory of a GPU that torch caches."""
    gc.collect()
    if device != CPU and torch.device(device).type == "cuda":
        with suppress(RuntimeError):  # a GPU that has failed
            torch.cuda.empty_cache()


def free_bytes(device: str) -> int | None:
    """Returns how much memory this process may take on a device now; None where that is not known.

    Of a GPU: what is free, and what torch keeps of it for later. Of the machine: this process's share, by its threads.
    """
    if device == CPU:
        free = machine.free_bytes()
        return None if free is None else free * min(torch.get_num_threads(), machine.cores()) // machine.cores()
    if torch.device(device).type != "cuda" or not torch.cuda.is_available():
        return None
    free, _ = torch.cuda.mem_get_info(device)
    return free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
