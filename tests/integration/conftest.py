from harness import cluster, namespace, operator, pytest_runtest_makereport, start_operator  # noqa: F401
