"""What is imported with the models that only count."""

import subprocess
import sys


def test_counting_models_import_no_torch() -> None:
    names = ("majority_vote", "dawid_skene", "one_coin", "marginal", "uniform")
    imports = "; ".join(f"import crowdsweep.models.aggregate.{name}" for name in names)
    code = f"import sys; {imports}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
