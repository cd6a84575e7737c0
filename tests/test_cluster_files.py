"""Each file of `clusters/` is what its reader takes: checked by that program, or by the schema that it publishes.

KubeRay publishes no package that could be asked, so the names of its own fields stand here; what it takes over from
Kubernetes (the templates of pods) is checked by the schema of Kubernetes.
"""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import compose_spec
import kubernetes_validate
import pytest
import yaml

ROOT = Path(__file__).parent.parent
CLUSTERS = ROOT / "clusters"
README = (CLUSTERS / "README.md").read_text(encoding="utf-8")
LAUNCHED = ("on-premise", "aws", "gcp")
KUBERNETES = ("kuberay-cluster", "kuberay-job")
KUBERNETES_VERSION = "1.34"
PLACEHOLDER = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b|\b(?:PROJECT|REGISTRY|RUNS|SWEEP|USER)\b")

# Fields of KubeRay 1.6 by resource, from its API reference, with the Python type of what stands there, or the resource.
KUBERAY: Mapping[str, Mapping[str, Any]] = {
    "RayCluster": {"apiVersion": str, "kind": str, "metadata": dict, "spec": "RayClusterSpec"},
    "RayJob": {"apiVersion": str, "kind": str, "metadata": dict, "spec": "RayJobSpec"},
    "RayClusterSpec": {
        "authOptions": "AuthOptions",
        "autoscalerOptions": "AutoscalerOptions",
        "enableInTreeAutoscaling": bool,
        "gcsFaultToleranceOptions": dict,
        "headGroupSpec": "HeadGroupSpec",
        "headServiceAnnotations": dict,
        "managedBy": str,
        "rayVersion": str,
        "suspend": bool,
        "workerGroupSpecs": "WorkerGroupSpec",
    },
    "AuthOptions": {"enableK8sTokenAuth": bool, "mode": ("disabled", "token"), "secretName": str},
    "AutoscalerOptions": {
        "env": list,
        "envFrom": list,
        "idleTimeoutSeconds": int,
        "image": str,
        "imagePullPolicy": str,
        "resources": dict,
        "securityContext": dict,
        "upscalingMode": ("Default", "Aggressive", "Conservative"),
        "version": ("v1", "v2"),
        "volumeMounts": list,
    },
    "HeadGroupSpec": {
        "enableIngress": bool,
        "headService": dict,
        "rayStartParams": dict,
        "serviceType": str,
        "template": "PodTemplate",
    },
    "WorkerGroupSpec": {
        "groupName": str,
        "idleTimeoutSeconds": int,
        "maxReplicas": int,
        "minReplicas": int,
        "numOfHosts": int,
        "rayStartParams": dict,
        "replicas": int,
        "scaleStrategy": dict,
        "suspend": bool,
        "template": "PodTemplate",
    },
    "RayJobSpec": {
        "activeDeadlineSeconds": int,
        "backoffLimit": int,
        "clusterSelector": dict,
        "deletionStrategy": dict,
        "entrypoint": str,
        "entrypointNumCpus": float,
        "entrypointNumGpus": float,
        "entrypointResources": str,
        "jobId": str,
        "managedBy": str,
        "metadata": dict,
        "rayClusterSpec": "RayClusterSpec",
        "runtimeEnvYAML": str,
        "shutdownAfterJobFinishes": bool,
        "submissionMode": ("K8sJobMode", "HTTPMode", "InteractiveMode", "SidecarMode"),
        "submitterConfig": dict,
        "submitterPodTemplate": "PodTemplate",
        "suspend": bool,
        "ttlSecondsAfterFinished": int,
    },
}


def read(name: str) -> Any:
    return yaml.safe_load((CLUSTERS / f"{name}.yaml").read_text(encoding="utf-8"))


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((CLUSTERS / f"{name}.yaml").read_text(encoding="utf-8")))


def check_kuberay(resource: str, value: Any, path: str) -> None:
    """Checks a resource of KubeRay: its own names, and pods by the schema of Kubernetes."""
    if resource == "PodTemplate":
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pod"}, **value}
        kubernetes_validate.validate(pod, KUBERNETES_VERSION, strict=True)
        return
    for key, part in value.items():
        assert key in KUBERAY[resource], f"{path}.{key}: no field of a {resource}"
        kind, place = KUBERAY[resource][key], f"{path}.{key}"
        match kind:
            case str():
                for one in part if isinstance(part, list) else [part]:
                    check_kuberay(kind, one, place)
            case tuple():
                assert part in kind, f"{place}: {part}, none of {kind}"
            case _:
                assert isinstance(part, kind), f"{place}: {part!r}, no {kind.__name__}"
        if key == "rayStartParams":
            assert all(isinstance(text, str) for text in part.values()), f"{place}: texts, as KubeRay has it"


def parsed(words: list[str]) -> dict[str, Any]:
    """Returns the options of a command of Ray's, as Ray reads them; its own error where it would not."""
    from ray.scripts import scripts

    command = scripts.cli.commands[words[0]]
    return command.make_context(words[0], words[1:]).params


def ray_commands(text: str) -> Iterator[list[str]]:
    """Yields the words of each `ray …` in a line of a shell."""
    for part in re.split(r"[;&|]+", text):
        words = [word for word in shlex.split(part) if not re.fullmatch(r"[A-Z_]+=.*", word)]
        if words and words[0] == "ray":
            yield words[1:]


@pytest.mark.parametrize("name", LAUNCHED)
def test_rays_launcher_takes_it(name: str) -> None:
    from ray.autoscaler._private.util import prepare_config, validate_config

    described = read(name)
    validate_config(prepare_config(described))
    starts = [*described["head_start_ray_commands"], *described["worker_start_ray_commands"]]
    commands = [words for line in starts for words in ray_commands(line)]
    assert [words[0] for words in commands] == ["stop", "start", "stop", "start"]
    head, worker = parsed(commands[1]), parsed(commands[3])
    assert head["head"]
    assert head["dashboard_host"] == "127.0.0.1"
    assert head["autoscaling_config"]
    assert not worker["head"]
    assert all("RAY_AUTH_MODE=token ray start" in line for line in starts if "ray start" in line)
    assert "/home/ray/.ray/auth_token" in described["file_mounts"]


@pytest.mark.parametrize("name", LAUNCHED)
def test_the_launchers_check_has_teeth(name: str) -> None:
    from jsonschema import ValidationError
    from ray.autoscaler._private.util import prepare_config, validate_config

    with pytest.raises(ValidationError, match="idle_minutes"):
        validate_config(prepare_config({**read(name), "idle_minutes": 5}))


@pytest.mark.parametrize("name", ["aws", "gcp"])
def test_clouds_scale_workers_of_both_kinds_on_spot_machines_and_keep_the_head(name: str) -> None:
    described = read(name)
    types = described["available_node_types"]
    assert types[described["head_node_type"]]["resources"] == {"CPU": 0}
    assert set(types) == {"head", "cpu", "gpu"}
    for kind, node in types.items():
        bought = json.dumps(node["node_config"]).lower()
        assert ("spot" in bought) == (kind != "head")
        assert node.get("min_workers", 0) == 0, "work that waits starts them"
    assert types["gpu"]["resources"]["GPU"] == 1
    assert types["gpu"]["docker"]["worker_image"].endswith(":cuda")


@pytest.mark.parametrize("name", KUBERNETES)
def test_kubernetes_and_kuberay_take_it(name: str) -> None:
    for document in documents(name):
        if document["apiVersion"] == "ray.io/v1":
            check_kuberay(document["kind"], document, document["kind"])
        else:
            kubernetes_validate.validate(document, KUBERNETES_VERSION, strict=True)


@pytest.mark.parametrize("name", KUBERNETES)
def test_pods_of_ray_have_shared_memory_a_token_and_groups_of_both_kinds(name: str) -> None:
    spec = documents(name)[0]["spec"]
    cluster = spec.get("rayClusterSpec", spec)
    assert cluster["authOptions"] == {"mode": "token"}
    assert [group["groupName"] for group in cluster["workerGroupSpecs"]] == ["cpu", "gpu"]
    for group in (cluster["headGroupSpec"], *cluster["workerGroupSpecs"]):
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        memory = {volume["name"] for volume in pod["volumes"] if volume.get("emptyDir", {}).get("medium") == "Memory"}
        assert {mount["name"] for mount in container["volumeMounts"] if mount["mountPath"] == "/dev/shm"} <= memory
        assert memory
    gpu = cluster["workerGroupSpecs"][1]["template"]["spec"]["containers"][0]
    assert gpu["resources"]["limits"]["nvidia.com/gpu"] == "1"
    assert gpu["image"].endswith(":cuda")


def test_rays_version_is_that_of_the_constraints() -> None:
    (pinned,) = re.findall(r"^ray==(\S+)$", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    found = [re.findall(r'rayVersion: "(\S+)"', (CLUSTERS / f"{name}.yaml").read_text()) for name in KUBERNETES]
    assert found == [[pinned], [pinned]]


def test_the_checks_of_kubernetes_have_teeth() -> None:
    cluster = documents("kuberay-cluster")[0]
    cluster["spec"]["workerGroupSpecs"][0]["maxReplica"] = 3
    with pytest.raises(AssertionError, match=r"workerGroupSpecs\.maxReplica: no field of a WorkerGroupSpec"):
        check_kuberay("RayCluster", cluster, "RayCluster")
    cluster = documents("kuberay-cluster")[0]
    cluster["spec"]["headGroupSpec"]["template"]["spec"]["containers"][0]["volumeMount"] = []
    with pytest.raises(kubernetes_validate.ValidationError, match="volumeMount"):
        check_kuberay("RayCluster", cluster, "RayCluster")


def test_a_job_of_kuberay_is_a_command_that_there_is() -> None:
    (job,) = documents("kuberay-job")
    bash, flag, line = shlex.split(job["spec"]["entrypoint"])
    assert (bash, flag) == ("bash", "-c")
    subprocess.run(["bash", "-n", "-c", line], check=True)
    check_command(line.partition("||")[0])
    assert job["spec"]["backoffLimit"] > 0


def test_compose_takes_it() -> None:
    described = read("compose")
    services = compose_spec.PyCompose.from_json(json.dumps(described)).services
    assert services is not None
    assert set(services) == {"head", "worker", "mlflow", "postgres", "s3", "buckets"}
    for name, service in described["services"].items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
        assert set(service.get("depends_on", ())) <= set(services)
        mounted = {volume.partition(":")[0] for volume in service.get("volumes", ())}
        assert mounted <= set(described["volumes"])
    for name, is_head in (("head", True), ("worker", False)):
        (words,) = ray_commands(described["services"][name]["command"])
        assert parsed(words)["head"] is is_head
    text = (CLUSTERS / "compose.yaml").read_text()
    secrets = re.findall(r"\$\{(\w+)(.*?)\}", text)
    assert {name for name, _ in secrets} == {"RAY_AUTH_TOKEN", "POSTGRES_PASSWORD", "S3_KEY", "S3_SECRET"}
    assert all(rest.startswith(":?") for _, rest in secrets)  # without them nothing starts


def test_the_check_of_compose_has_teeth() -> None:
    described = read("compose")
    described["services"]["head"]["restart"] = "sometimes"
    with pytest.raises(ValueError, match="sometimes"):
        compose_spec.PyCompose.from_json(json.dumps(described))


def test_hadolint_has_nothing_against_the_image() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    asked = subprocess.run([hadolint, CLUSTERS / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (asked.returncode, asked.stdout) == (0, "")
    spoilt = (CLUSTERS / "Dockerfile").read_text().replace("--no-install-recommends ", "")
    asked = subprocess.run([hadolint, "-"], input=spoilt, capture_output=True, text=True, check=False)
    assert asked.returncode != 0


def test_the_image_copies_what_there_is_and_sends_for_nothing_else() -> None:
    text = (CLUSTERS / "Dockerfile").read_text()
    copied = {word for line in re.findall(r"^COPY (.*)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert copied == {"LICENSE", "constraints.txt", "crowdsweep", "pyproject.toml", "README.md", "search_spaces"}
    assert all((ROOT / name).exists() for name in copied)
    let_in = {line[1:] for line in (CLUSTERS / "Dockerfile.dockerignore").read_text().split() if line[0] == "!"}
    assert let_in == copied
    assert {device for device in ("cpu", "cuda") if f"AS torch-{device}\n" in text} == {"cpu", "cuda"}


def test_the_image_shows_the_demo_unless_it_is_told_what_to_run() -> None:
    text = (CLUSTERS / "Dockerfile").read_text()
    told = {name: json.loads(words) for name, words in re.findall(r"^(ENTRYPOINT|CMD) (.*)$", text, re.MULTILINE)}
    assert told == {"ENTRYPOINT": ["tini", "--"], "CMD": ["crowdsweep", "demo"]}
    by_compose = read("compose")["services"]
    assert all(by_compose[name]["command"] for name in ("head", "worker", "mlflow"))


FAKE_SRUN = """#!/usr/bin/env bash
printf '%s\\n' "$*" >> srun.log
[[ $* != *'hostname -i' ]] || echo 10.0.0.7 fd00::7
"""
FAKE_SCONTROL = """#!/usr/bin/env bash
[[ $* == 'show hostnames node[3-4]' ]] && printf 'node3\\nnode4\\n'
"""


def test_slurms_script_runs_the_sweep_on_all_nodes(tmp_path: Path) -> None:
    script = CLUSTERS / "slurm.sbatch"
    subprocess.run(["bash", "-n", script], check=True)
    for name, text in (("srun", FAKE_SRUN), ("scontrol", FAKE_SCONTROL)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    given = {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "SLURM_JOB_NODELIST": "node[3-4]",
        "SLURM_JOB_NUM_NODES": "2",
        "SLURM_JOB_ID": "1234567",
        "SLURM_CPUS_PER_TASK": "16",
        "SLURM_GPUS_ON_NODE": "4",
    }
    subprocess.run(["bash", script, "my sweeps/first.yaml", "/runs"], env=given, cwd=tmp_path, check=True)
    asked, started = (tmp_path / "srun.log").read_text().splitlines()
    assert asked == "--nodes=1 --ntasks=1 --nodelist=node3 hostname -i"
    begins, _, entrypoint = started.partition(" -- ")
    assert begins.startswith("--nodes=2 --ntasks=2 ray symmetric-run ")
    options = parsed(begins.split()[3:])
    assert (options["address"], options["min_nodes"]) == ("10.0.0.7:24567", 2)
    assert parsed(["start", "--head", *options["ray_args_and_entrypoint"]])["num_gpus"] == 4
    assert entrypoint == "crowdsweep run my sweeps/first.yaml --store /runs/first --address 10.0.0.7:24567"
    failed = subprocess.run(["bash", script], env=given, cwd=tmp_path, check=False, capture_output=True, text=True)
    assert failed.returncode != 0
    assert "a sweep file" in failed.stderr


def test_slurm_is_asked_by_lines_that_it_reads() -> None:
    head, _, rest = (CLUSTERS / "slurm.sbatch").read_text().partition("\nset -euo pipefail\n")
    lines = [line for line in head.splitlines() if line.startswith("#SBATCH")]
    assert "#SBATCH" not in rest  # behind the first command Slurm reads none
    assert len(lines) == 7
    assert all(re.fullmatch(r"#SBATCH --[a-z-]+(=\S+)?", line) for line in lines)


def check_command(line: str) -> None:
    """Has click read a command of ours without running it."""
    from crowdsweep.cli.commands import commands

    words = shlex.split(line)
    assert words[0] == "crowdsweep"
    command = commands.commands[words[1]]
    try:
        command.make_context(words[1], words[2:])
    except click.ClickException as error:
        pytest.fail(f"{line}: {error.format_message()}")


def three_lines(name: str) -> dict[str, str]:
    """Returns start, run and stop of a file, as the README has them."""
    section = README.partition(f"### `{name}`")[2].partition("\n### ")[0]
    return dict(re.findall(r"^(start|run|stop): +(.*)$", section, re.MULTILINE))


STARTED_FROM = sorted(path.name for path in CLUSTERS.iterdir() if path.suffix in (".yaml", ".sbatch"))


@pytest.mark.parametrize("name", STARTED_FROM)
def test_the_readme_says_how_to_start_run_and_stop(name: str) -> None:
    lines = three_lines(name)
    assert list(lines) == ["start", "run", "stop"]
    for line in lines.values():
        for part in re.split(r" && |; ", line):
            part = re.sub(r"^(\w+=(\$\(.*?\)|\S+) )+", "", part)
            if part.startswith("crowdsweep "):
                check_command(part)
            for words in ray_commands(part):
                if words[0] in ("submit", "attach", "up", "down", "stop", "exec"):
                    parsed(words)


@pytest.mark.parametrize("name", STARTED_FROM)
def test_what_is_to_be_filled_in_is_said_in_the_files_own_words(name: str) -> None:
    text = (CLUSTERS / name).read_text()
    values = "\n".join(line.partition("#")[0] for line in text.splitlines() if not line.startswith("#"))
    if name in ("on-premise.yaml", "aws.yaml", "gcp.yaml", *(f"{one}.yaml" for one in KUBERNETES)):
        assert PLACEHOLDER.search(values)
        assert re.search(r"[Ff]ill in", text)
