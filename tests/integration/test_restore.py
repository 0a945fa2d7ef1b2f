"""etcd is restored from a backup under a running operator: the API server's state, and its versions, go back in time."""

import pytest

from cluster import Cluster, ControlPlane, build_tools, wait_until
from harness import CRD
from ray_cluster import RayCluster, assert_whole_slices, raycluster, tpu_group, uids

OBJECTS = "ray_tpu_operator_cache_objects"


@pytest.fixture
def own_cluster(tmp_path):
    """A control plane that nobody else's tests stand on."""
    control_plane = ControlPlane(tmp_path / "control-plane", crds=[CRD])
    control_plane.start()
    try:
        yield Cluster(control_plane, build_tools())
    finally:
        control_plane.stop()


def test_the_operator_goes_on_from_a_restored_state(own_cluster, start_operator, tmp_path):
    ns = own_cluster.create_namespace("restored")
    operator = start_operator(own_cluster, webhook=False, watch_namespaces=[ns])

    def knows(**counts):
        return all(operator.metric(OBJECTS, kind=kind) == count for kind, count in counts.items())

    ray = RayCluster.create(own_cluster, ns, raycluster("ray", tpu_group(replicas=2)))
    ray.wait_pods(workers=8)
    ray.run()
    before = uids(ray.workers())
    own_cluster.control_plane.save_state(tmp_path / "backup")

    # What is lost with the restore: a scale-down and another RayCluster.
    ray.scale(1)
    ray.wait_pods(workers=4, timeout=90)
    late = RayCluster.create(own_cluster, ns, raycluster("late", tpu_group()))
    late.wait_pods(workers=4)
    wait_until(lambda: knows(pod=10, raycluster=2), "the operator knows of it")
    own_cluster.control_plane.restore_state(tmp_path / "backup")

    wait_until(lambda: knows(pod=9, raycluster=1), "the operator believes what it sees", timeout=90)
    assert uids(ray.workers()) == before, "nothing that was restored is made anew"
    ray.scale(3)
    assert_whole_slices(ray.wait_pods(workers=12, timeout=60), {("v6e", i): 4 for i in range(3)})
    ray.run()
