"""torch that is imported when it is first used: whatever is used first is torch's own."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    "first",
    [
        "torch.device('cpu') == torch.device('cpu')",
        "not isinstance('a text', torch.Tensor) and isinstance(torch.ones(2), torch.Tensor)",
        "issubclass(torch.nn.Parameter, torch.Tensor)",
        "torch.Tensor([1.0]).item() == 1.0",
        "torch.ones(2).sum().item() == 2.0",
    ],
)
def test_what_is_used_first_imports_it(first: str) -> None:
    program = (
        "import sys\n"
        "from crowdsweep.models.lazy_torch import torch\n"
        "kept = torch.device\n"  # as a function's default keeps it
        "assert 'torch' not in sys.modules\n"
        f"assert {first}\n"
        "import torch as whole\n"
        "assert kept('cpu') == whole.device('cpu') and isinstance(whole.device('cpu'), kept)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
