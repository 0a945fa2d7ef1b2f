from harness import (  # noqa: F401
    cluster,
    make_namespace,
    namespace,
    operator,
    pytest_runtest_makereport,
    start_operator,
)
from workload_controllers import (  # noqa: F401
    jobset,
    lws,
    start_kuberay,
    workload_tools,
)
