"""Run by test_frameworks.py in an environment that has Ray and JAX, with a Pod's environment: prints, as JSON, what the
two make of it. Nothing is asked of a metadata server: on GKE it knows no more than the environment says."""

import json
import os


def no_metadata(*_args, **_kwargs):
    return None


def ask_ray():
    from ray._private.accelerators import tpu

    tpu._get_tpu_metadata = no_metadata
    manager = tpu.TPUAcceleratorManager
    topology, generation = manager.get_current_node_tpu_topology(), manager.get_current_node_tpu_pod_type().split("-")[0]
    chips_per_host = tpu.get_chips_per_host(topology, generation)
    return {
        "name": manager.get_current_node_tpu_name(),
        "worker_id": manager.get_current_node_tpu_worker_id(),
        "pod_type": manager.get_current_node_tpu_pod_type(),
        "resources": manager.get_current_node_additional_resources(),
        "labels": manager.get_current_node_accelerator_labels(),
        "workers": tpu.get_num_chips_from_topology(topology) // chips_per_host,
    }


def ask_jax():
    from jax._src.clusters import cloud_tpu_cluster

    cloud_tpu_cluster.running_in_cloud_tpu_vm = True
    cloud_tpu_cluster.get_tpu_env_value_from_metadata = no_metadata
    cluster = cloud_tpu_cluster.GkeTpuCluster
    cluster.wait_for_coordinator = classmethod(no_metadata)  # its name is in no DNS here
    return {
        "present": cluster.is_env_present(),
        "process_id": cluster.get_process_id(),
        "process_count": cluster.get_process_count(),
        "coordinator": cluster.get_coordinator_address(1, None),
    }


print(json.dumps({"ray": ask_ray(), "jax": ask_jax()} if "TPU_WORKER_ID" in os.environ else {}))
