"""What users of KubeRay complain about, by the numbers of the issue threads at ray-project/kuberay (others by their repository), and
how a test says which of them it answers: by its name (test_4540_..., test_ray_54063_...) and by @pytest.mark.complaint(639, "ray#53938").
"""

import re

# Those that concern the RayCluster.
OURS = {
    "multi-host": [4540, 3552, 3902, 4171, 3274, 2084, 2105, 2044, 2820, "ray#54063", "ray#53938", 1642, 2923]
    + ["ai-on-gke#963", "ai-on-gke#1003", "ai-on-gke#858", "ai-on-gke#859", "ai-on-gke#891", 5000, 5108, 5191],
    "Pods and scaling": [4078, 1192, 1253, 747, 1936, 3286, 715, 704, 3013, 3868, 942, 733, 3738, 3909, 4001, 1739, 718]
    + [289, 234, 787, 2534, 4140, 4051, 3905, 372, 2125, 1141, 139, "ray#62340", 4720, 3388, 4767, 1557],
    "status and suspension": [2188, 991, 5088, 745, 756, 4876, 5062],
    "Services, names, labels": [571, 2151, 2224, 2564, 425, 2227, 4402, 2088, 1105, 1040],
    "templates": [2735, 2275, 988, 3837, 2063, 2361, 1166, 744, 2640],
    "operation": [2252, 685, 410, 504, 1706, "kuberay-helm#26", 440, 4149, 1120, 639],
}
# Gang schedulers, and what the controllers of RayJob and RayService do with their RayClusters.
NOT_OURS = [3768, 4656, 4686, "kueue#1844"]

REPOSITORIES = {"ray_": "ray#", "ai_on_gke_": "ai-on-gke#", "": ""}


def all_numbers():
    return [str(n) for numbers in OURS.values() for n in numbers]


def named(test):
    """The complaint a test is named after, as a list of one or none. Also works on the id of a parameter."""
    found = re.search(r"\b(?:test|complaint)_(ray_|ai_on_gke_|)(\d+)_", test)
    return [REPOSITORIES[found[1]] + found[2]] if found else []
