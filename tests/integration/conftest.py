from harness import (  # noqa: F401
    cluster,
    make_namespace,
    namespace,
    operator,
    pytest_runtest_makereport,
    start_operator,
)
